# Which session this is, what it consists of, and everything that touches Snakemake's inside: requested targets,
# the lock of a dead run, future file times, one paid job at a time, the price list.
import json
import os
import re
import sys
from functools import cache
from pathlib import Path

SCRIPTS = Path(workflow.basedir) / "workflow" / "scripts"
sys.path.insert(0, str(SCRIPTS))

from rooflab.explain import closing as summary
from rooflab.machine import cards, cluster, detect
from rooflab.plan import config as configuration
from rooflab.plan import measurements as plan
from rooflab.plan import session
from rooflab.record import publish, records
from rooflab.run import console, guard, pricelist
from snakemake_interface_executor_plugins.settings import ExecMode

try:
    config = configuration.checked(config)
    cluster.check_storage(workflow.storage_settings.default_storage_provider)
except (configuration.ConfigError, cluster.ClusterError) as error:
    sys.exit(str(error))  # one line, where a WorkflowError would wrap it in two

# jobs use the interpreter that runs Snakemake, and rule texts stay the same on every machine
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.environ["ROOFLAB_SCRIPTS"] = str(SCRIPTS)
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(SCRIPTS), os.environ.get("PYTHONPATH")])
)
if workflow.exec_mode == ExecMode.DEFAULT:  # a submitted job is handed it
    os.environ["ROOFLAB_COMMAND"] = " ".join(
        ["snakemake", *(os.path.basename(each) for each in sys.argv[1:])]
    )
os.environ["ROOFLAB_DEVICE"] = (
    "" if config["device"] in ("auto", "cpu") else config["device"]
)
os.environ["ROOFLAB_WEIGHTS"] = config["minigpt"]["weights"] or ""
os.environ["ROOFLAB_ALLOW_SHARED_GPU"] = "1" if config["allow_shared_gpu"] else ""

RESULTS = Path("results")
FIGURES = ["roofline.png", "roofline.svg", "roofline-dark.svg", "roofline-small.png"]
FREE = ["device_query.json", "peak_flops.json", "roofline.json"]
FREE += FIGURES + ["interpretation.md", "manifest.json", "report.html"]
FREE_TARGETS = {"plot", "report", "compare", "compare_check", "predict", "terminated"}
FREE_TARGETS |= {"doctor"}
KEY = r"[0-9a-f]{8}(\.\d+)?"


wildcard_constraints:
    session=session.NAME,
    key=KEY,


@cache
def this_machine():
    """The device this run measures; asked for only when something has to measure."""
    try:
        found = detect.chosen(config["device"], RESULTS)
    except detect.DetectionError as error:
        sys.exit(str(error))
    if found.uuid is not None:  # chosen once: its programs are shown this card alone
        cards.hand_over({config["session"] or found.slug: found.uuid}, at_once=False)
    return found


@cache
def these_cards():
    """The cards of `gpus` by their session's name, handed to the jobs; none where the config does not name any."""
    if config["gpus"] is None:
        return {}
    if workflow.exec_mode != ExecMode.DEFAULT and cards.handed():
        return cards.handed()
    try:
        found = cards.chosen(config["gpus"], config["device"], RESULTS)
    except detect.DetectionError as error:
        sys.exit(str(error))
    cards.hand_over(found, config["parallel_gpus"])
    if cards.at_once() > 1:
        workflow.global_resources["paid"] = cards.at_once()
        for place in CARD_SLOTS:
            workflow.global_resources[place] = 1
        print(cards.interference(len(found)), file=sys.stderr)
    return found


# one job per card where several are measured at the same time
CARD_SLOTS = {
    f"card{place}": lambda wc, place=place: int(cards.slot(wc.session) == place)
    for place in range(cards.SLOTS if config["parallel_gpus"] else 0)
}

# on a cluster every job takes its session's whole node, and so comes after the session's others; sessions go side by side
WHOLE_NODE = {}
if config["nodes"] is not None:
    WHOLE_NODE = {
        "slurm_extra": lambda wc: cluster.request(placed(wc)),
        "cpus_per_task": lambda wc: cluster.cpus(placed(wc)),
    }
    CARD_SLOTS |= WHOLE_NODE | {"gpu": 1}


def placed(wc):
    """The session, once this run knows its node; a run that only draws does not ask."""
    if measures():
        agree_on_the_place()
    return wc.session


@cache
def agree_on_the_place():
    """Whether the jobs go where the config says; a run that submits them asks Slurm for its nodes, once."""
    if dryrun or workflow.exec_mode != ExecMode.DEFAULT:
        return
    executor = workflow.executor_plugin.name
    try:
        cluster.check_run(
            workflow.local_exec, executor, config["device"], config["nodes"]
        )
        if config["nodes"] is not None:
            cluster.hand_over(cluster.places(config["nodes"]))
    except cluster.ClusterError as error:
        sys.exit(str(error))


def this_is_gpu():
    return bool(these_cards()) or this_machine().is_gpu


def these_sessions():
    """The sessions this run measures: one, one per card of `gpus`, or one per entry of `nodes`."""
    agree_on_the_place()
    named = list(config["nodes"] or these_cards())
    return named or [config["session"] or this_machine().slug]


@cache
def refuse_force():
    """Stops a run that Snakemake was told to make everything, or a measurement, anew in."""
    settings = workflow.dag_settings
    forced = {str(each) for each in [*settings.forcerun, *settings.targets]}
    outputs = {each.name: str(each.output) for each in workflow.rules}
    paid = {name for name, output in outputs.items() if re.search("/[gc]pu/", output)}
    named = forced & paid if settings.forcerun else set()
    files = {each for each in forced if re.match(r"results/[^/]+/(gpu|cpu)/", each)}
    if (
        settings.forceall
        or named
        or (files and (settings.forcerun or settings.forcetargets))
    ):
        sys.exit(
            "a forced run would measure again what is paid for, so it is refused. To draw again: snakemake -f plot. To "
            "measure one file again: rm it, then the usual command"
        )


def measures():
    """Whether this run was asked to measure: input functions see the requested targets."""
    targets = set(workflow.dag_settings.targets or ())
    return not targets or not targets <= FREE_TARGETS


@cache
def points_of(with_gpu):
    return plan.session_points(config, with_gpu)


@cache
def session_files(name):
    """The paid files of a session this run measures: what exists, and the next attempt of what does not."""
    points = points_of(this_is_gpu())
    files = session.planned_files(RESULTS / name, points)
    if not dryrun and (closed := session.closed_folder(files)):
        sys.exit(
            f"{closed}: cannot be written, and measurements are to go there: make it writable; nothing was measured"
        )
    return [str(path) for path in files]


def this_session_files():
    refuse_force()
    return [file for each in these_sessions() for file in session_files(each)]


def sessions():
    """Every session in results/, and this machine's when this run measures."""
    found = session.names(RESULTS)
    return sorted(found | set(these_sessions()) if measures() else found)


def has_gpu(name):
    if measures() and name in these_sessions():
        return this_is_gpu()
    return (RESULTS / name / "gpu").is_dir()


def records_of(wc):
    """The records of a session: the planned ones when this run measures it, else every one that exists."""
    if measures() and wc.session in these_sessions():
        return session_files(wc.session)
    return [str(path) for path in session.record_files(RESULTS / wc.session)]


def planned_of(wc):
    """A file with the plan: what the model calls a hole is what is planned and not there."""
    return plan_file(has_gpu(wc.session))


@cache
def plan_file(with_gpu):
    """The plan as JSON, in a file named by its content: another plan is another parameter of the free rules."""
    plan_ = [
        {"file": p.file(), "stage": p.stage, "side": p.side, "name": p.name}
        for p in points_of(with_gpu)
    ]
    path = Path(".snakemake") / f"rooflab.plan.{records.digest(plan_)[:8]}.json"
    if not path.exists():
        publish.write_json(path, plan_)
    return str(path)


POINTS = {point.file(): point for point in points_of(True)}


def spec_of(wc, output):
    """What a paid file shall hold, as the text its key digests."""
    file = "/".join(Path(output[0]).parts[2:])
    first = plan.first_attempt(file)
    if first not in POINTS and Path(output[0]).exists():
        return ""  # measured under another config: it lies there to be drawn, and is not measured again
    if first not in POINTS:
        sys.exit(
            f"{output[0]}: no measurement of this config has that name: it ends with the digest of its parameters"
        )
    return spec_text(first)


@cache
def spec_text(file):
    return session.spec_text(POINTS[file].spec)


# one paid job at a time, whatever --cores or --resources say; the programs' own locks hold even without it
if config["nodes"] is None:
    workflow.global_resources["paid"] = 1
console.hush()
guard.clamp_future_times(RESULTS, Path(workflow.basedir) / "workflow")
dryrun = workflow.output_settings.dryrun
if workflow.exec_mode == ExecMode.DEFAULT:
    if dryrun:
        guard.clear_if_dead()
    else:
        RUNNING = guard.take_the_run(RESULTS)
    guard.forget_paid_files(RESULTS)
    os.environ["ROOFLAB_PRICES"] = ""
    pricelist.install(workflow, config, RESULTS, POINTS, dryrun, measures)

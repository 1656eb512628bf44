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

from rooflab import configuration, console, detect, plan, pricelist, session, summary
from snakemake.exceptions import WorkflowError
from snakemake_interface_executor_plugins.settings import ExecMode

try:
    config = configuration.checked(config)
except configuration.ConfigError as error:
    raise WorkflowError(str(error))

# jobs use the interpreter that runs Snakemake, and rule texts stay the same on every machine
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
os.environ["ROOFLAB_SCRIPTS"] = str(SCRIPTS)
os.environ["ROOFLAB_COMMAND"] = " ".join(
    ["snakemake", *(os.path.basename(each) for each in sys.argv[1:])]
)
os.environ["ROOFLAB_DEVICE"] = (
    "" if config["device"] in ("auto", "cpu") else config["device"]
)
os.environ["ROOFLAB_WEIGHTS"] = config["minigpt"]["weights"] or ""
os.environ["ROOFLAB_ALLOW_SHARED_GPU"] = "1" if config["allow_shared_gpu"] else ""

RESULTS = Path("results")
FIGURES = ["roofline.png", "roofline.svg"]
FREE = ["device_query.json", "peak_flops.json", "roofline.json"]
FREE += FIGURES + ["interpretation.md", "manifest.json"]
FREE_TARGETS = {"plot", "report"}
KEY = r"[0-9a-f]{8}(\.\d+)?"


wildcard_constraints:
    session=r"[a-z0-9][a-z0-9.-]*",
    key=KEY,


@cache
def this_machine():
    """The device this run measures; asked for only when something has to measure."""
    try:
        return detect.chosen(config["device"], RESULTS)
    except detect.DetectionError as error:
        raise WorkflowError(str(error))


def this_session():
    return config["session"] or this_machine().slug


def measures():
    """Whether this run was asked to measure: input functions see the requested targets."""
    targets = set(workflow.dag_settings.targets or ())
    return not targets or not targets <= FREE_TARGETS


@cache
def this_session_files():
    """The paid files of this machine's session: what exists, and the next attempt of what does not."""
    points = plan.session_points(config, this_machine().is_gpu)
    return [
        str(path) for path in session.planned_files(RESULTS / this_session(), points)
    ]


def sessions():
    """Every session in results/, and this machine's when this run measures."""
    found = session.names(RESULTS)
    return sorted(found | {this_session()} if measures() else found)


def free_files(names):
    return [str(RESULTS / each / name) for each in sessions() for name in names]


def has_gpu(name):
    if measures() and name == this_session():
        return this_machine().is_gpu
    return (RESULTS / name / "gpu").is_dir()


def records_of(wc):
    """The records of a session: the planned ones when this run measures it, else every one that exists."""
    if measures() and wc.session == this_session():
        return this_session_files()
    return [str(path) for path in session.record_files(RESULTS / wc.session)]


def planned_of(wc):
    """The plan as JSON: what the model calls a hole is what is planned and not there."""
    points = plan.session_points(config, has_gpu(wc.session))
    return json.dumps(
        [
            {"file": p.file(), "stage": p.stage, "side": p.side, "name": p.name}
            for p in points
        ]
    )


POINTS = {point.file(): point for point in plan.session_points(config, with_gpu=True)}


def spec_of(wc, output):
    """What a paid file shall hold, as the text its key digests."""
    file = "/".join(Path(output[0]).parts[2:])
    first = re.sub(r"\.\d+\.json$", ".json", file)
    if first not in POINTS:
        raise WorkflowError(
            f"{output[0]}: no measurement of this config has that name; snakemake -n lists them"
        )
    return session.spec_text(POINTS[first].spec)


# one paid job at a time, whatever --cores or --resources say
workflow.global_resources.setdefault("paid", 1)
console.hush()
session.clamp_future_times(RESULTS)
if workflow.exec_mode == ExecMode.DEFAULT:
    dryrun = workflow.output_settings.dryrun
    if not dryrun:
        RUNNING = session.take_the_run(config)
    os.environ["ROOFLAB_PRICE_USD_PER_HOUR"] = ""
    pricelist.install(workflow, config, RESULTS, POINTS, dryrun)

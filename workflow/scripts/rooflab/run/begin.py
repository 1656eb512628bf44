"""Where the rules begin: the config is checked, the directory taken, and what the rules ask for handed to them."""

import shlex
import sys
from pathlib import Path
from typing import Any

from rooflab.explain import closing as closing_lines
from rooflab.machine import cluster
from rooflab.machine.preflight import says_not_ready
from rooflab.plan import config as configuration
from rooflab.plan import written
from rooflab.record.say import say
from rooflab.run import console, guard, pricelist
from rooflab.run.asked import Asked, hand_over
from rooflab.run.closing import Closing
from rooflab.run.code import SCRIPTS
from rooflab.run.places import Places
from rooflab.run.refusals import Refusals
from rooflab.run.targets import Targets

RESULTS, CONFIG = Path("results"), Path("config.yaml")


class Run:
    """What the rules know of this run."""

    def __init__(self, workflow: Any, config: dict[str, Any]):
        self.asked, self.config = Asked(workflow), config
        self.places = Places(self.asked, config, RESULTS)
        self.targets = Targets(self.asked, self.places, config, RESULTS)
        self.closing = Closing(self.asked, self.places, config, RESULTS)

    def end(self) -> None:
        """After a run that went well: the doctor's report, or the closing lines of the sessions."""
        if "doctor" in self.asked.targets:
            _tell(Path("logs/doctor.txt"))
        if not self.asked.silent:
            sessions = [] if self.asked.overviews else self.targets.sessions()
            measured = self.places.sessions if self.asked.measures else []
            closing_lines.show([RESULTS / each for each in sessions], bool(measured) and self.places.has_gpu, measured)


def look_around(workflow: Any) -> None:
    """What must be so before Snakemake reads the config: one line where this is another folder, or a file is not what it
    should be."""
    home = Path(workflow.basedir)
    if not home.samefile(Path.cwd()):
        sys.exit(
            f"results/ and config.yaml lie in the folder of the Snakefile, and this is {Path.cwd()}. Run it there: "
            f"cd {shlex.quote(str(home.resolve()))} && snakemake --cores 1"
        )
    if RESULTS.exists() and not RESULTS.is_dir():
        sys.exit(f"{RESULTS} is a file, and the sessions are to lie in a folder of that name: move it away")
    try:
        written.check(CONFIG)
    except configuration.ConfigError as error:
        sys.exit(str(error))


def begin(workflow: Any, config: dict[str, Any]) -> Run:
    """Checks the config, takes the directory for a run, clears what a dead one left, and hangs the price list up."""
    try:
        checked = configuration.checked(config)
        cluster.check_storage(workflow.storage_settings.default_storage_provider)
    except (configuration.ConfigError, cluster.ClusterError) as error:
        sys.exit(str(error))  # one line, where a WorkflowError would wrap it in two
    run = Run(workflow, checked)
    hand_over(run.asked, checked, str(SCRIPTS))
    run.places.limit()
    console.hush()
    if run.asked.by_user:
        console.listen(Refusals(run.asked))
        guard.begin(RESULTS, SCRIPTS.parent, run.asked.dryrun)
        pricelist.install(run.asked, run.places, run.config, RESULTS, run.targets.points)
    return run


def _tell(report: Path) -> None:
    """Prints the doctor's report and ends the run here: Snakemake's own closing lines would push it out of sight."""
    text = report.read_text(encoding="utf-8")
    say(text.rstrip())
    sys.exit(1 if says_not_ready(text) else 0)

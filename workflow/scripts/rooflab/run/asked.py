"""What Snakemake was asked to do, read from its workflow object. The requested targets stand there once the DAG is built:
input functions see them, the parsing of the rules does not."""

import os
import sys
from typing import Any

from snakemake.settings.enums import Quietness
from snakemake_interface_executor_plugins.settings import ExecMode

from rooflab.record import handover

OVERVIEWS = {"compare", "compare_check", "predict"}
FREE_TARGETS = OVERVIEWS | {"plot", "report", "terminated", "doctor"}


class Asked:
    """The request of one run: its targets, whether it is a dry-run, and whether this is the process the user started."""

    def __init__(self, workflow: Any):
        self.workflow = workflow

    @property
    def targets(self) -> set[str]:
        return set(self.workflow.dag_settings.targets or ())

    @property
    def measures(self) -> bool:
        """Whether this run was asked to measure; `plot` and the other free targets never do."""
        return not self.targets or not self.targets <= FREE_TARGETS

    @property
    def overviews(self) -> bool:
        """Whether only comparing or predicting was asked for: they close with lines of their own."""
        return bool(self.targets) and self.targets <= OVERVIEWS

    @property
    def dryrun(self) -> bool:
        return bool(self.workflow.output_settings.dryrun)

    @property
    def by_user(self) -> bool:
        """Whether this is the process that the user started, and not the re-reading of a submitted job."""
        return bool(self.workflow.exec_mode == ExecMode.DEFAULT)

    @property
    def silent(self) -> bool:
        return Quietness.ALL in (self.workflow.output_settings.quiet or ())

    @property
    def executor(self) -> str | None:
        """The name of what runs the jobs; None where Snakemake was asked to list or draw its plan, and runs none."""
        plugin = self.workflow.executor_plugin
        return None if plugin is None else str(plugin.name)

    @property
    def runs(self) -> bool:
        """Whether jobs are run: no dry-run, and no command that lists or draws the plan. Known once the DAG is built."""
        return self.executor is not None and not self.dryrun


def hand_over(asked: Asked, config: dict[str, Any], scripts: str) -> None:
    """Leaves to the jobs what the config says. They use the interpreter that runs Snakemake, so that the texts of the
    rules are the same on every machine."""
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [scripts, os.environ.get("PYTHONPATH")]))
    handover.leave(handover.SCRIPTS, scripts)
    handover.leave(handover.DEVICE, "" if config["device"] in ("auto", "cpu") else config["device"])
    handover.leave(handover.WEIGHTS, config["minigpt"]["weights"] or "")
    handover.leave(handover.ALLOW_SHARED_GPU, "1" if config["allow_shared_gpu"] else "")
    handover.leave(handover.CLOSING, {each: config[each] for each in ("terminated_usd", "price_usd_per_hour")})
    if asked.by_user:
        handover.leave(handover.COMMAND, " ".join(["snakemake", *(os.path.basename(each) for each in sys.argv[1:])]))
        handover.leave(handover.PRICES, "")

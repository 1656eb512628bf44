"""What Snakemake can be told that would lose what is paid for: refused before anything happens."""

import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snakemake.cli import parse_args

from rooflab.record.names import is_paid
from rooflab.run.asked import Asked

DAG_COMES = "Building DAG of jobs"


class Refusals(logging.Handler):
    """Listens for the moment when the command line is read and nothing has happened yet."""

    def __init__(self, asked: Asked):
        super().__init__()
        self.asked = asked

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith(DAG_COMES) and self.asked.executor is None:
            _, told = parse_args(sys.argv[1:])
            refuse_deletion(told.delete_all_output)


def refuse_deletion(delete_all_output: bool) -> None:
    """Stops `--delete-all-output`, which takes the paid records of everything it finds in the plan."""
    if delete_all_output:
        sys.exit(
            "--delete-all-output would delete measurements that are paid for, so it is refused; nothing was deleted. The free "
            "files are made anew by themselves; to remove a session: rm -r results/<session>"
        )


def refuse_force(jobs: Iterable[Any]) -> None:
    """Stops a run that would make a measurement anew that lies there, whichever switch asked for it."""
    again = [str(file) for job in jobs for file in job.output if is_paid(file) and Path(file).exists()]
    if again:
        sys.exit(
            f"a forced run would measure again what is paid for ({again[0]}{_more(len(again) - 1)}), so it is refused; nothing "
            "was done. To draw again: snakemake --cores 1 report -R roofline. To measure one file again: rm it, then the usual "
            "command"
        )


def _more(count: int) -> str:
    return f" and {count} more" if count else ""

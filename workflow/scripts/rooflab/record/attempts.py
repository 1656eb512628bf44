"""How often a measurement is tried: a failure of its own making counts, and after a few of them it is left out."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MOST = 3
OWN = "own_failure"  # in a failed record's details: whether another attempt on a free machine would end the same way


def own_failure(record: Mapping[str, Any]) -> bool:
    """Whether the record failed for a reason of its own; a busy card or memory that others held is none."""
    return record.get("status") == "failed" and bool(record["details"].get(OWN))


def spent(records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the attempts of one measurement are enough."""
    return sum(map(own_failure, records)) >= MOST


def again(path: Path) -> str:
    """What to type to try a measurement again that is left out; `path` is the record of its last attempt."""
    return f"rm {shlex.quote(str(path))} && snakemake --cores 1"

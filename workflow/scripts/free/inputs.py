"""What the free programs of the derivation are given: the command line they share, records and plan."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from rooflab.record.records import RecordError, read_record
from rooflab.record.types import Planned, Record


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The command line that every free program of the derivation shares."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--session-dir", type=Path, required=True, help="results/<session>")
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="measurement records of the session")
    parser.add_argument("--planned", type=Path, required=True, help="JSON list of planned measurements")
    parser.add_argument("--out", type=Path, required=True)
    return parser


def load(session_dir: Path, paths: Iterable[Path]) -> dict[str, Record]:
    """The verified records by their file under the session's folder. Raises RecordError for a damaged one."""
    return {path.relative_to(session_dir).as_posix(): cast(Record, read_record(path)) for path in sorted(paths)}


def loaded(session_dir: Path, paths: Iterable[Path]) -> dict[str, Record]:
    """The same for a program: a damaged record ends it with one line."""
    try:
        return load(session_dir, paths)
    except RecordError as error:
        sys.exit(str(error))


def read_plan(path: Path) -> list[Planned]:
    """The plan: a JSON list of {"file", "stage", "side", "name"}. Raises ValueError for anything else."""
    plan: list[Planned] = json.loads(path.read_text(encoding="utf-8"))
    wanted = Planned.__required_keys__
    if not isinstance(plan, list) or any(not isinstance(item, dict) or not wanted <= item.keys() for item in plan):
        raise ValueError(f"{path}: not a plan: expected a JSON list of objects with {', '.join(sorted(wanted))}")
    return plan

"""The record of the lab's last item: when a session's instance was terminated, and what it cost."""

import json
import shlex
from pathlib import Path
from typing import Any

from rooflab.record.records import RecordError


def closing_record(path: Path) -> dict[str, Any] | None:
    """A session's `terminated.json`, None while there is none. Raises RecordError where the file is not one."""
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        record = None
    if isinstance(record, dict) and {"total_usd", "terminated_at"} <= record.keys():
        return record
    raise RecordError(
        f"{path}: damaged, it does not tell when the instance was terminated and at what cost: "
        f"rm {shlex.quote(str(path))}, then snakemake --cores 1 terminated records it anew"
    )

"""How every file of the project is published: a part file beside the target, flushed, synced, renamed into place.

A file that exists is therefore complete. A killed program leaves its part file, which the next run sweeps.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rooflab.record import sums
from rooflab.record.sums import PART


@contextmanager
def published(path: Path) -> Iterator[Path]:
    """Hands out the part file to write; on leaving, it becomes `path`. An error removes it and leaves `path` as it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}{PART}")
    try:
        yield part
        _sync(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    _sync(path.parent)
    with suppress(OSError):  # the file is there, whatever becomes of its line in the sums
        sums.renew(path)


def _sync(path: Path) -> None:
    """What was written to a file, or renamed in a folder, survives a power loss from here on."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Publishes a text in UTF-8."""
    with published(path) as part:
        part.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Publishes a file as it is."""
    with published(path) as part:
        part.write_bytes(content)


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """Publishes JSON. Raises ValueError on NaN and infinity, which JSON does not have."""
    write_text(path, json.dumps(value, indent=indent, allow_nan=False, ensure_ascii=False) + "\n")


def sweep(folder: Path, name: str = "") -> None:
    """Removes the part files below a folder, or those of the file `name` alone, while nobody writes them.

    Tidying up is a courtesy: what cannot be removed stays.
    """
    for part in folder.rglob(f"{name}*{PART}") if folder.is_dir() else ():
        with suppress(OSError):
            part.unlink()

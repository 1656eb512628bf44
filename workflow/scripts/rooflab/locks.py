"""Locks that the kernel frees when their holder dies, however it dies."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

MEASURING = Path(".snakemake/rooflab.measuring")
RUNNING = Path(".snakemake/rooflab.running")


def host_lock(name: str) -> Path:
    """The lock file of one card or of this host, the same for every checkout and user of the machine."""
    return Path(tempfile.gettempdir()) / f"rooflab-{name}.lock"


def _open(path: Path) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return os.fdopen(os.open(path, os.O_RDWR), "r+")
    except FileNotFoundError:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+")
    except PermissionError:  # another user's file: reading suffices for a lock
        return os.fdopen(os.open(path, os.O_RDONLY), "r")


def take(path: Path, wait: bool = True) -> IO[str] | None:
    """Holds the lock until the returned file is closed or the process dies; None if it is taken and `wait` is false."""
    file = _open(path)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    return file


@contextmanager
def held(*paths: Path) -> Iterator[None]:
    """Holds every lock, taken in the order given."""
    files = []
    try:
        for path in paths:
            files.append(take(path))
        yield
    finally:
        for file in reversed(files):
            if file is not None:
                file.close()

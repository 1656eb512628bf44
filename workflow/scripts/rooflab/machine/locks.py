"""Locks that the kernel frees when their holder dies, however it dies; and the roll-call of measuring programs."""

import fcntl
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from rooflab.record import handover

MEASURING = Path(".snakemake/rooflab.measuring")
RUNNING = Path(".snakemake/rooflab.running")
PROC = Path("/proc")

PLACES = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # shared by all users of a host, and not a matter of TMPDIR
EVERYBODY = 0o666
PATIENCE_S = 1.0  # a dry-run looks at a lock for milliseconds; a live run holds it for good


def host_lock(name: str) -> Path:
    """The lock file of one card or of this host, the same for every checkout and user of the machine, whatever TMPDIR is."""
    return host_folder() / f"rooflab-{name}.lock"


def host_folder() -> Path:
    """Where this host's locks lie: the folder that ROOFLAB_LOCKS names, as containers need that share a card without sharing
    /tmp; else the first of PLACES that can be written to."""
    if named := handover.text(handover.LOCKS):
        return Path(named)
    return next((each for each in PLACES if os.access(each, os.W_OK | os.X_OK)), Path(tempfile.gettempdir()))


def _open(path: Path) -> IO[str]:
    """The file, made for every user of the host if it is not there. Raises OSError where it can be neither opened nor made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+")
    except FileNotFoundError:
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, EVERYBODY), "r+")
    except PermissionError:  # another user's file: reading suffices for a lock
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "r")
    with suppress(PermissionError):  # another user was quicker
        os.fchmod(file.fileno(), EVERYBODY)  # whatever the umask
    return file


def take(path: Path, wait: bool = True, shared: bool = False) -> IO[str] | None:
    """Holds the lock until the returned file is closed or the process dies; None if it is taken and `wait` is false.

    A shared lock lets other shared ones in and keeps the exclusive ones out.
    """
    file = _open(path)
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        return None
    return file


def probe(path: Path) -> None:
    """Opens the lock's file and lets go of it. Raises OSError where this user can not."""
    _open(path).close()


def take_patiently(path: Path) -> IO[str] | None:
    """The lock, or None if someone holds it for longer than PATIENCE_S."""
    give_up = time.monotonic() + PATIENCE_S
    while (file := take(path, wait=False)) is None and time.monotonic() < give_up:
        time.sleep(0.05)
    return file


@contextmanager
def held(*paths: Path, shared: bool = False) -> Iterator[None]:
    """Holds every lock, taken in the order given; one line on stderr tells what it waits for."""
    files = []
    try:
        for path in paths:
            file = take(path, wait=False, shared=shared)
            if file is None:
                print(f"another measurement holds {path}: waiting for it", file=sys.stderr, flush=True)
                file = take(path, shared=shared)
            files.append(file)
        yield
    finally:
        for file in reversed(files):
            if file is not None:
                file.close()


def measuring_programs(folder: Path, proc: Path = PROC) -> list[int]:
    """Process numbers of the measuring programs at work in `folder`, also those too young to hold their lock.

    They are known by their command line and working directory; empty where there is no /proc.
    """
    found = []
    for each in proc.iterdir() if proc.is_dir() else ():
        try:
            command = (each / "cmdline").read_bytes() if each.name.isdecimal() else b""
            ours = b".py" in command and b"--spec" in command and b"--out" in command
            if ours and os.path.samefile(each / "cwd", folder):
                found.append(int(each.name))
        except OSError:  # gone meanwhile, or another user's
            continue
    return found

"""`SHA256SUMS` of a session, as `sha256sum -c` reads it: every file of the session but itself and the ledger, which grows.

The manifest's program writes it; from then on the one writer renews the line of whatever it publishes there.
"""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "SHA256SUMS"
GROWING = "ledger.jsonl"
PART = ".part"  # ends the name of what is being written; a name that ends so is never a result
DEEPEST = 3  # <session>/<side>/<stage>/<file>


def sha256_of(path: Path, first_bytes: int | None = None) -> str:
    """The SHA-256 of a file's content, or of its beginning, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.sha256(file.read(first_bytes)).hexdigest()


def files(session_dir: Path) -> list[str]:
    """What the sums cover, by its path under the session."""
    found = (path for path in session_dir.rglob("*") if path.is_file() and path.suffix != PART)
    names = (path.relative_to(session_dir).as_posix() for path in found)
    return sorted(name for name in names if name not in (NAME, GROWING))


def write(session_dir: Path) -> None:
    """Writes the sums of a session anew, as its files lie there."""
    with _alone(session_dir):
        _put(session_dir, {name: sha256_of(session_dir / name) for name in files(session_dir)})


def renew(path: Path) -> None:
    """Enters a file that was just written in the sums of its session, if it lies in one that has them."""
    session_dir = next((each for each in path.parents[:DEEPEST] if (each / NAME).exists()), None)
    if session_dir is not None and path.name not in (NAME, GROWING):
        with _alone(session_dir):
            name = path.relative_to(session_dir).as_posix()
            _put(session_dir, read(session_dir) | {name: sha256_of(path)})


def read(session_dir: Path) -> dict[str, str]:
    """The SHA-256 of each file that the sums name; a line that is none is passed over, and its file then lacks a sum."""
    lines = (session_dir / NAME).read_text(encoding="utf-8").splitlines()
    pairs = (line.split(maxsplit=1) for line in lines)
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def differences(session_dir: Path) -> list[str]:
    """What is not as it was written: `roofline.png has changed`; empty where all is, None lying there included."""
    if not (session_dir / NAME).exists():
        return []
    told, here = read(session_dir), files(session_dir)
    changed = [name for name in here if name in told and sha256_of(session_dir / name) != told[name]]
    return [
        *(f"{name} has changed" for name in changed),
        *(f"{name} is missing" for name in sorted(told.keys() - set(here))),
        *(f"{name} is not listed" for name in here if name not in told),
    ]


def _put(session_dir: Path, sums: dict[str, str]) -> None:
    part = session_dir / f"{NAME}.{os.getpid()}{PART}"
    part.write_text("".join(f"{sums[name]}  {name}\n" for name in sorted(sums)), encoding="utf-8")
    os.replace(part, session_dir / NAME)


@contextmanager
def _alone(session_dir: Path) -> Iterator[None]:
    """Holds the session's folder, so that programs that end together enter their files one after the other."""
    handle = os.open(session_dir, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

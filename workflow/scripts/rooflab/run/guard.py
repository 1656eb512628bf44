"""One run per directory: waits for what a dead run left measuring, tidies up after it, respects a live one.

What Snakemake keeps in `.snakemake/` is never needed for correctness: a file that exists is complete, and its name says
what it holds.
"""

import base64
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from rooflab.machine import cluster, locks
from rooflab.record import publish
from rooflab.record.names import is_paid
from rooflab.record.say import say

SNAKEMAKE = Path(".snakemake")


_held: list[IO[str]] = []  # the lock of this process's run, for its life


def begin(results: Path, code: Path, dryrun: bool) -> None:
    """Takes the directory for a run. A dry-run changes nothing outside `.snakemake/`, and nothing at all while another run is
    at work."""
    if dryrun:
        clear_if_dead()
    else:
        _held.append(take_the_run(results))
        clamp_future_times(results, code)
    forget_paid_files(results)


def take_the_run(results: Path) -> IO[str]:
    """One run per directory: waits for a dead run's measuring program, clears what that run left, respects a live one.

    Exits with one line if another run is at work here or the folder cannot be written. The returned file is held for
    the life of the process.
    """
    try:
        running = locks.take_patiently(locks.RUNNING)
    except OSError as error:
        sys.exit(_closed(error))
    if running is None:
        sys.exit("another snakemake is at work in this directory: wait for it, or stop it; nothing was started")
    _wait_for_orphans()
    clear_dead_locks()
    publish.sweep(results)
    return running


def _closed(error: OSError) -> str:
    return (
        f"{SNAKEMAKE}/: cannot be written ({error.strerror}), and Snakemake keeps its notes there, also of a dry-run: make this "
        "folder writable, or copy the checkout to one that is; nothing was started"
    )


def _wait_for_orphans() -> None:
    try:
        cluster.wait_for_queue(Path.cwd())
    except cluster.ClusterError as error:
        sys.exit(f"{error}; jobs of an interrupted run may still be measuring, and nothing was started")
    if locks.measuring_programs(Path.cwd()):
        say("a measurement of an interrupted run is still going on: waiting for it, to adopt it", sys.stderr)
    while locks.measuring_programs(Path.cwd()):
        time.sleep(0.1)
    measuring = locks.take(locks.MEASURING)  # where there is no /proc, the lock alone tells
    assert measuring is not None
    measuring.close()


def clear_if_dead() -> None:
    """For a dry-run: a killed run's locks go, a live run's stay, and nobody waits."""
    try:
        running = locks.take(locks.RUNNING, wait=False)
    except OSError as error:
        sys.exit(_closed(error))
    if running is not None:
        clear_dead_locks()
        running.close()


def clear_dead_locks() -> None:
    """Removes Snakemake's own locks and its marks of unfinished outputs; an output that exists is complete."""
    for leftover in [*_files(SNAKEMAKE / "locks"), *_files(SNAKEMAKE / "incomplete")]:
        _tolerate(leftover.unlink)


def clamp_future_times(*folders: Path) -> None:
    """Sets file times that lie in the future to now: with clock skew Snakemake would delete good outputs."""
    now = time.time()
    for path in (each for folder in folders for each in _files(folder)):
        if path.stat().st_mtime > now + 1:
            _tolerate(path.touch)


def forget_paid_files(results: Path, metadata: Path = SNAKEMAKE / "metadata") -> None:
    """Drops what Snakemake remembers of paid files, and what it could not read back.

    The name of a paid file says all there is to know; memories from another checkout or an older version of the rules
    must not make Snakemake measure again, and a damaged one would stop it.
    """
    for path in _files(metadata):
        remembered = Path(_remembered(path.relative_to(metadata)))
        if (remembered.is_relative_to(results) and is_paid(remembered)) or not _is_json_object(path):
            _tolerate(path.unlink)


def _remembered(name: Path) -> str:
    """The output a metadata file is about: its name is base64, cut into folders where it is long."""
    text = "".join(part.removeprefix("@") for part in name.parts)
    try:
        return base64.b64decode(text, altchars=b"-_").decode()
    except ValueError:
        return ""


def _is_json_object(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_text(encoding="utf-8")), dict)
    except (OSError, ValueError):
        return False


def _files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()] if folder.is_dir() else []


def _tolerate(action: Callable[[], None]) -> None:
    """Tidying up is a courtesy: on a read-only mount it is left out."""
    try:
        action()
    except OSError:
        return

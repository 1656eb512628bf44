"""A session on disk: its name, its files, and the hygiene a run needs before it plans."""

import sys
import time
from pathlib import Path
from typing import IO, Any

from rooflab import locks, plan, records


def names(results: Path) -> set[str]:
    """The sessions that hold at least one measurement."""
    folders = results.iterdir() if results.is_dir() else ()
    return {each.name for each in folders if any((each / side).is_dir() for side in ("gpu", "cpu"))}


def spec_text(spec: plan.Spec) -> str:
    """The spec as the text that its key digests."""
    return records.canonical_json(spec)


def planned_files(session_dir: Path, points: list[plan.Point]) -> list[Path]:
    """One file per point: the one that exists, or, where the last attempt failed, the next attempt."""
    return [_planned(session_dir, each) for each in points]


def _planned(session_dir: Path, planned: plan.Point) -> Path:
    taken = plan.attempts(session_dir, planned)
    if not taken:
        return session_dir / planned.file()
    return session_dir / planned.file(len(taken) + 1) if _failed(taken[-1]) else taken[-1]


def _failed(path: Path) -> bool:
    """Whether a record says `failed`; one that cannot be trusted counts as present, and stops the free rules by name."""
    try:
        return bool(records.read_record(path)["status"] == "failed")
    except records.RecordError:
        return False


def record_files(session_dir: Path) -> list[Path]:
    """Every measurement record of a session, whatever parameters it was taken under."""
    return sorted(path for side in ("gpu", "cpu") for path in (session_dir / side).rglob("*.json"))


def clamp_future_times(results: Path) -> None:
    """Sets file times that lie in the future to now: with clock skew Snakemake would delete good outputs."""
    now = time.time()
    for path in results.rglob("*") if results.is_dir() else ():
        if path.is_file() and path.stat().st_mtime > now + 1:
            try:
                path.touch()
            except OSError:
                continue


def take_the_run(config: dict[str, Any]) -> IO[str]:
    """One run per directory: waits for a dead run's measuring program, clears that run's lock, respects a live one's.

    Exits with one line if another run is at work here. The returned file is held for the life of the process.
    """
    running = locks.take(locks.RUNNING, wait=False)
    if running is None:
        sys.exit("another snakemake is at work in this directory: wait for it, or stop it; nothing was started")
    measuring = locks.take(locks.MEASURING, wait=False)
    if measuring is None:
        print(
            "a measurement of an interrupted run is still going on: waiting for it, then adopting it", file=sys.stderr
        )
        measuring = locks.take(locks.MEASURING)
    assert measuring is not None
    measuring.close()
    for lock in Path(".snakemake/locks").glob("*"):
        lock.unlink(missing_ok=True)
    return running

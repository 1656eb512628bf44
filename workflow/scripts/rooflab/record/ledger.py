"""The session's ledger: an append-only line per event, so that paid seconds survive any interruption.

Events: `run start` and `run end` of a Snakemake that measures; `start` and `end` of a paid job, `pulse` while it works.
Starts have the price in force, and `launched`, when their process began. A run is paid for from its launch to the end of
its last measurement: what is drawn after it can be drawn anywhere. What has no end counts to its last event.
"""

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Event = dict[str, Any]
# A program started by hand belongs to no run: starts further apart than this are two stays on the machine.
APART_S = 60.0
RUN_START, RUN_END = "run start", "run end"


def append(path: Path, event: str, **fields: Any) -> None:
    """Adds one line. A line is one write, so that lines of several processes never mix. Raises ValueError for a NaN."""
    now = {"event": event, "time": round(time.time(), 3)} | _since_boot()
    line = json.dumps(now | fields, sort_keys=True, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(line)


def _since_boot() -> dict[str, Any]:
    """The clock that nobody sets, and which boot it counts from; nothing where the kernel has neither."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]
        return {"boot": boot, "uptime_s": round(time.clock_gettime(time.CLOCK_BOOTTIME), 3)}
    except (OSError, AttributeError):
        return {}


def launched() -> float:
    """Unix time at which this process began, as /proc tells it; now where it does not."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        age_s = 0.0
    return round(time.time() - max(0.0, age_s), 3)


def read(path: Path) -> list[Event]:
    """The events in order; a line cut or damaged by a full disk or a power loss is passed over."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    return _on_one_clock([event for line in lines if (event := _event(line)) is not None])


def _on_one_clock(events: list[Event]) -> list[Event]:
    """The events with the times of one boot counted from its first: a clock that was set in between bills nothing."""
    first: dict[str, Event] = {}
    told = []
    for event in events:
        if "uptime_s" in event and "boot" in event:
            begin = first.setdefault(event["boot"], event)
            now = round(begin["time"] + event["uptime_s"] - begin["uptime_s"], 3)
            moved = {name: event[name] + now - event["time"] for name in ("launched",) if name in event}
            event = event | {"time": now} | moved
        told.append(event)
    return told


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line.decode("utf-8"))
    except ValueError:
        return None
    whole = isinstance(event, dict) and "event" in event and "time" in event and _numbers(event)
    return event if whole else None


def counted_bytes(path: Path) -> int:
    """How many of the ledger's first bytes decide what was paid: all but the ends of runs behind the last measurement."""
    counted = seen = 0
    for line in path.read_bytes().splitlines(keepends=True) if path.exists() else []:
        seen += len(line)
        if (event := _event(line)) is not None and event["event"] != RUN_END:
            counted = seen
    return counted


def _numbers(event: Event) -> bool:
    """Whether the event's times and its price, where it has one, can be counted with."""
    given = [event["time"], event.get("launched", 0.0), event.get("uptime_s", 0.0)]
    if (price := event.get("price_usd_per_hour")) is not None:
        given.append(price)
    return all(isinstance(each, int | float) and math.isfinite(each) for each in given)


def newest(books: list[Path]) -> Path | None:
    """The ledger with the most recent event; None where none of them has one."""
    last = {book: max(float(event["time"]) for event in events) for book in books if (events := read(book))}
    return max(last, key=lambda book: last[book], default=None)


@dataclass
class Stay:
    """An uninterrupted stretch of time, in unix seconds: a run, or one job of it, `working` once its device was open."""

    begin: float
    working: float
    last: float
    price_usd_per_hour: float | None = None
    name: str = ""
    stage: str = ""
    ended: bool = False
    gone: float | None = None  # when the run itself was over, figures included

    @property
    def seconds(self) -> float:
        return max(0.0, self.last - self.begin)


def stays(events: list[Event]) -> tuple[list[Stay], list[Stay]]:
    """The runs and the jobs of a ledger, in order and without overlap."""
    runs: list[Stay] = []
    jobs: dict[str, Stay] = {}
    for event in events:
        what, now = event["event"], float(event["time"])
        if what == RUN_START:
            runs.append(_begun(event, runs, event.get("run", "")))
        elif what == RUN_END:
            for run in (r for r in runs if r.name == event.get("run")):
                run.gone, run.ended = max(run.last, now), True
        elif what == "start" and event.get("job"):
            job = _begun(event, list(jobs.values()), event["job"])
            if _alone(job, runs):
                runs.append(_begun(event, runs, ""))
            jobs[event["job"]] = job
        if (known := jobs.get(event.get("job", ""))) is not None:
            known.last = max(known.last, now)
            known.ended |= what == "end"
            runs[-1].last = max(runs[-1].last, now)
    return runs, list(jobs.values())


def _begun(event: Event, before: list[Stay], name: str) -> Stay:
    """A stay from its process's launch, but not from before the end of the one before; a clock set back hides no second."""
    now = float(event["time"])
    begin = min(now, float(event.get("launched", now)))
    if before and now >= before[-1].last:
        begin = max(begin, before[-1].last)
    return Stay(begin, now, now, event.get("price_usd_per_hour"), name, event.get("stage", ""))


def _alone(job: Stay, runs: list[Stay]) -> bool:
    """Whether a job belongs to no run so far: none, or one that ended or fell silent long before."""
    if not runs:
        return True
    in_it = bool(runs[-1].name) and not runs[-1].ended
    return not in_it and abs(job.begin - (runs[-1].gone or runs[-1].last)) > APART_S


def summary(path: Path) -> dict[str, Any]:
    """Paid wall seconds and dollars of all runs, start-up and gaps between jobs included.

    {"paid_s", "usd" (None where a run had no price), "runs", "interrupted" (jobs without an end), "stages": {stage:
    seconds of its jobs}}; what the stages lack to `paid_s` is Snakemake's.
    """
    runs, jobs = stays(read(path))
    stages: dict[str, float] = {}
    for job in jobs:
        stages[job.stage] = stages.get(job.stage, 0.0) + job.seconds
    return {
        "paid_s": sum(run.seconds for run in runs),
        "usd": usd(runs),
        "runs": len(runs),
        "interrupted": sum(not job.ended for job in jobs),
        "stages": dict(sorted(stages.items())),
    }


def usd(runs: list[Stay]) -> float | None:
    """What the runs cost at the price that was in force in each; None where one of them, or there is none, had a price."""
    prices = [run.price_usd_per_hour for run in runs]
    if not prices or None in prices:
        return None
    return sum(run.seconds / 3600 * (run.price_usd_per_hour or 0.0) for run in runs)

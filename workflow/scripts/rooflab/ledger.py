"""The session's ledger: an append-only line per event, so that paid seconds survive any interruption.

Events: `start` and `end` of a paid job, `pulse` while it works; each with the price in force. A job without an end
counts up to its last pulse.
"""

import json
import time
from pathlib import Path
from typing import Any


def append(path: Path, event: str, **fields: Any) -> None:
    """Adds one line. A line is one write, so that lines of several processes never mix."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"event": event, "time": round(time.time(), 3)} | fields, sort_keys=True) + "\n"
    with open(path, "a", encoding="utf-8") as file:
        file.write(line)


def read(path: Path) -> list[dict[str, Any]]:
    """The events in order; a line cut by a full disk or a power loss is passed over."""
    events = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and "event" in event and "time" in event:
            events.append(event)
    return events


def summary(path: Path) -> dict[str, Any]:
    """Paid wall seconds and dollars: {"paid_s", "usd" (None without a price), "interrupted", "stages": {stage: seconds}}."""
    jobs: dict[str, dict[str, Any]] = {}
    for event in read(path):
        job = event.get("job")
        if event["event"] == "start" and job:
            jobs[job] = {"stage": event["stage"], "begin": event["time"], "last": event["time"], "ended": False}
            jobs[job]["price"] = event.get("price_usd_per_hour")
        elif job in jobs:
            jobs[job]["last"] = max(jobs[job]["last"], event["time"])
            jobs[job]["ended"] |= event["event"] == "end"
    stages: dict[str, float] = {}
    usd: float | None = 0.0
    for each in jobs.values():
        seconds = each["last"] - each["begin"]
        stages[each["stage"]] = stages.get(each["stage"], 0.0) + seconds
        usd = None if usd is None or each["price"] is None else usd + seconds / 3600 * each["price"]
    return {
        "paid_s": sum(stages.values()),
        "usd": usd if jobs else None,
        "interrupted": sum(not each["ended"] for each in jobs.values()),
        "stages": dict(sorted(stages.items())),
    }

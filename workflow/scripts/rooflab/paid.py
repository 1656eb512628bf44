"""The frame of every program that measures: one at a time, on the right machine, published atomically, entered in the ledger."""

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflab import announce, environment, identity, ledger, locks, records
from rooflab.protocol import PULSE_S, Bench
from rooflab.station import Station, open_station

RESULTS_LOST = 3  # exit status: the wrong machine or a lost device; everything stops, nothing was written


class Failed(Exception):
    """The measurement could not be taken this time: published as a record, planned again by the next run."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy


class Unsupported(Exception):
    """This device can never do it: published as a final record."""


@dataclass
class Measurement:
    """What a stage hands back."""

    operator: str | None = None
    dtype: str | None = None
    shape: dict[str, int] = field(default_factory=dict)
    series: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    status: str = "measured"
    reason: str | None = None
    remedy: str | None = None


Measure = Callable[[dict[str, Any], Bench], Measurement]


@dataclass(frozen=True)
class Job:
    """One output file and what it shall hold."""

    spec: dict[str, Any]
    out: Path

    @property
    def session_dir(self) -> Path:
        below = self.out.parts[::-1].index(self.spec["side"])
        return Path(*self.out.parts[: len(self.out.parts) - below - 1])

    @property
    def name(self) -> str:
        return self.out.name.split(".")[0]

    @property
    def attempt(self) -> int:
        parts = self.out.name.split(".")
        return int(parts[2]) if len(parts) == 4 else 1


def main(measure: Measure, side: str) -> None:
    """Runs one paid program from its command line: `--spec JSON --out FILE`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", required=True, type=json.loads)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    job = Job(arguments.spec, arguments.out)
    try:
        run(measure, side, job)
    except identity.WrongMachine as error:
        sys.exit(_stop(job, str(error)))
    except Exception as error:
        if arguments.log:
            arguments.log.parent.mkdir(parents=True, exist_ok=True)
            arguments.log.write_text(traceback.format_exc())
        where = f" (details: {arguments.log})" if arguments.log else ""
        sys.exit(_stop(job, f"{type(error).__name__}: {error}{where}"))


def _stop(job: Job, why: str) -> int:
    print(f"{job.out}: not measured: {why}", file=sys.stderr, flush=True)
    return RESULTS_LOST


def run(measure: Measure, side: str, job: Job, opener: Callable[[str], Station] = open_station) -> None:
    """Measures under the locks and publishes; adopts a result that a program waited for has published meanwhile."""
    with locks.held(locks.MEASURING, locks.host_lock("host")):
        if job.out.exists():
            records.read_record(job.out)
            print(f"{job.out}: adopted, measured by an interrupted run", flush=True)
            return
        for leftover in job.out.parent.glob(f"{job.out.name}.*.part"):
            leftover.unlink()
        station = opener(side)
        try:
            with locks.held(*station.lock_files):
                identity.check(job.session_dir, side, station.identity)
                _measure_and_publish(measure, job, station)
        finally:
            station.close()


def _measure_and_publish(measure: Measure, job: Job, station: Station) -> None:
    book = job.session_dir / "ledger.jsonl"
    price = os.environ.get("ROOFLAB_PRICE_USD_PER_HOUR")
    ticket = {
        "job": f"{job.out.name}@{os.getpid()}-{int(time.time())}",
        "stage": f"{job.spec['side']}/{job.spec['stage']}",
    }
    started_at, begin = environment.now_iso(), time.perf_counter()
    ledger.append(book, "start", **ticket, price_usd_per_hour=float(price) if price else None)
    station.bench.pulse = _Pulse(book, ticket, job)
    taken = _attempt(measure, job, station)
    record = _record(job, station, taken, started_at, time.perf_counter() - begin)
    records.check_schema("measurement", record, str(job.out))
    records.write_json(job.out, record, indent=None)
    ledger.append(book, "end", **ticket, status=taken.status)
    print(announce.line(record), flush=True)


def _attempt(measure: Measure, job: Job, station: Station) -> Measurement:
    dtype = job.spec.get("dtype")
    try:
        return measure(job.spec, station.bench)
    except Unsupported as error:
        return Measurement(dtype=dtype, status="unsupported", reason=str(error))
    except Failed as error:
        return Measurement(dtype=dtype, status="failed", reason=str(error), remedy=error.remedy)
    except MemoryError as error:
        return Measurement(dtype=dtype, status="failed", reason=f"out of memory: {error}", remedy=station.memory_remedy)


def _record(job: Job, station: Station, taken: Measurement, started_at: str, seconds: float) -> records.Record:
    body = {
        "schema": "measurement",
        "schema_version": records.MEASUREMENT_VERSION,
        "stage": job.spec["stage"],
        "side": job.spec["side"],
        "name": job.name,
        "key": records.digest(job.spec)[:8],
        "attempt": job.attempt,
        "spec": job.spec,
        "status": taken.status,
        "reason": taken.reason,
        "remedy": taken.remedy,
        "operator": taken.operator,
        "dtype": taken.dtype,
        "shape": taken.shape,
        "series": taken.series,
        "details": taken.details,
        "device": station.identity,
        "environment": environment.collect() | station.environment,
        "started_at": started_at,
        "seconds": seconds,
    }
    return records.seal(json.loads(json.dumps(body)))


class _Pulse:
    """The sign of life: a ledger line, and from ten seconds on a line for the reader, at most every five seconds."""

    def __init__(self, book: Path, ticket: dict[str, Any], job: Job) -> None:
        self.book, self.ticket, self.job = book, ticket, job
        self.begin = self.last = time.monotonic()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last < PULSE_S:
            return
        self.last = now
        ledger.append(self.book, "pulse", **self.ticket)
        if now - self.begin >= 10:
            print(f"  … {self.job.name}: {text}, {now - self.begin:.0f} s", flush=True)

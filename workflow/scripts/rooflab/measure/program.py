"""The frame of every program that measures: one at a time, on the right machine, published atomically, entered in the ledger."""

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from rooflab.machine import cards, cluster, locks
from rooflab.measure import announce
from rooflab.measure.bench import PULSE_S, Bench
from rooflab.measure.job import Job
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.station import Opener, Station, open_station
from rooflab.record import environment, handover, identity, ledger, publish, records

RESULTS_LOST = 3  # exit status: the wrong machine or a lost device; everything stops, nothing was written

Measure = Callable[[dict[str, Any], Bench], Measurement]


def main(measure: Measure, side: str, opener: Opener) -> None:
    """Runs one paid program, on the station that `opener` finds, from its command line: `--spec JSON --out FILE`, and
    `--beside JSON` for what may be measured in turns with it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--spec", required=True, type=json.loads)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--beside", type=json.loads, default=[])
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    beside = tuple(Job(each["spec"], Path(each["out"])) for each in arguments.beside)
    job = Job(arguments.spec, arguments.out, beside)
    try:
        run(measure, side, job, partial(open_station, opener), shield=_ignore_signals)
    except identity.WrongMachine as error:
        sys.exit(_stop(job, str(error)))
    except KeyboardInterrupt:
        sys.exit(_stop(job, "interrupted; the same command goes on from here"))
    except Exception as error:
        sys.exit(_stop(job, f"{type(error).__name__}: {error}{_log_traceback(arguments.log)}"))


def _log_traceback(log: Path | None) -> str:
    """Writes the traceback being handled; where it can be read, or nothing where it could not be written."""
    if log is None:
        return ""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(traceback.format_exc())
    except OSError:
        return ""
    return f" (details: {log})"


def _stop(job: Job, why: str) -> int:
    _say(f"{job.out}: not measured: {why}", sys.stderr)
    return RESULTS_LOST


def _say(text: str, stream: TextIO | None = None) -> None:
    """Prints a line. A program that outlived its terminal goes on without one."""
    try:
        print(text, file=stream or sys.stdout, flush=True)
    except OSError:
        return


def _ignore_signals() -> None:
    """Once a result is there, no signal is worth losing it: the program ends by itself in milliseconds."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)


def _nothing() -> None:
    return None


def run(
    measure: Measure,
    side: str,
    job: Job,
    opener: Callable[[], Station],
    shield: Callable[[], None] = _nothing,
) -> None:
    """Measures under the locks and publishes; adopts a result that a program waited for has published meanwhile.

    `shield` is called once there is a result, before it is written.
    """
    cluster.check(job.session_dir.name)
    uuid = cards.aim(job.session_dir.name) if side == "gpu" else None
    with cards.turn(uuid):
        if job.out.exists():
            records.read_record(job.out)
            _say(f"{job.out}: adopted, measured by an interrupted run")
            return
        if job.ready.exists():
            job.ready.replace(job.out)
            records.read_record(job.out)
            _say(f"{job.out}: adopted, measured in turns with another")
            return
        publish.sweep(job.out.parent, f"{job.out.name}.")
        station = opener()
        try:
            with locks.held(*station.lock_files):
                stranger = _stranger(job, side, station)
                cards.check(uuid, station.identity)
                at_home = side == "cpu" and stranger is None
                if at_home and (sibling := cards.adopt_host_record(job.out, job.session_dir, station.identity)):
                    _say(f"{job.out}: adopted from {sibling}, the same host")
                    return
                _measure_and_publish(_refusal(stranger) if stranger else measure, job, station, shield)
        finally:
            station.close()


def _stranger(job: Job, side: str, station: Station) -> identity.WrongMachine | None:
    """Another host beside a GPU's session spoils its CPU part alone. Raises WrongMachine where the session itself is another's."""
    try:
        identity.check(job.session_dir, side, station.identity)
    except identity.WrongMachine as error:
        if side == "gpu" or not (job.session_dir / "gpu").is_dir():
            raise
        return error
    return None


def _refusal(stranger: identity.WrongMachine) -> Measure:
    def refuse(spec: dict[str, Any], bench: Bench) -> Measurement:
        raise Failed(
            str(stranger), "run the same command on the session's own host, or give this one a session of its own"
        )

    return refuse


def _measure_and_publish(measure: Measure, job: Job, station: Station, shield: Callable[[], None]) -> None:
    book = job.session_dir / "ledger.jsonl"
    price = handover.mapping(handover.PRICES).get(job.session_dir.name)
    ticket = {
        "job": f"{job.out.name}@{os.getpid()}-{int(time.time())}",
        "stage": f"{job.spec['side']}/{job.spec['stage']}",
    }
    started_at, begin = environment.now_iso(), time.perf_counter()
    ledger.append(book, "start", **ticket, launched=ledger.launched(), price_usd_per_hour=price)
    station.bench.pulse = _Pulse(book, ticket, job)
    beside = [each for each in job.beside if not (each.out.exists() or each.ready.exists())]
    station.bench.beside = tuple(each.spec for each in beside)
    taken = _attempt(measure, job, station)
    others = [(each, other) for each, other in zip(beside, taken.beside, strict=False) if other is not None]
    seconds = (time.perf_counter() - begin) / (1 + len(others))
    made = [_record(each, station, result, started_at, seconds) for each, result in [(job, taken), *others]]
    for record in made:
        records.check_schema("measurement", record, str(job.out))
    shield()
    for target, record in zip([job.out, *(each.ready for each, _ in others)], made, strict=True):
        publish.write_json(target, record, indent=None)
    _note(book, "end", ticket, status=taken.status)
    for record in made:
        _say(announce.line(record))


def _note(book: Path, event: str, ticket: dict[str, Any], **fields: Any) -> None:
    """A line in the ledger beside a measurement under way or done: a full disk must not cost the measurement."""
    try:
        ledger.append(book, event, **ticket, **fields)
    except OSError as error:
        _say(f"{book}: {event} not noted ({error.strerror})", sys.stderr)


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
        "key": records.key_of(job.spec),
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
        "environment": environment.collect() | station.environment | cards.company(),
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
        _note(self.book, "pulse", self.ticket)
        if now - self.begin >= 10:
            _say(f"  … {self.job.name}: {text}, {now - self.begin:.0f} s")

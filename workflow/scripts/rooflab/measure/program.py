"""The frame of every program that measures: one at a time, on the right machine, published atomically, entered in the ledger."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rooflab.machine import cards, cluster, locks, preflight
from rooflab.machine.causes import Cause, cause_of
from rooflab.measure import announce
from rooflab.measure.aftermath import leave, log_traceback, tolerated
from rooflab.measure.bench import Bench
from rooflab.measure.disturbance import Watch
from rooflab.measure.job import Job
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.pulse import Pulse, note
from rooflab.measure.station import Opener, Station, open_station
from rooflab.record import attempts, environment, handover, identity, ledger, publish, records
from rooflab.record.say import say
from rooflab.record.types import Json

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
    given = parser.parse_args()
    beside = tuple(Job(each["spec"], Path(each["out"])) for each in given.beside)
    job = Job(given.spec, given.out, beside, given.log)
    try:
        run(measure, side, job, partial(open_station, opener), shield=_ignore_signals)
    except KeyboardInterrupt:
        _stop(job, "interrupted; the same command goes on from here")
    except (identity.WrongMachine, preflight.NotReady) as error:
        _stop(job, str(error))
    except Exception as error:
        _stop(job, f"{type(error).__name__}: {error}{log_traceback(job.log)}")
    leave(0)


def _stop(job: Job, why: str) -> None:
    """Ends the program with its reason; with success all the same where the record is there already."""
    if job.out.exists():
        say(f"{job.out}: kept; afterwards: {why}", sys.stderr)
        leave(0)
    say(f"{job.out}: not measured: {why}", sys.stderr)
    leave(RESULTS_LOST)


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

    `shield` is called once there is a result, before it is written. Nothing after that raises.
    """
    cluster.check(job.session_dir.name)
    uuid = cards.aim(job.session_dir.name) if side == "gpu" else None
    with cards.turn(uuid):
        if job.out.exists():
            records.read_record(job.out)
            say(f"{job.out}: adopted, measured by an interrupted run")
            return
        if job.ready.exists():
            job.ready.replace(job.out)
            records.read_record(job.out)
            say(f"{job.out}: adopted, measured in turns with another")
            return
        publish.sweep(job.out.parent, f"{job.out.name}.")
        station = opener()
        try:
            with locks.held(*station.lock_files):
                stranger = _stranger(job, side, station)
                cards.check(uuid, station.identity)
                at_home = side == "cpu" and stranger is None
                if at_home and (sibling := cards.adopt_host_record(job.out, job.session_dir, station.identity)):
                    say(f"{job.out}: adopted from {sibling}, the same host")
                    return
                _measure_and_publish(_refusal(stranger) if stranger else measure, job, station, shield)
        finally:
            tolerated("closing the device", station.close, job.log)


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
        remedy = "run the same command on the session's own host, or give this one a session of its own"
        raise Failed(str(stranger), remedy, own=False)

    return refuse


def _measure_and_publish(measure: Measure, job: Job, station: Station, shield: Callable[[], None]) -> None:
    book = job.session_dir / "ledger.jsonl"
    price = handover.mapping(handover.PRICES).get(job.session_dir.name)
    ticket = {
        "job": f"{job.out.name}@{os.getpid()}-{int(time.time())}",
        "stage": f"{job.spec['side']}/{job.spec['stage']}",
    }
    station.environment["warnings"] = [
        *station.environment.get("warnings", []),
        *identity.drift(job.session_dir, job.spec["side"], station.identity),
    ]
    started_at, begin = environment.now_iso(), time.perf_counter()
    ledger.append(book, "start", **ticket, launched=ledger.launched(), price_usd_per_hour=price)
    beside = [each for each in job.beside if not (each.out.exists() or each.ready.exists())]
    station.bench.beside = tuple(each.spec for each in beside)
    with Pulse(book, ticket, job.name) as station.bench.pulse, Watch(station.cpus) as watch:
        taken = _attempt(measure, job, station)
    station.environment["warnings"] += watch.warnings(taken.series)
    if station.cpus is not None:
        taken.details["host_load"] = watch.load
    others = [(each, other) for each, other in zip(beside, taken.beside, strict=False) if other is not None]
    seconds = (time.perf_counter() - begin) / (1 + len(others))
    record = _record(job, station, taken, started_at, seconds)
    records.check_schema("measurement", record, str(job.out))
    shield()
    publish.write_json(job.out, record, indent=None)
    tolerated("the ledger's line", partial(note, book, "end", ticket, status=taken.status), job.log)
    tolerated("the closing line", lambda: say(announce.line(record)), job.log)
    for each, other in others:
        made = partial(_record, each, station, other, started_at, seconds)
        tolerated(f"publishing {each.ready}", partial(_publish_beside, each, made), job.log)


def _publish_beside(job: Job, made: Callable[[], Json]) -> None:
    """A record that was measured in turns with another waits for its own job."""
    record = made()
    records.check_schema("measurement", record, str(job.out))
    publish.write_json(job.ready, record, indent=None)
    say(announce.line(record))


def _attempt(measure: Measure, job: Job, station: Station) -> Measurement:
    """What the stage hands back, or why there is nothing. Raises what is the machine's affair: that stops everything."""
    try:
        return measure(job.spec, station.bench)
    except Unsupported as error:
        return Measurement(dtype=job.spec.get("dtype"), status="unsupported", reason=str(error))
    except Failed as error:
        return _failure(job, Cause(str(error), error.remedy, error.own))
    except (identity.WrongMachine, preflight.NotReady):
        raise
    except Exception as error:
        cause = cause_of(error, station.crowded, station.memory_remedy)
        log_traceback(job.log, cause.reason)
        return _failure(job, cause)


def _failure(job: Job, cause: Cause) -> Measurement:
    """A failed measurement; one that is left out from here on says how to ask for it again."""
    remedy = cause.remedy
    details: dict[str, Any] = {attempts.OWN: cause.own}
    if attempts.spent([*job.earlier(), {"status": "failed", "details": details}]):
        remedy += f"; left out after {attempts.MOST} such failures, to try it again: {attempts.again(job.out)}"
    return Measurement(
        dtype=job.spec.get("dtype"), status="failed", reason=cause.reason, remedy=remedy, details=details
    )


def _record(job: Job, station: Station, taken: Measurement, started_at: str, seconds: float) -> Json:
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

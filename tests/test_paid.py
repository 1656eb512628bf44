"""A paid program publishes once, adopts, refuses the wrong machine, and never lets a failure stand in the way."""

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rooflab.machine import locks, preflight
from rooflab.measure import program, pulse
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.cublaslt import LtError
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.station import Station
from rooflab.plan import measurements, session
from rooflab.plan.points import Point
from rooflab.record import attempts, identity, ledger, names, records

CPU = {"name": "Some CPU", "cores_physical": 2, "threads": 2}


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> program.Job:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locks, "host_lock", lambda name: tmp_path / f"{name}.lock")
    point = measurements.point("launch_floor", "cpu", "launch_floor", warmups=1, iterations=10)
    return program.Job(point.spec, Path("results/here") / point.file())


def station(**changes: object) -> Station:
    return Station(Bench(), CPU | changes)


def floor(spec: dict, bench: Bench) -> Measurement:
    series = bench.sync_each(
        lambda: None, name="sync_each", implementation="x", warmups=1, iterations=spec["iterations"]
    )
    return Measurement(operator="empty_launch", series=[series])


def test_a_measurement_is_published_under_its_key_and_trusted(
    job: program.Job, capsys: pytest.CaptureFixture[str]
) -> None:
    program.run(floor, "cpu", job, station)
    record = records.read_record(job.out)
    assert record["status"] == "measured" and len(record["series"][0]["samples_s"]) == 10
    assert "launch_floor" in capsys.readouterr().out
    assert not list(job.out.parent.glob("*.part"))


def test_what_an_orphan_published_is_adopted_not_measured_again(job: program.Job) -> None:
    program.run(floor, "cpu", job, station)
    before = job.out.read_bytes()
    program.run(lambda spec, bench: pytest.fail("measured twice"), "cpu", job, station)
    assert job.out.read_bytes() == before


def test_a_failure_is_a_record_with_its_remedy(job: program.Job) -> None:
    def fails(spec: dict, bench: Bench) -> Measurement:
        raise Failed("no memory left", "close the other program")

    program.run(fails, "cpu", job, station)
    record = records.read_record(job.out)
    assert (record["status"], record["reason"], record["remedy"]) == (
        "failed",
        "no memory left",
        "close the other program",
    )


def test_a_failed_attempt_is_planned_again_without_touching_its_record(job: program.Job) -> None:
    def fails(spec: dict, bench: Bench) -> Measurement:
        raise Failed("busy", "wait")

    program.run(fails, "cpu", job, station)
    point = Point("launch_floor", "cpu", "launch_floor", job.spec)
    [again] = session.planned_files(job.session_dir, [point])
    assert again == job.session_dir / point.file(2)
    first = job.out.read_bytes()
    program.run(floor, "cpu", program.Job(job.spec, again), station)
    assert job.out.read_bytes() == first and records.read_record(again)["attempt"] == 2
    assert session.planned_files(job.session_dir, [point]) == [again]


def test_unsupported_is_final(job: program.Job) -> None:
    def cannot(spec: dict, bench: Bench) -> Measurement:
        raise Unsupported("no such unit")

    program.run(cannot, "cpu", job, station)
    point = Point("launch_floor", "cpu", "launch_floor", job.spec)
    assert session.planned_files(job.session_dir, [point]) == [job.out]


@pytest.mark.parametrize("change", [{"name": "Other CPU"}, {"cores_physical": 4}, {"threads": 4}])
def test_another_host_is_refused_before_measuring(job: program.Job, change: dict) -> None:
    program.run(floor, "cpu", job, station)
    other = program.Job(job.spec, job.out.with_name(job.out.name.replace(".json", ".2.json")))
    with pytest.raises(identity.WrongMachine, match="not the one of the session here"):
        program.run(lambda spec, bench: pytest.fail("measured"), "cpu", other, lambda: station(**change))
    assert not other.out.exists()


def test_another_card_of_the_same_model_goes_on_and_another_power_limit_does_not() -> None:
    card = {"name": "NVIDIA H200", "sm_count": 132, "mig": None, "power_limit_w": 700.0, "memory_bytes": 150e9}
    assert (
        identity._differences("gpu", card | {"uuid": "GPU-1"}, card | {"uuid": "GPU-2", "memory_bytes": 150.1e9}) == []
    )
    assert identity._differences("gpu", card, card | {"power_limit_w": 500.0}) != []
    assert identity._differences("gpu", card, card | {"sm_count": 16, "mig": "1g.18gb"}) != []
    assert identity._differences("gpu", card, card | {"memory_bytes": 100e9}) != []


def typed(job: program.Job, monkeypatch: pytest.MonkeyPatch, measure: program.Measure, opener: Any) -> int:
    """The exit status of the program, as the command line starts it."""

    def leave(status: int) -> None:
        raise SystemExit(status)

    given = ["--spec", records.canonical_json(job.spec), "--out", str(job.out), "--log", "logs/l.log"]
    monkeypatch.setattr("sys.argv", ["x", *given])
    monkeypatch.setattr(program, "leave", leave)
    monkeypatch.setattr(program, "_ignore_signals", lambda: None)
    with pytest.raises(SystemExit) as stop:
        program.main(measure, "cpu", opener)
    return int(str(stop.value.code))


def breaking(error: Exception) -> program.Measure:
    def breaks(spec: dict, bench: Bench) -> Measurement:
        raise error

    return breaks


@pytest.mark.parametrize(
    "error", [RuntimeError("cudaErrorIllegalAddress: x"), IndexError("empty"), LtError("cublasLtMatmul", 15)]
)
def test_an_error_of_one_measurement_is_its_record_and_the_program_succeeds(
    job: program.Job, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert typed(job, monkeypatch, breaking(error), lambda weights: station()) == 0
    record = records.read_record(job.out)
    assert record["status"] == "failed" and str(error) in record["reason"] and record["remedy"]
    assert attempts.own_failure(record)
    assert "Traceback" in Path("logs/l.log").read_text()


@pytest.mark.parametrize(
    "error", [RuntimeError("cudaErrorECCUncorrectable: x"), preflight.NotReady("no weights", "give them")]
)
def test_an_error_of_the_machine_writes_nothing_and_exits_non_zero(
    job: program.Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    assert typed(job, monkeypatch, breaking(error), lambda weights: station()) == program.RESULTS_LOST
    assert not job.out.exists() and "not measured" in capsys.readouterr().err


class Ascii(io.TextIOWrapper):
    """A terminal without the letter for micro."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="ascii")


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream


@pytest.mark.parametrize("stdout", [Ascii, lambda: None, closed])
def test_no_terminal_costs_a_record(
    job: program.Job, monkeypatch: pytest.MonkeyPatch, stdout: Callable[[], Any]
) -> None:
    monkeypatch.setattr("sys.stdout", stdout())
    assert typed(job, monkeypatch, floor, lambda weights: station()) == 0
    assert records.read_record(job.out)["status"] == "measured"


def test_what_fails_after_publishing_is_named_in_the_log_and_changes_nothing(
    job: program.Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("cudaErrorLaunchFailure: unspecified launch failure")

    opened = station()
    opened.close = refuse
    monkeypatch.setattr("rooflab.measure.announce.line", refuse)
    assert typed(job, monkeypatch, floor, lambda weights: opened) == 0
    assert records.read_record(job.out)["status"] == "measured"
    log = Path("logs/l.log").read_text()
    assert "closing the device failed: RuntimeError: cudaErrorLaunchFailure" in log and "the closing line failed" in log
    assert "closing the device failed" in capsys.readouterr().err


def attempt(job: program.Job, number: int) -> program.Job:
    name, key, *_ = job.out.name.split(".")
    return program.Job(job.spec, job.out.with_name(names.file_name(name, key, number)))


@pytest.mark.parametrize(
    ("failure", "left_out"),
    [
        (RuntimeError("cudaErrorIllegalAddress"), True),
        (Failed("wrong result", "report"), True),
        (Failed("busy", "wait", own=False), False),
        (RuntimeError("cudaErrorDevicesUnavailable"), False),
    ],
)
def test_after_three_failures_of_its_own_a_measurement_is_left_out_and_says_how_to_ask_again(
    job: program.Job, failure: Exception, left_out: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = Point("launch_floor", "cpu", "launch_floor", job.spec)
    for number in (1, 2, 3):
        [next_one] = session.planned_files(job.session_dir, [planned])
        assert next_one == attempt(job, number).out
        program.run(breaking(failure), "cpu", attempt(job, number), station)
    [next_one] = session.planned_files(job.session_dir, [planned])
    third = attempt(job, 3).out
    assert next_one == (third if left_out else attempt(job, 4).out)
    command = f"rm {third} && snakemake --cores 1"
    assert (command in records.read_record(third)["remedy"]) is left_out
    assert (command in capsys.readouterr().err) is left_out
    third.unlink()
    assert session.planned_files(job.session_dir, [planned]) == [third]


def test_a_long_sample_has_its_signs_of_life(job: program.Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "PULSE_S", 0.01)
    monkeypatch.setattr(pulse, "SILENT", 0.02)

    def long(spec: dict, bench: Bench) -> Measurement:
        time.sleep(0.3)
        return floor(spec, bench)

    program.run(long, "cpu", job, station)
    events = [event["event"] for event in ledger.read(job.session_dir / "ledger.jsonl")]
    assert events.count("pulse") >= 2 and events[-1] == "end"


def test_the_ledger_counts_ended_and_interrupted_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = tmp_path / "ledger.jsonl"
    clock = iter([100.0, 110.0, 200.0, 205.0])
    monkeypatch.setattr("time.time", lambda: next(clock))
    monkeypatch.setattr(ledger, "_since_boot", dict)
    ledger.append(book, "start", job="a", stage="gpu/gemm", price_usd_per_hour=3.6)
    ledger.append(book, "end", job="a", stage="gpu/gemm")
    ledger.append(book, "start", job="b", stage="gpu/decode", price_usd_per_hour=3.6)
    ledger.append(book, "pulse", job="b", stage="gpu/decode")
    book.write_text(book.read_text() + '{"event": "pul')
    told = ledger.summary(book)
    assert told["paid_s"] == 15.0 and told["interrupted"] == 1
    assert told["usd"] == pytest.approx(15 / 3600 * 3.6)
    assert told["stages"] == {"gpu/decode": 5.0, "gpu/gemm": 10.0}


def test_a_device_named_in_the_config_must_be_this_machine_s() -> None:
    identity.check_named("", "nvidia-h200")
    identity.check_named("nvidia-h200", "nvidia-h200")
    with pytest.raises(
        identity.WrongMachine, match="device=nvidia-h200 was asked for, and this machine's GPU is nvidia-l4"
    ):
        identity.check_named("nvidia-h200", "nvidia-l4")


def test_a_gpu_s_session_name_tells_a_mig_slice_apart() -> None:
    from rooflab.machine.detect import gpu_slug

    assert gpu_slug({"name": "NVIDIA H200", "mig": None}) == "nvidia-h200"
    assert gpu_slug({"name": "NVIDIA H200", "mig": "1g.18gb"}) == "nvidia-h200-mig-1g.18gb"


def test_a_program_that_outlived_its_terminal_publishes_all_the_same(
    job: program.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def flush(self) -> None:
            raise BrokenPipeError

    monkeypatch.setattr("sys.stdout", Gone())
    program.run(floor, "cpu", job, station)
    assert records.read_record(job.out)["status"] == "measured"


def test_a_disk_full_for_the_ledger_does_not_cost_the_measurement(
    job: program.Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    append = ledger.append

    def full(path: Path, event: str, **fields: object) -> None:
        if event != "start":
            raise OSError(28, "No space left on device")
        append(path, event, **fields)

    monkeypatch.setattr(ledger, "append", full)
    program.run(floor, "cpu", job, station)
    assert records.read_record(job.out)["status"] == "measured"
    assert "end not noted (No space left on device)" in capsys.readouterr().err


def test_ctrl_c_ends_in_one_line_and_leaves_no_record(
    job: program.Job, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(spec: dict, bench: Bench) -> Measurement:
        raise KeyboardInterrupt

    assert typed(job, monkeypatch, interrupted, lambda weights: station()) != 0 and not job.out.exists()
    assert capsys.readouterr().err == f"{job.out}: not measured: interrupted; the same command goes on from here\n"


def test_the_shield_is_raised_once_there_is_a_result_and_before_it_is_written(job: program.Job) -> None:
    seen: list[bool] = []
    program.run(floor, "cpu", job, station, shield=lambda: seen.append(job.out.exists()))
    assert seen == [False] and job.out.exists()


# ---- measured in turns


def in_turns(spec: dict, bench: Bench) -> Measurement:
    """Three measurements at once; the last one has to be measured by itself."""
    own = floor(spec, bench)
    own.beside = [floor(each, bench) for each in bench.beside]
    own.beside[-1] = None
    return own


def jobs_in_turns(job: program.Job) -> list[program.Job]:
    points = [
        measurements.point("launch_floor", "cpu", "launch_floor", warmups=1, iterations=count) for count in (11, 12, 13)
    ]
    return [program.Job(point.spec, job.out.parent / Path(point.file()).name) for point in points]


def test_what_was_measured_in_turns_waits_for_its_own_job(job: program.Job, capsys: pytest.CaptureFixture) -> None:
    others = jobs_in_turns(job)
    program.run(in_turns, "cpu", program.Job(job.spec, job.out, tuple(others)), station)
    first, second, third = others
    assert job.out.exists() and not any(each.out.exists() for each in others)
    assert first.ready.exists() and second.ready.exists() and not third.ready.exists()
    program.run(lambda spec, bench: pytest.fail("measured twice"), "cpu", first, station)
    record = records.read_record(first.out)
    assert record["spec"] == first.spec and len(record["series"][0]["samples_s"]) == 11
    assert not first.ready.exists() and "in turns" in capsys.readouterr().out
    assert record["seconds"] == records.read_record(job.out)["seconds"], (
        "the seconds of a program are those of its records"
    )


def test_what_is_there_already_is_not_measured_beside(job: program.Job) -> None:
    first, second, third = jobs_in_turns(job)
    program.run(in_turns, "cpu", program.Job(job.spec, job.out, (first, second, third)), station)
    job.out.unlink()
    program.run(floor, "cpu", first, station)
    seen: list[int] = []

    def count(spec: dict, bench: Bench) -> Measurement:
        seen.append(len(bench.beside))
        return floor(spec, bench)

    program.run(count, "cpu", program.Job(job.spec, job.out, (first, second, third)), station)
    assert seen == [1]


def test_a_failed_measurement_leaves_the_others_to_themselves(job: program.Job) -> None:
    def fails(spec: dict, bench: Bench) -> Measurement:
        raise Failed("no memory", "free some")

    others = jobs_in_turns(job)
    program.run(fails, "cpu", program.Job(job.spec, job.out, tuple(others)), station)
    assert job.out.exists() and not any(each.ready.exists() for each in others)

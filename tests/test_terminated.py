"""The ledger and the closing record in the real workflow: what measures is entered, what does not leaves no trace, and
`snakemake terminated` stays. Also: a copied session is rebuilt on a machine without CuPy, and fast.
"""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from free.terminated import closing
from lab import copy_code, refused, run
from rooflab.record import ledger
from rooflab.record.records import RecordError
from rooflab.record.terminated import closing_record

PAID = {"paid_s": 900.0, "usd": 0.9}
NOW = "2026-01-02T03:04:05Z"
# On two cores of a virtual machine it takes a few seconds; a run of the tests beside it may treble that.
REPORT_LIMIT_S = 30.0


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_code(tmp_path_factory.mktemp("closing") / "lab")
    run(folder, "--config", "price_usd_per_hour=3.6")
    return folder


@pytest.fixture
def lab(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "lab", symlinks=True)
    return tmp_path / "lab"


def session_of(folder: Path) -> Path:
    [found] = (each for each in (folder / "results").iterdir() if each.is_dir())
    return found


def book(folder: Path) -> Path:
    return session_of(folder) / "ledger.jsonl"


def manifest(folder: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((session_of(folder) / "manifest.json").read_text())
    return made


def test_the_ledger_holds_the_run_its_jobs_and_the_price(finished: Path) -> None:
    events = ledger.read(book(finished))
    assert events[0]["event"] == "run start" and events[-1]["event"] == "run end"
    assert all(each["price_usd_per_hour"] == 3.6 for each in events if each["event"] in ("run start", "start"))
    jobs = [each for each in events if each["event"] == "start"]
    assert len(jobs) == len(list((session_of(finished) / "cpu").rglob("*.json")))
    assert all(0 <= each["time"] - each["launched"] < 60 for each in jobs)


def test_paid_seconds_hold_start_ups_and_gaps(finished: Path) -> None:
    told, paid = ledger.summary(book(finished)), manifest(finished)["paid"]
    records = [json.loads(path.read_text()) for path in (session_of(finished) / "cpu").rglob("*.json")]
    measuring = sum(record["seconds"] for record in records)
    assert measuring < sum(told["stages"].values()) < paid["paid_s"] <= told["paid_s"]
    assert told["paid_s"] - paid["paid_s"] < 10  # what follows the manifest in the run that made it
    assert told["usd"] == pytest.approx(told["paid_s"] / 1000)


def test_only_a_run_that_measures_is_entered(lab: Path) -> None:
    before = book(lab).read_bytes()
    for arguments in (["-n"], ["report"], [], ["-n", "--config", "device=nvidia-h200"]):
        run(lab, *arguments)
        assert book(lab).read_bytes() == before, arguments
    assert [each.name for each in (lab / "results").iterdir() if each.is_dir()] == [session_of(lab).name]


def test_terminated_records_what_the_ledger_says_and_stays(lab: Path) -> None:
    assert "total cost $0.0" in run(lab, "terminated", "--config", "device=auto")
    record = (session_of(lab) / "terminated.json").read_bytes()
    assert manifest(lab)["terminated"] == json.loads(record)
    assert json.loads(record)["total_usd_from"] == "ledger"
    shutil.rmtree(lab / ".snakemake")
    next((session_of(lab) / "cpu" / "decode").glob("*S32*")).unlink()
    told = run(lab, "--config", "price_usd_per_hour=9.9")
    assert "instance terminated at" in told
    assert (session_of(lab) / "terminated.json").read_bytes() == record
    assert manifest(lab)["terminated"] == json.loads(record)


def test_terminated_takes_the_bill_that_was_paid_and_refuses_to_change_it(lab: Path) -> None:
    assert "total cost $4.20" in run(lab, "terminated", "--config", "terminated_usd=4.2")
    assert manifest(lab)["terminated"]["total_usd"] == 4.2
    said = refused(lab, "terminated", "--config", "terminated_usd=5")
    assert "says 4.2 dollars, terminated_usd=5 was given" in said and "rm results/" in said
    path = session_of(lab) / "terminated.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"total_usd": None}))
    assert "says an unknown amount, terminated_usd=5" in refused(lab, "terminated", "--config", "terminated_usd=5")


def closed(lab: Path) -> list[str]:
    return [path.parent.name for path in lab.glob("results/*/terminated.json")]


def test_of_several_sessions_the_one_paid_for_last_is_terminated_and_named(lab: Path) -> None:
    first = session_of(lab).name
    for name in ("another", "older"):
        shutil.copytree(lab / "results" / first, lab / "results" / name)
    ledger.append(lab / "results" / "another" / "ledger.jsonl", "run start", run="late")
    assert "terminated: another, whose ledger has the most recent event of the 3" in run(
        lab, "terminated", "--config", "device=auto"
    )
    assert closed(lab) == ["another"]
    run(lab, "terminated", "--config", "session=older")
    assert sorted(closed(lab)) == ["another", "older"]


def test_a_session_that_is_not_there_is_not_terminated(lab: Path) -> None:
    before = sorted(each.name for each in (lab / "results").iterdir())
    said = refused(lab, "terminated", "--config", "session=nowhere", "terminated_usd=1")
    assert f"In results/: {session_of(lab).name}; nowhere is not there" in said
    assert sorted(each.name for each in (lab / "results").iterdir()) == before and closed(lab) == []


def test_without_any_ledger_it_is_asked_which_session(lab: Path) -> None:
    book(lab).unlink()
    shutil.copytree(session_of(lab), lab / "results" / "another")
    said = refused(lab, "terminated", "--config", "device=auto")
    assert "no ledger tells which was paid for last" in said and "--config session=<session>" in said
    assert closed(lab) == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"total_usd": 1}'])
def test_a_damaged_closing_record_is_named_with_its_remedy(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "terminated.json"
    assert closing_record(path) is None
    path.write_bytes(content)
    with pytest.raises(RecordError) as told:
        closing_record(path)
    assert str(told.value).startswith(f"{path}: damaged") and f"rm {path}" in str(told.value)


@pytest.mark.parametrize("target", ["terminated", "report"])
def test_a_damaged_closing_record_stops_the_workflow_in_one_line(target: str, lab: Path) -> None:
    (session_of(lab) / "terminated.json").write_text("{")
    assert f"rm results/{session_of(lab).name}/terminated.json" in refused(lab, target)


def test_terminated_measures_nothing_and_a_dry_run_records_nothing(lab: Path) -> None:
    before = book(lab).read_bytes()
    run(lab, "terminated", "-n")
    assert not (session_of(lab) / "terminated.json").exists()
    next((session_of(lab) / "cpu" / "decode").glob("*S32*")).unlink()
    run(lab, "terminated")
    assert book(lab).read_bytes() == before


def test_a_copied_session_is_rebuilt_without_cupy_and_fast(finished: Path, tmp_path: Path) -> None:
    laptop = copy_code(tmp_path / "laptop")
    paid = [session_of(finished) / name for name in ("cpu", "ledger.jsonl")]
    target = laptop / "results" / session_of(finished).name
    target.mkdir(parents=True)
    shutil.copytree(paid[0], target / "cpu")
    shutil.copy(paid[1], target)
    no_cupy = tmp_path / "blocked" / "cupy"
    no_cupy.mkdir(parents=True)
    (no_cupy / "__init__.py").write_text("raise ImportError('CuPy is not installed here')\n")
    begin = time.monotonic()
    run(laptop, "report", PYTHONPATH=str(no_cupy.parent))
    assert time.monotonic() - begin < REPORT_LIMIT_S
    for name in ("roofline.png", "roofline.svg", "interpretation.md", "manifest.json"):
        assert (target / name).stat().st_size > 0, name


@pytest.mark.parametrize(
    ("given", "ledger_usd", "price", "expected"),
    [
        (4.2, 0.9, 3.6, (4.2, "given")),
        (0.0, 0.9, 3.6, (0.0, "given")),
        (None, 0.9, 7.2, (0.9, "ledger")),
        (None, None, 3.6, (0.9, "ledger seconds at the configured price")),
        (None, None, None, (None, "no price known")),
    ],
)
def test_the_total_cost_is_the_best_that_is_known(given, ledger_usd, price, expected) -> None:
    record = closing("nvidia-h200", PAID | {"usd": ledger_usd}, given, price, NOW)
    assert (record["total_usd"], record["total_usd_from"]) == (pytest.approx(expected[0]), expected[1])
    assert record["terminated_at"] == NOW and record["paid_s"] == 900.0

"""The ledger: what a stay on the machine cost, over any interruption, and nothing twice."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rooflab.record import ledger


def event(what: str, at: float, **fields: Any) -> dict[str, Any]:
    return {"event": what, "time": at} | fields


def job(name: str, begin: float, end: float, *, launched: float | None = None, stage: str = "gpu/gemm", usd=None):
    start = event("start", begin, job=name, stage=stage, price_usd_per_hour=usd)
    if launched is not None:
        start["launched"] = launched
    return [start, event("end", end, job=name, stage=stage)]


def run(name: str, launched: float, begin: float, usd: float | None = None) -> dict[str, Any]:
    return event("run start", begin, run=name, launched=launched, price_usd_per_hour=usd)


def summary(tmp_path: Path, *events: dict[str, Any]) -> dict[str, Any]:
    book = tmp_path / "ledger.jsonl"
    book.write_text("".join(json.dumps(each) + "\n" for each in events))
    return ledger.summary(book)


def test_a_run_counts_from_its_launch_to_the_end_of_its_last_measurement(tmp_path: Path) -> None:
    told = summary(
        tmp_path,
        run("a", 100.0, 102.0, usd=3.6),
        *job("x", 104.0, 110.0, launched=102.5),
        *job("y", 111.0, 115.0, launched=110.5, stage="gpu/decode"),
        event("run end", 120.0, run="a"),
    )
    assert told["paid_s"] == 15.0 and told["usd"] == pytest.approx(15 / 3600 * 3.6)
    assert told["stages"] == {"gpu/decode": 4.5, "gpu/gemm": 7.5}
    assert told["runs"] == 1 and told["interrupted"] == 0


def test_a_killed_run_counts_to_its_last_sign_of_life(tmp_path: Path) -> None:
    start, _ = job("x", 104.0, 0.0)
    told = summary(tmp_path, run("a", 100.0, 102.0), start, event("pulse", 109.0, job="x", stage="gpu/gemm"))
    assert told["paid_s"] == 9.0 and told["interrupted"] == 1 and told["stages"] == {"gpu/gemm": 5.0}


def test_a_run_killed_before_its_first_job_counts_its_planning(tmp_path: Path) -> None:
    assert summary(tmp_path, run("a", 100.0, 102.0))["paid_s"] == 2.0


def test_an_interruption_and_the_night_after_it_cost_nothing(tmp_path: Path) -> None:
    told = summary(
        tmp_path,
        run("a", 100.0, 102.0, usd=3.6),
        *job("x", 104.0, 110.0),
        run("b", 50_000.0, 50_002.0, usd=7.2),
        *job("y", 50_003.0, 50_008.0),
        event("run end", 50_010.0, run="b"),
    )
    assert told["paid_s"] == 18.0 and told["runs"] == 2
    assert told["usd"] == pytest.approx(10 / 3600 * 3.6 + 8 / 3600 * 7.2)


def test_one_run_without_a_price_leaves_the_dollars_open(tmp_path: Path) -> None:
    told = summary(tmp_path, run("a", 100.0, 110.0, usd=3.6), run("b", 200.0, 210.0))
    assert told["paid_s"] == 20.0 and told["usd"] is None


def test_a_program_that_outlives_its_run_is_paid_for_and_counted_once(tmp_path: Path) -> None:
    start, end = job("x", 104.0, 130.0)
    told = summary(
        tmp_path,
        run("a", 100.0, 102.0),
        start,
        event("run end", 110.0, run="a"),
        end,
        run("b", 112.0, 131.0),  # launched while x went on, waited for it
        *job("y", 133.0, 140.0, launched=131.5),
        event("run end", 141.0, run="b"),
    )
    assert told["paid_s"] == 40.0 and told["stages"] == {"gpu/gemm": 26.0 + 8.5}


def test_a_job_that_waited_for_another_is_not_counted_beside_it(tmp_path: Path) -> None:
    told = summary(tmp_path, run("a", 0.0, 1.0), *job("x", 2.0, 10.0), *job("y", 11.0, 15.0, launched=2.0))
    assert told["stages"] == {"gpu/gemm": 8.0 + 5.0} and told["paid_s"] == 15.0


def test_a_clock_an_hour_behind_hides_no_second(tmp_path: Path) -> None:
    told = summary(
        tmp_path,
        run("a", 4000.0, 4002.0),
        *job("x", 4003.0, 4010.0),
        event("run end", 4010.0, run="a"),
        run("b", 400.0, 402.0),
        *job("y", 403.0, 410.0, launched=402.0),
        event("run end", 410.0, run="b"),
    )
    assert told["paid_s"] == 20.0 and told["stages"] == {"gpu/gemm": 15.0}


def test_what_was_paid_is_the_same_before_and_after_the_run_s_end(tmp_path: Path) -> None:
    """The manifest is written in between: three places of one session once gave three figures."""
    events = (run("a", 100.0, 102.0), *job("x", 104.0, 110.0))
    before = summary(tmp_path, *events)
    counted = ledger.counted_bytes(tmp_path / "ledger.jsonl")
    assert counted == (tmp_path / "ledger.jsonl").stat().st_size
    assert summary(tmp_path, *events, event("run end", 130.0, run="a")) == before
    assert ledger.counted_bytes(tmp_path / "ledger.jsonl") == counted


def test_programs_started_by_hand_count_without_a_run(tmp_path: Path) -> None:
    told = summary(tmp_path, *job("x", 0.0, 10.0), *job("y", 11.0, 20.0), *job("z", 500.0, 505.0))
    assert told["paid_s"] == 25.0 and told["runs"] == 2


def test_a_line_cut_in_the_middle_is_passed_over(tmp_path: Path) -> None:
    book = tmp_path / "ledger.jsonl"
    ledger.append(book, "run start", run="a", price_usd_per_hour=None)
    book.write_text(book.read_text() + '{"event": "pul')
    assert [each["event"] for each in ledger.read(book)] == ["run start"]


@pytest.mark.parametrize(
    "line",
    [b'{"event": "pulse", "time": 5, "job": "\xff"}', b'{"event": "run start", "time": "noon"}',
     b'{"event": "run start", "time": NaN}', b'{"event": "run start", "time": null}',
     b'{"event": "run start", "time": 1, "launched": "noon"}',
     b'{"event": "run start", "time": 1, "price_usd_per_hour": Infinity}'],
)  # fmt: skip
def test_a_damaged_line_is_passed_over(line: bytes, tmp_path: Path) -> None:
    book = tmp_path / "ledger.jsonl"
    around = [json.dumps(each).encode() for each in (run("a", 100.0, 102.0), event("run end", 110.0, run="a"))]
    book.write_bytes(b"\n".join([around[0], line, around[1]]) + b"\n")
    assert [each["event"] for each in ledger.read(book)] == ["run start", "run end"]
    assert ledger.summary(book)["paid_s"] == 2.0


def test_a_number_that_is_none_is_not_written(tmp_path: Path) -> None:
    book = tmp_path / "ledger.jsonl"
    with pytest.raises(ValueError, match="not JSON compliant"):
        ledger.append(book, "run start", price_usd_per_hour=float("nan"))
    assert not book.exists()


def test_the_newest_ledger_has_the_most_recent_event(tmp_path: Path) -> None:
    books = [tmp_path / name for name in ("a", "b", "c")]
    assert ledger.newest(books) is None
    for book, at in zip(books, (5.0, 9.0), strict=False):
        book.write_text(json.dumps(event("run end", at, run="x")) + "\n")
    assert ledger.newest(books) == books[1]


def test_a_process_knows_when_it_was_launched() -> None:
    scripts = Path(ledger.__file__).parents[2]
    program = f"import sys, time; sys.path.insert(0, {str(scripts)!r}); time.sleep(0.3)\n"
    program += "from rooflab.record import ledger; print(ledger.launched(), time.time())"
    before = time.time()
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    launched, now = map(float, told.split())
    assert before - 0.1 <= launched <= now - 0.25

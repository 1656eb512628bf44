"""The bill: what is pending and why, what it costs, what is paid, what is left; and when a run stops before it starts."""

import copy
import json
import logging
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lab import ROOT, run
from rooflab.cost import bill, estimates
from rooflab.plan import measurements
from rooflab.plan.points import Point
from rooflab.record import ledger
from rooflab.run import pricelist

CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
H200 = "nvidia-h200"


def config(**changed: Any) -> dict[str, Any]:
    return copy.deepcopy(CONFIG) | changed


def with_gemm(**changed: Any) -> dict[str, Any]:
    return config(gemm=CONFIG["gemm"] | changed)


def points(wanted: dict[str, Any] = CONFIG) -> dict[str, Point]:
    return {point.file(): point for point in measurements.session_points(wanted, with_gpu=True)}


def bills(results: Path, wanted: dict[str, Any], session: str = H200, keep: str = "") -> list[bill.Bill]:
    files = [f"{results}/{session}/{file}" for file in points(wanted) if keep in file]
    return bill.draw_up(files, points(wanted), wanted, results)


def put(results: Path, point: Point, **changed: Any) -> None:
    """A record as far as the bill looks at it."""
    record = {"stage": point.stage, "side": point.side, "name": point.name, "spec": point.spec, "series": []}
    path = results / H200 / point.file(changed.pop("attempt", 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record | {"status": "measured", "reason": None, "seconds": 1.0} | changed))


def test_a_session_not_yet_begun_is_priced_stage_by_stage(tmp_path: Path) -> None:
    [made] = bills(tmp_path, config(price_usd_per_hour=3.6, budget_usd=1.0))
    assert [row.stage for row in made.rows][:3] == ["gpu device", "gpu launch_floor", "gpu bandwidth"]
    assert made.jobs == len(points()) and made.seconds > 60
    told = bill.text(made)
    assert f"To measure in {H200} at $3.6/h:" in told
    assert f"gpu gemm {sum('gpu/gemm' in file for file in points()):>13} jobs" in told
    assert f"{made.seconds:>7.1f} s  ${made.seconds / 1000:.4f}" in told.splitlines()[-3]
    assert told.splitlines()[-2:] == ["  already paid: 0.0 s", "  budget left: $1.0000 of $1"]


def test_the_total_is_the_rows_and_the_run_around_them(tmp_path: Path) -> None:
    [made] = bills(tmp_path, CONFIG)
    assert made.seconds == pytest.approx(sum(row.seconds for row in made.rows) + estimates.PLANNING_S)
    assert "no price given: seconds only" in bill.text(made) and "$" not in bill.text(made)


def test_a_price_is_a_number_or_one_per_session() -> None:
    assert bill.price_of(config(price_usd_per_hour=2), H200) == 2.0
    assert bill.price_of(config(price_usd_per_hour={H200: 3.5}), H200) == 3.5
    assert bill.price_of(config(price_usd_per_hour={H200: 3.5}), "nvidia-l4") is None


def test_changed_parameters_are_named_as_the_reason(tmp_path: Path) -> None:
    for point in points().values():
        put(tmp_path, point)
    [made] = bills(tmp_path, with_gemm(iterations=50), keep="gpu/gemm")
    [row] = made.rows
    assert dict(row.reasons) == {f"iterations {CONFIG['gemm']['iterations']} -> 50": row.jobs}
    assert f"iterations {CONFIG['gemm']['iterations']} -> 50 ({row.jobs} of {row.jobs})" in bill.text(made)


def test_a_raised_protocol_is_named_as_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for point in points().values():
        put(tmp_path, point)
    was = measurements.PROTOCOL["decode"]
    monkeypatch.setitem(measurements.PROTOCOL, "decode", was + 1)
    [made] = bills(tmp_path, CONFIG, keep="gpu/decode")
    assert dict(made.rows[0].reasons) == {f"protocol {was} -> {was + 1}": made.jobs}


def test_a_file_that_is_merely_missing_has_no_reason(tmp_path: Path) -> None:
    [made] = bills(tmp_path, CONFIG)
    assert all(not row.reasons for row in made.rows)


def test_changes_are_found_at_any_depth() -> None:
    old = {"protocol": 1, "geometry": {"heads": 8, "layers": 6}, "weights": {"seed": 0}}
    new = {"protocol": 1, "geometry": {"heads": 4, "layers": 6}, "weights": {"sha256": "ab"}, "samples": 3}
    assert list(bill.changed(old, new)) == [
        "geometry.heads 8 -> 4",
        "weights.seed 0 -> none",
        "weights.sha256 none -> ab",
        "samples none -> 3",
    ]


def test_a_failed_attempt_is_priced_again_and_says_why_it_failed(tmp_path: Path) -> None:
    point = next(p for p in points().values() if p.stage == "gemm" and p.side == "gpu")
    put(tmp_path, point, status="failed", reason="out of memory")
    [made] = bill.draw_up([f"{tmp_path}/{H200}/{point.file(2)}"], points(), CONFIG, tmp_path)
    assert (made.rows[0].retries, dict(made.rows[0].reasons)) == (1, {"failed: out of memory": 1})
    assert "(1 retried after a failure)" in bill.text(made)


def test_free_files_and_foreign_files_cost_nothing(tmp_path: Path) -> None:
    files = [f"{tmp_path}/{H200}/roofline.json", "elsewhere/x.json", f"{tmp_path}/compare.png"]
    assert bill.draw_up(files, points(), CONFIG, tmp_path) == []


def enter(results: Path, seconds: float, price: float | None) -> None:
    book = results / H200 / "ledger.jsonl"
    book.parent.mkdir(parents=True, exist_ok=True)
    start = {"event": "run start", "time": 1000.0, "launched": 1000.0, "run": "a", "price_usd_per_hour": price}
    job = {
        "event": "start",
        "time": 1000.0,
        "launched": 1000.0,
        "job": "x",
        "stage": "gpu/gemm",
        "price_usd_per_hour": price,
    }
    end = {"event": "end", "time": 1000.0 + seconds, "job": "x", "stage": "gpu/gemm"}
    book.write_text("".join(json.dumps(each) + "\n" for each in (start, job, end)))


def test_what_is_paid_is_taken_from_the_budget(tmp_path: Path) -> None:
    enter(tmp_path, 360.0, 3.6)
    [made] = bills(tmp_path, config(price_usd_per_hour=3.6, budget_usd=0.5))
    assert (made.paid_s, made.paid_usd) == (360.0, pytest.approx(0.36))
    assert made.left_usd == pytest.approx(0.14)
    assert "already paid: 360.0 s, $0.3600" in bill.text(made) and "budget left: $0.1400 of $0.5" in bill.text(made)


def test_seconds_paid_without_a_price_count_at_today_s(tmp_path: Path) -> None:
    enter(tmp_path, 360.0, None)
    [made] = bills(tmp_path, config(price_usd_per_hour=3.6, budget_usd=0.5))
    assert made.paid_usd is None and made.left_usd == pytest.approx(0.14)
    assert "already paid: 360.0 s, $0.3600 at today's price" in bill.text(made)


def test_a_budget_that_does_not_suffice_says_by_how_much(tmp_path: Path) -> None:
    [made] = bills(tmp_path, config(price_usd_per_hour=3600, budget_usd=10))
    said = bill.over_budget([made])
    assert said and "\n" not in said and f"by ${made.seconds - 10:.4f}" in said
    assert f"over it by ${made.seconds - 10:.4f}" in bill.text(made)
    [made] = bills(tmp_path, config(price_usd_per_hour=1, budget_usd=10))
    assert bill.over_budget([made]) is None and "over it" not in bill.text(made)


def test_the_budget_is_the_whole_run_s_and_needs_every_price(tmp_path: Path) -> None:
    sessions = ("nvidia-h200-a", "nvidia-h200-b")
    one = bills(tmp_path, config(price_usd_per_hour=3.6, budget_usd=1000), sessions[0])[0]
    tight = config(price_usd_per_hour=3.6, budget_usd=1.5 * one.seconds / 1000)
    made = [bills(tmp_path, tight, each)[0] for each in sessions]
    assert [bill.over_budget([each]) for each in made] == [None, None]
    said = bill.over_budget(made)
    assert said and f"by ${0.5 * one.seconds / 1000:.4f}" in said
    mistyped = config(price_usd_per_hour={"nvidia-h200-x": 3.6}, budget_usd=1000)
    said = bill.over_budget(bills(tmp_path, mistyped, sessions[0]))
    assert said and "no price" in said


def test_several_sessions_have_a_total(tmp_path: Path) -> None:
    wanted = config(price_usd_per_hour={"nvidia-h200-a": 3.6, "nvidia-h200-b": 7.2})
    both = [*bills(tmp_path, wanted, "nvidia-h200-a"), *bills(tmp_path, wanted, "nvidia-h200-b")]
    usd = both[0].seconds / 1000 + both[1].seconds / 500
    assert bill.sum_line(both) == (
        f"In all 2 sessions: {2 * len(points())} jobs {2 * both[0].seconds:.1f} s  ${usd:.4f}"
    )


@pytest.fixture
def leavers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What would happen at the end of the process."""
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr("atexit.register", lambda *call: calls.append(call))
    monkeypatch.delenv("ROOFLAB_RUN", raising=False)
    monkeypatch.setenv("ROOFLAB_PRICES", "")
    return calls


def show(results: Path, wanted: dict[str, Any], files: list[str], dryrun: bool, measures: bool = True) -> None:
    jobs = [SimpleNamespace(output=[file], rule=SimpleNamespace(name=Path(file).stem)) for file in files]
    workflow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda: jobs))
    places: Any = SimpleNamespace(device_of=lambda session: H200)
    asked: Any = SimpleNamespace(workflow=workflow, dryrun=dryrun, measures=measures)
    handler = pricelist.PriceList(asked, places, wanted, results, points(wanted))
    record = logging.LogRecord("snakemake", logging.INFO, "x", 1, "Job stats", None, None)
    record.event = "run_info"
    handler.emit(record)
    handler.emit(record)  # once is enough


def files_of(results: Path, wanted: dict[str, Any]) -> list[str]:
    return [f"{results}/{H200}/{file}" for file in points(wanted)]


def test_a_dry_run_prints_the_bill_once_and_writes_nothing(tmp_path: Path, capsys, leavers) -> None:
    wanted = config(price_usd_per_hour=3600, budget_usd=1)
    show(tmp_path, wanted, files_of(tmp_path, wanted), dryrun=True)
    told = capsys.readouterr().out
    assert told.count(f"To measure in {H200}") == 1 and "over it by" in told
    assert list(tmp_path.iterdir()) == [] and leavers == []


def test_a_run_that_measures_is_entered_with_the_price_in_force(tmp_path: Path, capsys, leavers) -> None:
    wanted = config(price_usd_per_hour={H200: 3.6})
    show(tmp_path, wanted, files_of(tmp_path, wanted), dryrun=False)
    book = tmp_path / H200 / "ledger.jsonl"
    [begun] = ledger.read(book)
    assert begun["event"] == "run start" and begun["price_usd_per_hour"] == 3.6 and begun["launched"] <= begun["time"]
    [(leave, *arguments)] = leavers
    leave(*arguments)
    assert [each["event"] for each in ledger.read(book)] == ["run start", "run end"]
    assert f"To measure in {H200}" in capsys.readouterr().err


def test_a_run_over_the_budget_stops_before_it_begins(tmp_path: Path, leavers) -> None:
    wanted = config(price_usd_per_hour=3600, budget_usd=1)
    with pytest.raises(SystemExit, match="exceed the budget of"):
        show(tmp_path, wanted, files_of(tmp_path, wanted), dryrun=False)
    assert list(tmp_path.iterdir()) == [] and leavers == []


def test_a_run_that_measures_nothing_says_so_and_enters_nothing(tmp_path: Path, capsys, leavers) -> None:
    show(tmp_path, CONFIG, [f"{tmp_path}/{H200}/roofline.json"], dryrun=False)
    assert capsys.readouterr().err == "Nothing is left to measure.\n"
    assert list(tmp_path.iterdir()) == [] and leavers == []


def test_a_free_target_lists_its_jobs_and_claims_nothing_about_what_is_left(tmp_path: Path, capsys, leavers) -> None:
    show(tmp_path, CONFIG, [f"{tmp_path}/{H200}/roofline.json"], dryrun=True, measures=False)
    assert capsys.readouterr() == ("To draw and write, free: roofline 1\n", "")


def test_a_ledger_that_cannot_be_written_stops_with_one_line(tmp_path: Path, leavers) -> None:
    (tmp_path / H200).write_text("a file where the folder should be")
    with pytest.raises(SystemExit, match="cannot be written") as stop:
        show(tmp_path, CONFIG, files_of(tmp_path, CONFIG), dryrun=False)
    assert "\n" not in str(stop.value)


def test_the_price_follows_the_card_and_not_the_session_s_name(tmp_path: Path) -> None:
    wanted = config(price_usd_per_hour=3.99)
    files = [f"{tmp_path}/another/{file}" for file in points(wanted)]
    [other] = bill.draw_up(files, points(wanted), wanted, tmp_path, lambda session: H200)
    [own] = bills(tmp_path, wanted)
    assert other.seconds == own.seconds and other.basis is None
    [unknown] = bill.draw_up(files, points(wanted), wanted, tmp_path, lambda session: "h200")
    assert "'h200' is not in the vendor table" in bill.text(unknown)


def test_the_readme_s_own_example_gives_its_own_figures(lab: Path) -> None:
    """The commands and the list that README shows, in a checkout with the shipped config."""
    readme = (ROOT / "README.md").read_text()
    shown = re.search(r"```\n(To measure in another .*?)```", readme, re.DOTALL)
    asked = re.search(r"`snakemake -n --config\s+(device=nvidia-h200 session=another [^`]*)` says", readme)
    assert shown and asked
    shutil.copy(ROOT / "config.yaml", lab / "config.yaml")
    assert shown[1].rstrip() in run(lab, "-n", "--config", *asked[1].split())

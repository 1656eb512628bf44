"""Sessions side by side: what counts as slower, why it may be, what it costs; a broken session is listed, never an error."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import fleet_sessions
import lab
import pytest
import synthetic
from fleet_sessions import changed, cpu_machine, gpu_card, name_of, uuid_of, write, write_fleet
from free.compare import compared
from rooflab.fleet.chart import draw, save
from rooflab.fleet.page import page, terminal
from rooflab.record.records import check_schema, seal

Record = dict[str, Any]
SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
CARD = uuid_of(1)


def compare(results: Path, threshold: float = 0.05, **prices: float) -> Record:
    made = compared(results, prices, threshold)
    check_schema("compare", made, "compare.json")
    return made


def slow_sessions(made: Record) -> set[tuple[str, str]]:
    return {(each["kind"], each["session"]) for each in made["findings"]}


def twice(results: Path, speed: float, **changes: Any) -> Record:
    """A card measured twice, the second time at `speed`."""
    write(results / "card", gpu_card(uuid=CARD, started_at=EARLIER))
    write(results / "card-2", gpu_card(uuid=CARD, started_at=LATER, speed=speed, **changes))
    return compare(results)


def program(name: str, results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        str(SCRIPTS / "free" / name),
        "--results",
        str(results),
        "--threshold",
        "0.05",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_card_that_lost_speed_is_a_regression(tmp_path: Path) -> None:
    made = twice(tmp_path, 0.9)
    assert slow_sessions(made) == {("regression", "card-2")}
    assert {each["figure_kind"] for each in made["findings"]} == {"burst", "sustained", "bandwidth", "decode"}
    assert all(each["loss"] == pytest.approx(0.1) and each["reference"] == "card" for each in made["findings"])


@pytest.mark.parametrize("speed", [1.0, 0.96, 1.3])
def test_an_equal_a_slightly_slower_and_a_faster_one_are_none(tmp_path: Path, speed: float) -> None:
    assert twice(tmp_path, speed)["findings"] == []


def spread(records: list[Record], far: float) -> list[Record]:
    """The same medians with one sample of each series `far` times as long."""
    made = json.loads(json.dumps(records))
    for record in made:
        for series in record["series"]:
            series["samples_s"][-1] *= far
    return [seal(record) for record in made]


def test_a_loss_does_not_count_while_the_samples_overlap(tmp_path: Path) -> None:
    write(tmp_path / "card", spread(gpu_card(uuid=CARD, started_at=EARLIER), 1.2))
    write(tmp_path / "card-2", gpu_card(uuid=CARD, started_at=LATER, speed=0.9))
    assert compare(tmp_path)["findings"] == []


def test_rare_outliers_of_a_long_series_do_not_hide_a_loss(tmp_path: Path) -> None:
    def long(records: list[Record]) -> list[Record]:
        made = json.loads(json.dumps(records))
        for series in (s for r in made if r["stage"] == "decode" for s in r["series"]):
            series["samples_s"] = series["samples_s"] * 200 + [100 * series["samples_s"][0]] * 9
        return [seal(record) for record in made]

    write(tmp_path / "card", long(gpu_card(uuid=CARD, started_at=EARLIER)))
    write(tmp_path / "card-2", long(gpu_card(uuid=CARD, started_at=LATER, speed=0.9)))
    assert "decode" in {each["figure_kind"] for each in compare(tmp_path)["findings"]}


def test_sessions_under_other_parameters_are_not_held_against_each_other(tmp_path: Path) -> None:
    write(tmp_path / "card", gpu_card(uuid=CARD, started_at=EARLIER))
    other = json.loads(json.dumps(gpu_card(uuid=CARD, started_at=LATER, speed=0.8)))
    for record in other:
        record["spec"]["protocol"] = 2
        record["key"] = synthetic.digest(record["spec"])[:8]
    write(tmp_path / "card-2", [seal(record) for record in other])
    assert compare(tmp_path)["findings"] == []


def test_a_slower_sibling_is_a_straggler_whenever_it_was_measured(tmp_path: Path) -> None:
    write(tmp_path / "one", gpu_card(uuid=uuid_of(1), started_at=EARLIER, speed=0.9))
    write(tmp_path / "two", gpu_card(uuid=uuid_of(2), started_at=LATER))
    assert slow_sessions(compare(tmp_path)) == {("straggler", "one")}


def test_two_models_are_never_held_against_each_other(tmp_path: Path) -> None:
    write(tmp_path / "h200", gpu_card(uuid=uuid_of(1)))
    slower = json.loads(json.dumps(gpu_card(uuid=uuid_of(2), speed=0.1)))
    for record in slower:
        record["device"]["name"] = record["details"]["name"] = "NVIDIA L4"
    write(tmp_path / "l4", [seal(record) for record in slower])
    made = compare(tmp_path)
    assert made["findings"] == [] and len(made["models"]) == 2


def test_a_cpu_session_is_held_against_the_one_before(tmp_path: Path) -> None:
    write(tmp_path / "cpu", cpu_machine(started_at=EARLIER))
    write(tmp_path / "cpu-2", cpu_machine(started_at=LATER, speed=0.8))
    assert slow_sessions(compare(tmp_path)) == {("regression", "cpu-2")}


CAUSES = [
    ({"power_limit_w": 500.0}, "power limit is 500 W, the other's 700 W"),
    ({"reasons": ["hw_thermal_slowdown"]}, "too hot (hardware thermal slowdown)"),
    ({"reasons": ["hw_power_brake_slowdown"]}, "external power brake"),
    ({"clock": 0.7}, "SM clock under load was 1386 MHz"),
    ({"other_processes": 2}, "2 other process(es) used it"),
    ({"driver": "570.1"}, "driver is 570.1"),
    ({"cards_at_once": 2}, "together with 1 other card(s)"),
    ({}, "the records show no cause"),
]


@pytest.mark.parametrize(("changes", "told"), CAUSES, ids=[told for _, told in CAUSES])
def test_the_likely_cause_comes_from_the_records_alone(tmp_path: Path, changes: Record, told: str) -> None:
    made = twice(tmp_path, 0.8, **changes)
    assert told in "\n".join(terminal(made))
    causes = [cause for each in made["findings"] for cause in each["causes"]]
    assert bool(causes) == bool(changes)


def test_memory_with_ecc_is_a_cause_against_memory_without(tmp_path: Path) -> None:
    write(tmp_path / "card", gpu_card(uuid=CARD, started_at=EARLIER, ecc_enabled=False))
    write(tmp_path / "card-2", gpu_card(uuid=CARD, started_at=LATER, speed=0.9, ecc_enabled=True))
    assert "ECC on" in page(compare(tmp_path))


def test_the_fleet_finds_the_planted_card_and_no_other(tmp_path: Path) -> None:
    write_fleet(tmp_path, 40, gpu_card(), {17: {"speed": 0.88, "power_limit_w": 500.0}})
    made = compare(tmp_path)
    assert slow_sessions(made) == {("straggler", name_of(17))}
    assert made["findings"][0]["causes"] == ["its power limit is 500 W, the other's 700 W"]


def test_an_alike_fleet_has_no_straggler(tmp_path: Path) -> None:
    write_fleet(tmp_path, 12, gpu_card(), {})
    assert compare(tmp_path)["findings"] == []


def test_a_fast_card_makes_no_straggler_of_the_others(tmp_path: Path) -> None:
    write_fleet(tmp_path, 9, gpu_card(), {4: {"speed": 1.4}})
    assert compare(tmp_path)["findings"] == []


def test_dollars_are_price_over_rate(tmp_path: Path) -> None:
    write(tmp_path / "card", gpu_card(uuid=CARD))
    [row] = compare(tmp_path, card=3.6)["sessions"]
    fp16 = next(c for c in row["ceilings"] if c["dtype"] == "fp16" and c["kind"] == "compute")
    assert row["usd_per_pflop"]["fp16"] == pytest.approx(0.001 * 1e15 / fp16["sustained"])
    assert row["usd_per_tb"] == pytest.approx(0.001 * 1e12 / row["main_memory"]["burst"])


def test_the_price_is_the_one_in_force_when_it_was_measured(tmp_path: Path) -> None:
    write(tmp_path / "card", gpu_card(uuid=CARD))
    start = {"event": "start", "time": 1.0, "job": "a", "stage": "gpu/gemm", "price_usd_per_hour": 2.5}
    (tmp_path / "card" / "ledger.jsonl").write_text(json.dumps(start) + "\n")
    assert compare(tmp_path)["sessions"][0]["price_usd_per_hour"] == 2.5
    assert compare(tmp_path, card=3.0)["sessions"][0]["price_usd_per_hour"] == 3.0


def test_dollars_that_leave_out_a_run_say_so(tmp_path: Path) -> None:
    write(tmp_path / "card", gpu_card(uuid=CARD))
    runs = [("a", 0.0, 3.6), ("b", 5000.0, None)]
    events = [
        {"event": what, "time": begin + after, "run": name, "price_usd_per_hour": price}
        for name, begin, price in runs
        for what, after in (("run start", 0.0), ("run end", 100.0))
    ]
    book = tmp_path / "card" / "ledger.jsonl"
    book.write_text("".join(json.dumps(each) + "\n" for each in events))
    told = page(compare(tmp_path))
    assert "Measured in 200 s over all sessions, $0.1000 without 1 run(s) whose price is not known." in told
    book.write_text("".join(json.dumps(each) + "\n" for each in events[:2]))
    assert "Measured in 100 s over all sessions, $0.1000. Every" in page(compare(tmp_path))


def test_without_a_price_there_are_no_dollars(tmp_path: Path) -> None:
    write(tmp_path / "card", gpu_card(uuid=CARD))
    made = compare(tmp_path)
    assert made["sessions"][0]["usd_per_tb"] is None and "$" not in page(made)


def damage_record(folder: Path) -> str:
    path = next((folder / "gpu" / "gemm").glob("fp16*"))
    path.write_text(path.read_text()[:300])
    return path.name


def damage_roofline(folder: Path) -> str:
    (folder / "roofline.json").write_text(json.dumps({"schema": "roofline", "schema_version": 99}))
    return "99"


def lose_device(folder: Path) -> str:
    next((folder / "gpu").glob("device*")).unlink()
    return "no record describes its device"


@pytest.mark.parametrize("damage", [damage_record, damage_roofline, lose_device])
def test_a_broken_session_is_listed_and_the_others_are_compared(tmp_path: Path, damage: Any) -> None:
    write_fleet(tmp_path, 3, gpu_card(), {2: {"speed": 0.9}})
    word = damage(write(tmp_path / "zz-broken", gpu_card(uuid=uuid_of(9), speed=0.5)))
    made = compare(tmp_path)
    assert [each["session"] for each in made["broken"]] == ["zz-broken"] and word in made["broken"][0]["reason"]
    assert slow_sessions(made) == {("straggler", name_of(2))}
    assert "zz-broken" in page(made)


def test_a_session_that_was_never_drawn_is_compared_from_its_records(tmp_path: Path) -> None:
    made = twice(tmp_path, 0.9)
    (tmp_path / "card-2" / "roofline.json").unlink()
    (tmp_path / "card" / "roofline.json").write_text("not json")
    assert compare(tmp_path)["findings"] == made["findings"]


def test_a_roofline_older_than_its_records_is_not_believed(tmp_path: Path) -> None:
    twice(tmp_path, 1.0)
    slower = changed(next(r for r in gpu_card(uuid=CARD) if r["name"] == "read"), 0.5, started_at=LATER)
    synthetic.write_session(tmp_path / "card-2", [slower])
    assert {each["figure_kind"] for each in compare(tmp_path)["findings"]} == {"bandwidth"}


def test_the_chart_names_every_model_and_the_slow_session(tmp_path: Path) -> None:
    write_fleet(tmp_path / "results", 3, gpu_card(), {2: {"speed": 0.8}})
    write(tmp_path / "results" / "cpu", cpu_machine())
    made = compare(tmp_path / "results")
    save(draw(made), tmp_path / "c.png", tmp_path / "c.svg", 60)
    text = (tmp_path / "c.svg").read_text()
    assert all(word in text for word in ("NVIDIA H200", "(×3)", "Example CPU 8-Core", name_of(2)))
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def renamed(records: list[Record], name: str) -> list[Record]:
    made = json.loads(json.dumps(records))
    for record in made:
        record["device"]["name"] = name
        record["details"] |= {"name": name} if record["stage"] == "device" else {}
    return [seal(record) for record in made]


def test_no_two_texts_of_the_chart_overlap_and_none_is_cut_off(tmp_path: Path) -> None:
    models = {"NVIDIA A100-SXM4-80GB": 0.4, "NVIDIA H100 80GB HBM3": 0.97, "Tesla T4": 0.06, "NVIDIA L4": 0.061}
    for name, speed in models.items():
        write(tmp_path / name.lower().replace(" ", "-"), renamed(gpu_card(uuid=CARD, speed=speed), name))
    write_fleet(tmp_path, 4, gpu_card(), {2: {"speed": 0.93}, 3: {"speed": 0.9}})
    write(tmp_path / "cpu", cpu_machine())
    figure = draw(compare(tmp_path))
    figure.draw_without_rendering()
    [axes] = figure.axes
    legend = axes.get_legend()
    texts = [*axes.texts, axes.xaxis.label, axes.yaxis.label, *(legend.get_texts() if legend else [])]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    assert [name for name, box in boxes if not figure.bbox.padded(1).contains(box.x0, box.y0)] == []
    assert [name for name, box in boxes if not figure.bbox.padded(1).contains(box.x1, box.y1)] == []
    margin = [(name, box) for name, box in boxes if "FLOP/s" in name or name.startswith("nvidia-h200-")]
    assert len(margin) >= 12
    for index, (name, box) in enumerate(margin):
        assert [other for other, second in margin[index + 1 :] if box.overlaps(second)] == [], name


def test_nothing_to_compare_is_drawn_too(tmp_path: Path) -> None:
    made = compare(tmp_path)
    save(draw(made), tmp_path / "c.png", tmp_path / "c.svg", 60)
    assert "0 sessions" in (tmp_path / "c.svg").read_text() and made["sessions"] == []


def test_the_check_exits_1_on_a_slow_session_and_compare_never_does(tmp_path: Path) -> None:
    results = tmp_path / "results"
    twice(results, 0.9)
    check = program("compare_check.py", results)
    assert check.returncode == 1 and "REGRESSION card-2" in check.stdout and check.stderr == ""
    done = program("compare.py", results, "--out", str(results / "compare.json"), "--dpi", "60")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in results.glob("compare.*")} == {f"compare.{e}" for e in ("json", "md", "png", "svg")}


def test_the_check_exits_0_where_nothing_is_slower(tmp_path: Path) -> None:
    twice(tmp_path, 1.0)
    damage_record(write(tmp_path / "broken", gpu_card(uuid=uuid_of(3))))
    check = program("compare_check.py", tmp_path)
    assert check.returncode == 0 and "broken" in check.stdout


def test_the_targets_always_compare_and_check_by_exit_status(tmp_path: Path) -> None:
    folder = lab.copy_code(tmp_path / "lab")
    results = folder / "results"
    twice(results, 0.9)
    damage_record(write(results / "broken", gpu_card(uuid=uuid_of(3))))
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    assert "broken broken" in lab.run(folder, "compare")
    assert "REGRESSION card-2" in lab.refused(folder, "compare_check")
    after = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    assert {path.name for path in set(after) - set(before)} == {f"compare.{e}" for e in ("json", "md", "png", "svg")}
    assert before.items() <= after.items()
    shutil.rmtree(results / "card-2")
    lab.run(folder, "compare_check")


def test_a_thousand_sessions_take_seconds(tmp_path: Path) -> None:
    write_fleet(tmp_path, 1000, synthetic.h200_session(), {617: {"speed": 0.85, "clock": 0.8}})
    out = tmp_path / "compare.json"
    command = [sys.executable, str(SCRIPTS / "free" / "compare.py"), "--results", str(tmp_path), "--threshold", "0.05"]
    process = subprocess.Popen([*command, "--out", str(out), "--dpi", "100"], stdout=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    assert usage.ru_utime + usage.ru_stime < 20  # of its own: the machine may have other work
    assert usage.ru_maxrss < 2**20  # KiB
    made = json.loads(out.read_text())
    assert slow_sessions(made) == {("straggler", fleet_sessions.name_of(617))} and len(made["sessions"]) == 1000
    assert len(out.with_suffix(".md").read_text()) < 100_000

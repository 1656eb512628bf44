"""Estimates against what sessions really took: the committed one on an NVIDIA H200, from nothing and with half of it done."""

import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rooflab.cost import estimates
from rooflab.cost.estimates import Past
from rooflab.cost.rates import machine
from rooflab.plan import measurements
from rooflab.plan.points import Point
from rooflab.record import ledger

ROOT = Path(__file__).parents[1]
H200 = ROOT / "results" / "nvidia-h200"
CONFIG = yaml.safe_load((ROOT / "config.yaml").read_text())
Record = dict[str, Any]


def file_name(record: Record) -> str:
    suffix = f".{record['attempt']}" if record["attempt"] > 1 else ""
    return f"{record['name']}.{record['key']}{suffix}.json"


@pytest.fixture(scope="module")
def known() -> Past:
    return estimates.past(H200, "nvidia-h200")


@pytest.fixture(scope="module")
def took(known: Past) -> dict[str, float]:
    """Per record, seconds from the end of the job before to the end of this one, as the ledger tells."""
    walls = {}
    before: ledger.Stay | None = None
    for job in known.jobs:
        begin = before.last if before and 0 <= job.working - before.last < ledger.APART_S else job.begin
        walls[job.name.split("@")[0]] = job.last - begin
        before = job
    return walls


def estimated(records: Iterable[Record], known: Past) -> float:
    points = [Point(r["stage"], r["side"], r["name"], r["spec"]) for r in records]
    return sum(estimates.seconds_of(point, known) for point in points)


def in_order(known: Past, took: dict[str, float]) -> list[Record]:
    by_file = {file_name(record): record for record in known.records}
    return [by_file[file] for file in took if file in by_file]


def ratio(pending: list[Record], known: Past, took: dict[str, float]) -> float:
    return estimated(pending, known) / sum(took[file_name(record)] for record in pending)


def test_from_nothing_a_whole_session_is_within_20_percent(known: Past, took: dict[str, float]) -> None:
    records = in_order(known, took)
    assert len(records) >= 30
    table = {}
    for record in records:
        stage = table.setdefault(f"{record['side']} {record['stage']}", [0.0, 0.0])
        stage[0] += estimated([record], Past(machine("nvidia-h200"), [], [], []))
        stage[1] += took[file_name(record)]
    told, real = (sum(pair[i] for pair in table.values()) for i in (0, 1))
    rounded = {stage: [round(s, 1) for s in pair] for stage, pair in table.items()}
    assert 0.8 <= told / real <= 1.2, rounded
    assert 0.5 <= estimates.PLANNING_S / known.around_s <= 2, known.around_s


@pytest.mark.parametrize("share", [0.4, 0.5, 0.6])
def test_with_half_of_it_done_the_rest_is_within_10_percent(known: Past, took: dict[str, float], share: float) -> None:
    records = in_order(known, took)
    spent = 0.0
    done = 0
    while spent < share * sum(took.values()):
        spent += took[file_name(records[done])]
        done += 1
    half = Past(machine("nvidia-h200"), records[:done], [], known.jobs[:done])
    assert 0.9 <= ratio(records[done:], half, took) <= 1.1


def test_with_any_half_of_the_files_the_rest_is_close(known: Past, took: dict[str, float]) -> None:
    records = in_order(known, took)
    chance = random.Random(20)
    ratios = []
    for _ in range(100):
        kept = chance.sample(records, len(records) // 2)
        pending = [record for record in records if record not in kept]
        ratios.append(ratio(pending, Past(machine("nvidia-h200"), kept, [], known.jobs), took))
    close = [each for each in ratios if 0.9 <= each <= 1.1]
    assert len(close) >= 90 and min(ratios) >= 0.8 and max(ratios) <= 1.2, sorted(ratios)


def gemm(**changed: Any) -> dict[str, Any]:
    config = CONFIG | {"gemm": CONFIG["gemm"] | {"dtypes": ["fp16"], "sizes": [4096]} | changed}
    return next(
        p.spec for p in measurements.session_points(config, with_gpu=True) if p.stage == "gemm" and p.side == "gpu"
    )


def test_a_gemm_grows_by_what_its_protocol_says() -> None:
    before = estimates.work_s(gemm(), machine("nvidia-h200"))
    longer = gemm()["sustained_s"] + 10
    assert estimates.work_s(gemm(sustained_s=longer), machine("nvidia-h200")) == pytest.approx(before + 10)
    assert estimates.work_s(gemm(burst_gap_s=0.3), machine("nvidia-h200")) == pytest.approx(before + 1.3, abs=0.01)
    assert estimates.work_s(gemm(algorithms=0), machine("nvidia-h200")) < before - 1
    assert estimates.work_s(gemm(sizes=[32768]), machine("nvidia-h200")) > before + 10
    assert estimates.work_s(gemm(dtypes=["fp32"]), machine("nvidia-h200")) > before


def test_a_slow_card_takes_longer_and_lacks_what_it_lacks() -> None:
    assert estimates.work_s(gemm(), machine("tesla-t4")) > estimates.work_s(gemm(), machine("nvidia-h200"))
    assert estimates.work_s(gemm(dtypes=["bf16"]), machine("tesla-t4")) == 0.0
    assert estimates.work_s(gemm(), machine("a-card-nobody-knows")) > 0


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ("nvidia-h200", None),
        ("cpu-amd-epyc", None),
        ("h200", "'h200' is not in the vendor table: the GPU's seconds are those of a mid-range card"),
        ("nvidia-geforce-rtx-4090-laptop-gpu", "mid-range card"),
        ("grid-a100-10c", "mid-range card"),
        ("nvidia-a100-sxm4-80gb-mig-1g.10gb", None),
    ],
)
def test_an_estimate_for_a_card_that_is_not_known_says_on_what_it_rests(device: str, told: str | None) -> None:
    """No name is priced by its beginning: a laptop's card and a virtual one once had the rates of the card they are named after."""
    basis = machine(device).basis
    assert basis is None if told is None else basis is not None and told in basis


def test_a_slice_has_its_share() -> None:
    whole, slice_ = machine("nvidia-a100-sxm4-80gb").gpu, machine("nvidia-a100-sxm4-80gb-mig-1g.10gb").gpu
    assert whole.flop("bf16") / slice_.flop("bf16") == pytest.approx(8)
    assert 7 < whole.bytes_per_s / slice_.bytes_per_s < 9


def test_the_device_record_of_a_session_says_which_card_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    shutil.copytree(H200 / "gpu", tmp_path / "mine" / "gpu")
    assert estimates.past(tmp_path / "mine", "whatever").machine == machine("nvidia-h200")


def test_numpy_has_no_half_precision_so_it_costs_a_start() -> None:
    cpu = [p for p in measurements.session_points(CONFIG, with_gpu=False) if p.stage == "gemm"]
    seconds = {p.spec["dtype"]: estimates.work_s(p.spec, machine("nvidia-h200")) for p in cpu}
    assert seconds["fp16"] == seconds["bf16"] == 0.0 and seconds["fp32"] > 2


def record(spec: dict[str, Any], seconds: float, status: str = "measured") -> Record:
    known = {"stage": spec["stage"], "side": spec["side"], "name": f"{spec['dtype']}-n{spec['n']}", "reason": None}
    return known | {"spec": spec, "status": status, "seconds": seconds, "series": [{"name": "lab"}, {"name": "burst"}]}


def test_the_most_similar_record_speaks_and_a_failed_one_does_not() -> None:
    own = estimates.work_s(gemm(), machine("nvidia-h200"), bursts=1)
    far = estimates.work_s(gemm(dtypes=["fp32"], sizes=[8192]), machine("nvidia-h200"), bursts=1)
    near = record(gemm(iterations=50), 3 * own)
    others = [record(gemm(dtypes=["fp32"], sizes=[8192]), 9 * far), record(gemm(iterations=51), 99.0, "failed")]
    point = Point("gemm", "gpu", "fp16-n4096", gemm())
    alone = estimates.seconds_of(point, Past(machine("nvidia-h200"), [], [], []))
    one = estimates.seconds_of(point, Past(machine("nvidia-h200"), [near, *others], [], []))
    assert one == alone  # one record may have compiled what the others only load
    told = estimates.seconds_of(point, Past(machine("nvidia-h200"), [near, near, near, *others], [], []))
    assert told > 1.7 * alone and told < 3.1 * alone


def test_the_session_s_own_gaps_and_runs_replace_the_shipped_figures() -> None:
    stays = [ledger.Stay(10 * i, 10 * i + 4.0, 10 * i + 8.0, None, str(i), "gpu/gemm", True) for i in range(5)]
    run = ledger.Stay(-3.0, 0.0, 48.0, None, "a", "", True, gone=51.0)
    known = Past(machine("nvidia-h200"), [], [run], stays)
    assert known.start_up_s == {"gpu": 6.0, "cpu": estimates.START_UP_S["cpu"]}
    assert known.around_s == pytest.approx(3.0)
    assert Past(machine("nvidia-h200"), [], [], []).around_s == estimates.PLANNING_S


def test_every_stage_that_can_be_planned_has_a_price() -> None:
    wanted = CONFIG | {"operators": [{"name": "llama-3-1-8b"}]}
    points = measurements.session_points(wanted, with_gpu=True)
    assert {point.stage for point in points} == set(measurements.PROTOCOL)
    for point in points:
        seconds = estimates.work_s(point.spec, machine("nvidia-h200"))
        assert 0 <= seconds < 120, (point.name, seconds)
        assert seconds > 0 or point.stage == "device" or point.side == "cpu", point.name

"""The real workflow end to end on the CPU, with small sizes, in a temporary checkout."""

import json
import re
from pathlib import Path

import pytest
from lab import edit, one_file, paid_files, refused, run, session_of, snakemake


def test_one_command_gives_every_deliverable(finished: Path) -> None:
    session = session_of(finished)
    deliverables = ["device_query.json", "peak_flops.json", "roofline.json", "roofline.png", "roofline.svg"]
    for name in [*deliverables, "interpretation.md", "manifest.json", "ledger.jsonl"]:
        assert (session / name).stat().st_size > 0, name
    checks = json.loads((session / "manifest.json").read_text())["checks"]
    assert {c["name"]: c["status"] for c in checks}["decode_sequences"] == "pass"
    assert {c["name"]: c["status"] for c in checks}["plot_complete"] == "pass"


def test_every_point_traces_to_its_paid_file(finished: Path) -> None:
    session = session_of(finished)
    model = json.loads((session / "roofline.json").read_text())
    assert len([p for p in model["points"] if p["operator"] == "decode_attention" and p["lab_point"]]) == 4
    for item in model["points"] + model["ceilings"]:
        assert (session / item["file"]).exists()


def test_the_lab_s_order_is_kept_without_edges_between_the_measurements(finished: Path) -> None:
    events = [json.loads(line) for line in (session_of(finished) / "ledger.jsonl").read_text().splitlines()]
    stages = [each["stage"] for each in events if each["event"] == "start"]
    order = ["cpu/device", "cpu/launch_floor", "cpu/bandwidth", "cpu/gemm", "cpu/decode"]
    assert stages == sorted(stages, key=order.index) and set(stages) == set(order)


def test_finished_means_nothing_pending(lab: Path) -> None:
    assert "Nothing is left to measure." in run(lab, "-n")
    before = paid_files(lab)
    run(lab)
    assert paid_files(lab) == before


def test_plot_of_half_a_session_shows_its_holes_and_measures_nothing(lab: Path) -> None:
    for path in (session_of(lab) / "cpu" / "decode").glob("*"):
        path.unlink()
    before = paid_files(lab)
    run(lab, "report")
    assert paid_files(lab) == before
    holes = json.loads((session_of(lab) / "roofline.json").read_text())["holes"]
    assert len([h for h in holes if h["status"] == "missing"]) == 4


def test_the_dry_run_prices_a_gpu_session_on_a_machine_without_one(lab: Path) -> None:
    told = run(lab, "-n", "--config", "device=nvidia-h200", "price_usd_per_hour=3.99")
    assert "To measure in nvidia-h200 at $3.99/h:" in told and re.search(r"total .* \$0\.\d+", told)


def test_a_gpu_session_cannot_be_measured_here(lab: Path) -> None:
    done = snakemake(lab, "measurements", "--config", "device=nvidia-h200")
    assert done.returncode != 0 and "not measured" in done.stdout + done.stderr
    assert not list((lab / "results" / "nvidia-h200").rglob("*.json"))


def test_a_budget_too_small_stops_before_the_first_job(lab: Path) -> None:
    one_file(lab, "fp32-n64.*").unlink()
    before = paid_files(lab)
    assert "exceed the budget" in refused(lab, "--config", "price_usd_per_hour=100", "budget_usd=0.0001")
    assert paid_files(lab) == before


@pytest.mark.parametrize("target", [[], ["plot"], ["measurements", "-n"]])
def test_a_bad_config_stops_every_target_with_one_line(lab: Path, target: list[str]) -> None:
    edit(lab, lambda c: c["gemm"].update(iteration=3))
    told = refused(lab, *target)
    lines = [line for line in told.splitlines() if line and not line.startswith("Using workflow specific profile")]
    assert lines == ["config: unknown key 'gemm.iteration'; did you mean 'iterations'?"]


def test_a_paid_file_that_no_config_names_is_refused_in_one_line(lab: Path) -> None:
    told = refused(lab, "results/x/gpu/gemm/fp16-n4096.00000000.json")
    assert "no measurement of this config has that name" in told and "Exception" not in told

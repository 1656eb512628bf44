"""The operators in the real workflow: priced by a dry-run, drawn from records alone, refused in one line."""

import json
import shutil
from pathlib import Path

import pytest
from lab import copy_code, refused, run
from rooflab.plan.models import shipped
from test_model_table import ROOT, config, files, model_records

OPERATORS = "operators=[{name: gpt2}]"
AWAY = ("--config", "device=nvidia-h200", OPERATORS)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_code(tmp_path_factory.mktemp("models"))


def test_the_dry_run_prices_the_operators(lab: Path) -> None:
    told = run(lab, "-n", *AWAY, "price_usd_per_hour=4")
    rows = {" ".join(line.split()[:2]): line.split() for line in told.splitlines() if line.startswith("  gpu ")}
    for stage in ("attention", "step", "sweep"):
        row = rows[f"gpu {stage}"]
        assert row[2:4] == ["4", "jobs"] and float(row[4]) > 0 and row[-1].startswith("$")


def test_the_default_session_measures_none_of_it(lab: Path) -> None:
    told = run(lab, "-n", "--config", "device=nvidia-h200")
    assert "gpu decode" in told and "gpu attention" not in told and "gpu sweep" not in told


def test_pages_and_charts_are_made_from_the_records_whatever_the_config_says(lab: Path) -> None:
    session = lab / "results" / "nvidia-h200"
    for file, record in files(model_records("gpt2", config())).items():
        (session / file).parent.mkdir(parents=True, exist_ok=True)
        (session / file).write_text(json.dumps(record))
    told = run(lab, "report", "-n", "--quiet", "host")
    assert all(f"results/nvidia-h200/model_gpt2.{kind}" in told for kind in ("md", "png", "svg"))
    told = run(lab, "plot", "-n", "--quiet", "host")
    assert "model_gpt2.png" in told and "model_gpt2.md" not in told


def test_another_name_for_measured_sizes_derives_the_session_again(lab: Path, tmp_path: Path) -> None:
    session = lab / "results" / "nvidia-h200"
    (measured,) = (ROOT / "results" / "nvidia-h200").glob("gpu/step/llama-3-1-8b-bf16-B1.*.json")
    (session / "gpu" / "step").mkdir(parents=True, exist_ok=True)
    shutil.copy(measured, session / "gpu" / "step")
    (session / "roofline.json").write_text("{}")  # newer than all it is made of, and nothing knows how it was made
    given = tmp_path / "config.json"
    given.write_text(json.dumps(shipped()["llama-3-1-8b"]["config"]))
    told = run(lab, "plot", "-n", "--quiet", "host", "--config", f"operators=[{{name: mine, config_json: {given}}}]")
    assert "model_mine.png" in told and "rule roofline:" in told


def test_a_model_that_nobody_knows_stops_with_one_line(lab: Path) -> None:
    told = refused(lab, "-n", "--config", "device=nvidia-h200", "operators=[{name: nobody}]")
    assert "config: operators: nobody: not a shipped geometry (llama-3-1-8b" in told

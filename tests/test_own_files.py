"""The user's own files are looked at before anything is measured: by a dry-run, by doctor, and at the start of a run."""

import json
from pathlib import Path
from typing import Any

import lab
import numpy as np
import pytest
from rooflab.reference.minigpt import geometry_of, seeded_weights
from rooflab.reference.weights import save_weights, sha256_of

SIZES = {"layers": 1, "heads": 2, "kv_heads": 2, "head_dim": 8, "vocabulary": 64, "context": 64}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return lab.copy_code(tmp_path / "lab")


def use(folder: Path, weights: dict[str, Any]) -> None:
    save_weights(folder / "model.npz", weights)
    given = {"weights": "model.npz", "weights_sha256": sha256_of(folder / "model.npz")}
    lab.edit(folder, lambda config: config["minigpt"].update(SIZES | given))
    lab.edit(folder, lambda config: config["decode"].update(sequence_lengths=[16]))


def turned(weights: dict[str, Any]) -> dict[str, Any]:
    return {name: each.T if each.ndim == 2 and name.startswith("h.") else each for name, each in weights.items()}


def test_a_checkpoint_of_another_orientation_stops_before_the_first_measurement(checkout: Path) -> None:
    use(checkout, turned(seeded_weights(geometry_of(**SIZES), 0)))
    for arguments in (["-n"], []):
        assert "torch.nn.Linear" in lab.refused(checkout, *arguments)
    assert not (checkout / "results").exists()
    told = lab.snakemake(checkout, "doctor")
    assert told.returncode == 1 and "torch.nn.Linear" in told.stdout + told.stderr
    lab.run(checkout, "plot")


def test_weights_that_hold_nan_never_end_in_success(checkout: Path) -> None:
    weights = seeded_weights(geometry_of(**SIZES), 0)
    weights["ln_f.bias"][0] = np.nan
    use(checkout, weights)
    lab.run(checkout, "-n")
    assert "ln_f.bias holds 1 numbers that are NaN" in lab.refused(checkout, "measurements")


def test_a_cpu_roofline_in_other_units_stops_before_the_first_measurement(checkout: Path) -> None:
    (checkout / "cpu.json").write_text(json.dumps({"flop_per_s": {"fp32": 374}, "bytes_per_s": {"read": 40}}))
    lab.edit(checkout, lambda config: config["cpu"].update(roofline_file="cpu.json"))
    told = lab.refused(checkout, "-n")
    assert "config: cpu.roofline_file: cpu.json: flop_per_s.fp32: 374 FLOP/s is no CPU's" in told

"""The page that teaches to read a roofline: its numbers are the session's, and its words fit them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from rooflab.derive.document import roofline as model

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import reading  # noqa: E402

TEMPLATE = reading.TEMPLATE.read_text(encoding="utf-8")


def session(**changes: Any) -> dict[str, Any]:
    made = synthetic.h200_session(**changes)
    return model("nvidia-h200", synthetic.with_files(made), synthetic.planned(made))


def test_the_page_is_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "reading.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "reading-a-roofline.md is up to date\n"), run.stderr


def test_the_numbers_are_worked_out_from_the_session() -> None:
    text = reading.page(session(), TEMPLATE)
    assert "761 TFLOP/s ÷ 4.71 TB/s = 161 FLOP/byte" in text
    assert "2n³ = 137 GFLOP" in text and "2n² × 2 bytes = 64 MiB" in text
    assert "137 GFLOP ÷ 196 µs = 700 TFLOP/s" in text
    assert "the step would take 445 ns and reach 4.71 TFLOP/s" in text
    assert "| cupy chain, launch and wait | 140 µs | 8.9× |" in text
    assert "{" not in text


def test_the_section_on_hbm_stands_only_where_it_was_measured() -> None:
    assert reading.OPTIONAL not in reading.page(session(), TEMPLATE)
    text = reading.page(session(hbm_us=520.0), TEMPLATE)
    assert (
        reading.OPTIONAL in text and "K and V are 2 GiB" in text and "87.6 % of what the slope of reads allows" in text
    )


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        ({"gemm": synthetic.H200_GEMM | {"fp16": (400.0, 760.0, 300.0, 761.0, 2e-4)}}, "on its ceiling"),
        ({"gemm": synthetic.H200_GEMM | {"fp16": (700.0, 760.0, 759.0, 761.0, 2e-4)}}, "slower than bursts"),
        ({"decode_us": {"fp16": {1024: (60.0, 2.6, 2.4)}}}, "launch-bound"),
        ({"gb_per_s": {"d2d": 4289.0}}, "there is one gpu-memory-read"),
    ],
)
def test_a_session_that_says_otherwise_is_refused(changes: dict[str, Any], claim: str) -> None:
    with pytest.raises(reading.Changed, match=claim):
        reading.page(session(**changes), TEMPLATE)


def test_a_launch_floor_is_no_bound_that_nothing_beats() -> None:
    """The floor is a median, and the one that the step's own program found."""
    made = session()
    made["answers"]["decode"]["dtypes"]["fp16"]["sequences"]["1024"]["launch_floor_s"] = 11.3e-6
    text = reading.page(made, TEMPLATE)
    assert "took 11 µs in the same program" in text
    assert "can be faster" not in text

"""On a card that is slow in a format its products are taken less often: the session takes minutes, not an hour."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from rooflab.cost.rates import pace_of
from rooflab.measure.bench import LONG_S, Bench
from rooflab.plan import config as configuration
from rooflab.plan import pace
from rooflab.plan.measurements import session_points
from rooflab.theory import work

SHIPPED = configuration.checked(yaml.safe_load((Path(__file__).parents[1] / "config.yaml").read_text()))
SLOW = ["tesla-t4", "nvidia-l4", "nvidia-geforce-rtx-4090", "nvidia-a10"]


def gemms(device: str | None, **changes: Any) -> dict[str, dict[str, Any]]:
    config = copy.deepcopy(SHIPPED) | changes
    points = session_points(config, True, pace_of(device) if device else None)
    return {point.name: point.spec for point in points if (point.stage, point.side) == ("gemm", "gpu")}


@pytest.mark.parametrize("device", ["nvidia-h200", "nvidia-a100-sxm4-80gb", "no-such-card"])
def test_a_fast_or_unknown_card_keeps_the_config_s_counts_and_so_its_keys(device: str) -> None:
    files = [p.file() for p in session_points(SHIPPED, True, pace_of(device))]
    assert files == [p.file() for p in session_points(SHIPPED, True)]


@pytest.mark.parametrize("device", SLOW)
def test_a_slow_format_shrinks_in_counts_alone(device: str) -> None:
    asked, taken = gemms(None), gemms(device)
    assert list(taken) == list(asked)
    slow, plain = taken["fp64-n8192"], asked["fp64-n8192"]
    assert slow["n"] == 8192 and slow != plain
    assert slow["burst_blocks"] >= 5 and slow["iterations"] >= 5 and slow["warmups"] >= 1
    assert {name for name in slow if slow[name] != plain[name]} <= {
        "warmups",
        "iterations",
        "burst_blocks",
        "algorithms",
    }
    assert all(slow[name] <= plain[name] for name in ("warmups", "iterations", "burst_blocks", "algorithms"))


@pytest.mark.parametrize("device", SLOW)
def test_the_lab_s_own_products_are_as_the_lab_asks(device: str) -> None:
    asked, taken = gemms(None), gemms(device)
    lab = [name for name in asked if name.endswith("-n4096")]
    assert lab and [taken[name] for name in lab] == [asked[name] for name in lab]


def test_a_thorough_session_is_taken_as_asked() -> None:
    assert gemms("tesla-t4", effort="thorough") == gemms(None, effort="thorough")


@pytest.mark.parametrize("tflop_per_s", [0.25, 0.5, 1.3, 4.0, 8.1, 11.0])
def test_a_product_fits_into_the_limit_or_has_the_fewest_samples(tflop_per_s: float) -> None:
    """With the products that the bench makes around the samples, at the share of the vendor's figure that is reached."""
    spec = pace.paced(gemms(None)["fp64-n8192"], tflop_per_s * 1e12)
    call_s = work.square_product(8192) / (pace.REACHED * tflop_per_s * 1e12)
    products = spec["warmups"] + spec["iterations"] + spec["burst_blocks"] + 5 * spec["algorithms"]
    fewest = spec["iterations"] == spec["burst_blocks"] == pace.LEAST
    assert products * call_s <= pace.LIMIT_S or (fewest and spec["algorithms"] == 0 and spec["warmups"] == 1)


def test_a_long_call_is_not_made_more_often_than_it_is_timed() -> None:
    now, calls = [0.0], [0]

    def call() -> None:
        now[0] += 4.4
        calls[0] += 1

    bench = Bench(clock=lambda: now[0], sleep=lambda seconds: None)
    assert LONG_S <= 4.4
    bench.burst(call, name="burst", implementation="x", warmups=1, block_s=0.015, blocks=5, gap_s=0.2)
    assert calls[0] == 1 + 1 + 5 + 1  # warm-up, estimate, samples, state under load
    calls[0] = 0
    bench.blocks(call, name="lab", implementation="x", warmups=1, iterations_per_block=5, blocks=1)
    assert calls[0] == 1 + 5 + 1
    calls[0] = 0
    assert bench.seconds_per_call(call, at_least_s=0.005) == pytest.approx(4.4) and calls[0] == 2

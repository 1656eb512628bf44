"""What bounds a point: launch, memory tier or compute, on hand-made ceilings and on the synthetic sessions."""

from typing import Any

import pytest
import synthetic
from rooflab.derive import roof
from rooflab.derive.document import roofline
from rooflab.theory.work import Work

MIB = 2**20


def ceiling(side: str = "gpu", **given: Any) -> dict[str, Any]:
    blank = {"id": "c", "side": side, "kind": "memory", "variant": None, "tier": "HBM", "pattern": "read"}
    value = given.get("burst", 1e12)
    return (
        blank
        | {"burst": value, "burst_spread": [0.99 * value, 1.01 * value], "reach_bytes": None, "sweep": None}
        | given
    )


COMPUTE = ceiling(kind="compute", variant="fp16", tier=None, pattern=None, burst=1e15, id="compute")
READ = ceiling(id="read")
COPY = ceiling(pattern="d2d", burst=0.9e12, id="copy")
L2 = ceiling(tier="L2", pattern="l2", burst=4e12, id="l2")
FLOOR = {
    "id": "floor",
    "side": "gpu",
    "launch": "python",
    "timing": "sync_each",
    "median_s": 1e-5,
    "p10_s": 9e-6,
    "p90_s": 1.1e-5,
}


@pytest.mark.parametrize(
    ("side", "nbytes", "cache", "tier"),
    [
        ("gpu", 4 * MIB, "warm", "L2"),
        ("gpu", 4 * MIB, "cold", "HBM"),
        ("gpu", 4 * MIB, None, "HBM"),
        ("gpu", 50 * MIB, "warm", "L2"),
        ("gpu", 50 * MIB + 1, "warm", "HBM"),
        ("cpu", 4 * MIB, "warm", "cache"),
        ("cpu", 64 * MIB, "warm", "DRAM"),
    ],
)
def test_tier(side: str, nbytes: int, cache: str | None, tier: str) -> None:
    assert roof.tier_of(side, nbytes, cache, 50 * MIB) == tier


def test_without_a_cache_size_the_tier_is_main_memory() -> None:
    assert roof.tier_of("gpu", 1, "warm", None) == "HBM"


def test_a_read_is_never_compared_with_a_copy() -> None:
    assert roof.memory_ceiling([COPY, READ], "gpu", "HBM") == READ
    assert roof.memory_ceiling([COPY], "gpu", "HBM") is None


def test_l2_has_its_own_ceiling_where_measured() -> None:
    assert roof.memory_ceiling([READ, L2], "gpu", "L2") == L2
    assert roof.memory_ceiling([READ], "gpu", "L2") == READ


@pytest.mark.parametrize(
    ("work", "bound", "seconds"),
    [
        (Work(10**6, 10**6), "launch", 1e-5),
        (Work(10**9, 10**9), "HBM", 1e-3),
        (Work(10**15, 10**9), "compute", 1.0),
    ],
)
def test_the_longest_limit_binds(work: Work, bound: str, seconds: float) -> None:
    limit = roof.binding(roof.limits(work, "HBM", COMPUTE, READ, FLOOR))
    assert limit is not None
    assert (limit.bound, limit.seconds) == (bound, pytest.approx(seconds))


def test_nothing_known_binds_nothing() -> None:
    assert roof.binding(roof.limits(Work(1, 1), "HBM", None, None, None)) is None
    assert not roof.is_above_roof(1.0, 0.0, None)


@pytest.mark.parametrize(("median_s", "above"), [(1e-3, False), (1e-3 / 1.019, False), (1e-3 / 1.03, True)])
def test_above_the_roof_means_beyond_its_spread(median_s: float, above: bool) -> None:
    limit = roof.binding(roof.limits(Work(1, 10**9), "HBM", None, READ, None))
    assert roof.is_above_roof(median_s, 0.0, limit) is above
    assert not roof.is_above_roof(median_s, 0.05, limit)


def test_an_l2_point_is_not_judged_by_the_hbm_slope() -> None:
    limit = roof.binding(roof.limits(Work(1, 10**9), "L2", None, READ, None))
    assert limit is not None
    assert limit.bound == "L2"
    assert not roof.is_above_roof(1e-4, 0.0, limit)


def test_an_l2_point_is_judged_by_a_measured_l2_ceiling() -> None:
    limit = roof.binding(roof.limits(Work(1, 10**9), "L2", None, L2, None))
    assert roof.is_above_roof(1e-4, 0.0, limit)


def test_the_floor_is_that_of_the_same_way_of_launching() -> None:
    graph = FLOOR | {"launch": "graph", "timing": "graph"}
    assert roof.launch_floor([graph, FLOOR], "gpu", "python", "sync_each") == FLOOR
    assert roof.launch_floor([FLOOR], "gpu", "graph", "graph") is None


def test_regimes_of_an_h200() -> None:
    points = {p["id"]: p for p in roofline("s", synthetic.with_files(synthetic.h200_session()), [])["points"]}
    step = points["gpu-decode-minigpt-fp16-S128-fused"]
    assert (step["bound_by"], step["tier"], step["limit"]) == ("launch", "L2", "gpu-launch-sync_each")
    assert step["fraction_of_attainable"] == pytest.approx(9.3 / 11.87)
    assert step["fraction_of_fp16_peak"] == pytest.approx(4 * 128 * 512 / 11.87e-6 / 761e12)
    replayed = points["gpu-decode-minigpt-fp32-S1024-fused_graph"]
    assert (replayed["bound_by"], replayed["at_roof"]) == ("L2", False)
    assert points["gpu-gemm-fp16-n4096"]["bound_by"] == "compute"
    assert points["cpu-decode-minigpt-fp32-S1024-numpy"]["tier"] == "cache"


def test_a_fraction_above_one_is_shown_as_it_is() -> None:
    too_fast = synthetic.decode("gpu", "fp16", 128, [synthetic.decode_series("fused", "fused", 3.1)])
    made = synthetic.h200_session(without=["minigpt-fp16-S128"], extra=[too_fast])
    points = {p["id"]: p for p in roofline("s", synthetic.with_files(made), [])["points"]}
    point = points["gpu-decode-minigpt-fp16-S128-fused"]
    assert (point["above_roof"], point["fraction_of_attainable"]) == (True, pytest.approx(3.0))

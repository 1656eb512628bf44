"""What a number is said to mean: whose ceiling, at what clock, how far beyond what the chip can do, at which roof."""

import random
from typing import Any

import pytest
import synthetic
from free.peak_flops_summary import peak_flops
from rooflab.derive import roof
from rooflab.derive.chip.sustained import held, window
from rooflab.derive.document import roofline
from rooflab.derive.drift import trend
from rooflab.derive.series import is_power_capped
from rooflab.record.records import check_schema

Record = dict[str, Any]
STAMPED = {
    "sm_hz": 1.626e9,
    "sm_hz_low": 1.621e9,
    "sm_hz_high": 1.634e9,
    "pairs": 10,
    "where": "inside",
    "reason": None,
}


def model(made: list[Record]) -> Record:
    found: Record = roofline("s", synthetic.with_files(made), synthetic.planned(made))
    check_schema("roofline", found, "here")
    return found


def only(made: Record, kind: str, identifier: str) -> Record:
    (found,) = [each for each in made[kind] if each["id"] == identifier]
    return dict(found)


def product(dtype: str, n: int, rates: dict[str, float], **changes: Any) -> Record:
    """A GEMM record whose series have these names and TFLOP/s; `changes` by series name, with underscores."""
    made = [
        synthetic.series(name, "cupy.matmul", 2 * n**3 / (rate * 1e12), chip=synthetic.chip("gpu"))
        | changes.get(name.replace(" ", "_"), {})
        for name, rate in rates.items()
    ]
    shape = {"m": n, "n": n, "k": n}
    return synthetic.record("gemm", "gpu", f"{dtype}-n{n}", operator="gemm", dtype=dtype, shape=shape, series=made)


def with_product(record: Record, **changes: Any) -> Record:
    left_out = [f"{record['dtype']}-n{n}" for n in (4096, 8192)]
    return model(synthetic.h200_session(without=left_out, extra=[record], **changes))


# Ceilings


def test_a_point_is_never_its_own_ceiling_and_may_lie_above_it() -> None:
    made = with_product(product("fp16", 4096, {"lab": 800, "burst": 760, "sustained": 650}))
    ceiling = only(made, "ceilings", "gpu-compute-fp16")
    assert (ceiling["series"], ceiling["samples"], ceiling["burst"]) == ("burst", 5, pytest.approx(760e12))
    assert only(made, "points", "gpu-gemm-fp16-n4096")["fraction_of_ceiling"] == pytest.approx(800 / 760)


def test_without_five_samples_of_another_series_there_is_no_ceiling() -> None:
    few = {"burst": {"samples_s": [0.01, 0.01, 0.01]}}
    made = with_product(product("fp16", 4096, {"lab": 700, "burst": 760}, **few))
    assert "gpu-compute-fp16" not in [each["id"] for each in made["ceilings"]]
    point = only(made, "points", "gpu-gemm-fp16-n4096")
    assert (point["fraction_of_ceiling"], point["fraction_of_vendor"]) == (None, pytest.approx(700 / 989.4))
    assert (point["bound_by"], point["at_roof"], point["above_roof"]) == (None, None, False)
    told = {"code": "no_independent_ceiling", "values": {"side": "gpu", "dtypes": ["fp16"], "least": 5}}
    assert told in made["notes"]
    own = made["answers"]["gemm"]["dtypes"]["fp16"]
    assert (own["ceiling"], own["fraction_of_ceiling"]) == (None, None)


def test_line_and_tick_are_of_one_algorithm() -> None:
    other = {"burst_candidate": {"implementation": "cublasLt candidate 1"}}
    rates = {"lab": 700, "burst": 760, "burst candidate": 790, "sustained": 650}
    assert (
        only(with_product(product("fp16", 4096, rates, **other)), "ceilings", "gpu-compute-fp16")["sustained"] is None
    )
    same = other | {"sustained": other["burst_candidate"]}
    ceiling = only(with_product(product("fp16", 4096, rates, **same)), "ceilings", "gpu-compute-fp16")
    assert (ceiling["sustained"], ceiling["implementation"]) == (
        pytest.approx(650e12, rel=0.01),
        "cublasLt candidate 1",
    )


def test_of_the_vendor_is_the_ceiling_everywhere_but_in_the_first_check() -> None:
    made = synthetic.h200_session()
    found = model(made)
    ceiling = only(found, "ceilings", "gpu-compute-fp8_e4m3")
    own = found["answers"]["gemm"]["dtypes"]["fp8_e4m3"]
    peak = peak_flops("s", synthetic.with_files(made), [])["dtypes"]["fp8_e4m3"]
    assert ceiling["fraction_of_vendor"] == own["burst_fraction_of_vendor"] == peak["fastest_burst_fraction_of_vendor"]
    assert found["checks"][0]["value"]["fp8_e4m3"] == peak["burst_fraction_of_vendor"] < ceiling["fraction_of_vendor"]


def test_a_way_of_summing_keeps_its_name_at_the_vendor_table() -> None:
    """An RTX 4090 at 310 TFLOP/s in fp16 summed in fp16 is at 94 % of its 330.3, not at 188 % of the 165.2 of fp16."""
    card = {"name": "NVIDIA GeForce RTX 4090", "sm_count": 128, "compute_capability": "8.9", "memory_bytes": 24 * 2**30,
            "max_sm_clock_hz": 3.105e9, "sm_clock_hz": 2.52e9, "memory_clock_hz": 10.501e9, "memory_bus_bits": 384}  # fmt: skip
    gemm = {"fp16": (150.0, 155.0, 150.0, 156.0, 2e-4)}
    summed = synthetic.gemm("gpu", "fp16", 8192, 300, 310, 300, 1e-3)
    summed = synthetic.seal(summed | {"name": "fp16_acc16-n8192"})
    made = model(synthetic.h200_session(facts=card, gemm=gemm, gb_per_s={"read": 900.0}, decode_us={}, extra=[summed]))
    assert only(made, "ceilings", "gpu-compute-fp16_acc16")["fraction_of_vendor"] == pytest.approx(310 / 330.3)
    assert checked(made, "physically_possible")["status"] == "pass"


def test_one_ridge_point_a_ceiling_on_the_slope_of_reads() -> None:
    made = model(synthetic.h200_session())
    assert {each["slope"] for each in made["ridge_points"]} == {"gpu-memory-read", "cpu-memory-read"}
    assert len(made["ridge_points"]) == len([each for each in made["ceilings"] if each["kind"] == "compute"])


# Sustained


def test_sustained_is_work_over_time_across_whole_cycles() -> None:
    cycle = [1.0, 1.0, 1.3, 1.3]
    samples = [0.9] * 8 + cycle * 4 + [1.0, 1.0]
    first, end = window(samples)
    assert (end - first) % 4 == 0 and end - first >= 8
    run = synthetic.series("sustained", "x", 1.0, samples_s=samples, iterations_per_sample=10)
    assert held(run).seconds_per_launch == pytest.approx(0.115)  # the median of the second half says 0.1 or 0.13


def test_a_sustained_run_tells_clock_temperature_and_watts_of_its_window() -> None:
    samples = [1.0, 1.0] * 9
    track = {"start_s": list(range(18)), "sm_hz": [1.9e9] * 6 + [1.4e9] * 12, "temperature_c": [40.0] * 6 + [60.0] * 12}
    run = synthetic.series("sustained", "x", 1.0, samples_s=samples, chip=synthetic.chip("gpu", "SwPowerCap"))
    found = held(run | {"track": track})
    assert (found.sm_clock_hz, found.temperature_c, found.power_w) == (pytest.approx(1.4e9), 60.0, 690.0)
    assert held(run).power_w is None  # a reading beside the samples is no energy counter


# Clock and use


def test_the_gap_to_the_data_sheet_is_taken_apart() -> None:
    made = with_product(product("bf16", 4096, {"lab": 760, "burst": 765}, burst={"clock": STAMPED}))
    ceiling = only(made, "ceilings", "gpu-compute-bf16")
    assert ceiling["clock"]["vendor_hz"] == pytest.approx(1.83e9, rel=0.001)
    assert ceiling["clock"]["factor"] == pytest.approx(1626 / 1830, rel=0.001)
    assert ceiling["use"]["of_issue_rate"] == pytest.approx(0.87, abs=0.005)
    factors = ceiling["clock"]["factor"] * ceiling["use"]["of_issue_rate"]
    assert ceiling["vendor"] * factors == pytest.approx(ceiling["burst"])
    own = made["answers"]["gemm"]["dtypes"]["bf16"]
    assert (own["clock_factor"], own["clock_hz"]) == (ceiling["clock"]["factor"], 1.626e9)


@pytest.mark.parametrize(
    ("clock", "reason"),
    [({}, "not_stamped"), ({"clock": STAMPED | {"sm_hz": None, "reason": "blocks_under_1_ms"}}, "blocks_under_1_ms")],
)
def test_without_a_valid_pair_there_is_no_factor_but_its_reason(clock: Record, reason: str) -> None:
    made = with_product(product("bf16", 4096, {"lab": 760, "burst": 765}, burst=clock))
    ceiling = only(made, "ceilings", "gpu-compute-bf16")
    assert ceiling["clock"] == {
        "measured_hz": None,
        "vendor_hz": ceiling["clock"]["vendor_hz"],
        "factor": None,
        "reason": reason,
    }
    assert ceiling["use"] == {"of_issue_rate": None, "reason": reason}


def test_a_card_without_a_row_has_its_use_by_its_issue_rate() -> None:
    card = synthetic.device("gpu", name="NVIDIA H999")
    record = product("bf16", 4096, {"lab": 760, "burst": 765}, burst={"clock": STAMPED})
    left_out = ["device", "bf16-n4096", "bf16-n8192"]
    made = model(synthetic.h200_session(without=left_out, extra=[card, synthetic.device("cpu"), record]))
    ceiling = only(made, "ceilings", "gpu-compute-bf16")
    assert (ceiling["clock"]["factor"], ceiling["clock"]["reason"]) == (None, "no_vendor_clock")
    assert ceiling["use"]["of_issue_rate"] == pytest.approx(765e12 / (132 * 4096 * 1.626e9))


def test_a_brake_that_was_on_before_a_burst_proves_nothing_about_it() -> None:
    chip = synthetic.chip("gpu", "sw_power_cap")
    was_on = chip | {"before": chip["during"]}
    made = [synthetic.series("burst", "x", 1.0, chip=each) for each in (chip, was_on)]
    assert [is_power_capped(each) for each in made] == [True, False]
    assert is_power_capped(synthetic.series("sustained", "x", 1.0, chip=was_on)) is True  # seconds later it is its own


# What the chip can do


def checked(made: Record, name: str) -> Record:
    (found,) = [each for each in made["checks"] if each["name"] == name]
    return dict(found)


def test_a_product_beyond_what_the_chip_issues_fails_a_check_and_is_marked() -> None:
    assert checked(model(synthetic.h200_session()), "physically_possible")["status"] == "pass"
    made = with_product(product("fp16", 4096, {"lab": 1900, "burst": 1950}))
    found = checked(made, "physically_possible")
    assert (found["status"], found["value"]) == ("fail", 2)
    point = only(made, "points", "gpu-gemm-fp16-n4096")
    assert point["impossible"] and point["above_roof"]  # its ring, though its ceiling is as wrong
    assert only(made, "ceilings", "gpu-compute-fp16")["impossible"]


def test_the_limit_is_at_the_clock_inside_the_block() -> None:
    """800 TFLOP/s are possible at 1980 MHz (74 % of the Tensor Cores' rate), and not at 1400 (106 %)."""
    slow = {"burst": {"clock": STAMPED | {"sm_hz": 1.4e9}}}
    made = with_product(product("fp16", 4096, {"lab": 700, "burst": 800}, **slow))
    assert only(made, "ceilings", "gpu-compute-fp16")["of_physical_limit"] == pytest.approx(
        800e12 / (132 * 4096 * 1.4e9)
    )
    assert only(made, "ceilings", "gpu-compute-fp16")["impossible"]
    assert not only(with_product(product("fp16", 4096, {"lab": 700, "burst": 800})), "ceilings", "gpu-compute-fp16")[
        "impossible"
    ]


def test_a_slope_beyond_the_bus_fails_and_a_healthy_card_beyond_the_data_sheet_does_not() -> None:
    fast = synthetic.bandwidth("gpu", "read", 9500.0)
    made = model(synthetic.h200_session(without=["read"], extra=[fast, synthetic.bandwidth("cpu", "read", 38.0)]))
    assert only(made, "ceilings", "gpu-memory-read")["of_physical_limit"] == pytest.approx(
        9500e9 / (2 * 3.201e9 * 6016 / 8)
    )
    assert checked(made, "physically_possible")["status"] == "fail"


def test_a_step_that_moves_more_than_the_bus_can_is_marked() -> None:
    made = model(synthetic.h200_session(hbm_us=200.0))
    point = only(made, "points", "gpu-decode-minigpt-fp16-hbm-fused")
    assert point["impossible"] and point["of_physical_limit"] == pytest.approx(2**31 / 200e-6 / 4.8143e12, rel=0.001)


def test_buffers_that_fit_in_the_cache_are_the_cache_s() -> None:
    small = synthetic.bandwidth("gpu", "read", 9000.0)
    small["shape"] = small["shape"] | {"bytes_per_array": 2**20}
    small["series"] = [each | {"samples_s": [2**20 / 9e12] * 5} for each in small["series"]]
    made = model(
        synthetic.h200_session(
            without=["read"], extra=[synthetic.seal(small), synthetic.bandwidth("cpu", "read", 38.0)]
        )
    )
    ceiling = only(made, "ceilings", "gpu-memory-read")
    assert (ceiling["tier"], ceiling["label"], ceiling["vendor"]) == ("L2", "L2 read", None)
    assert "gpu-memory-read" not in [each["slope"] for each in made["ridge_points"]]


def test_the_first_check_asks_for_what_the_chip_has() -> None:
    v100 = {"name": "Tesla V100-SXM2-16GB", "sm_count": 80, "compute_capability": "7.0", "memory_bytes": 16 * 2**30,
            "max_sm_clock_hz": 1.53e9, "sm_clock_hz": 1.53e9, "memory_clock_hz": 0.877e9, "memory_bus_bits": 4096}  # fmt: skip
    gemm = {"fp32": (14.0, 14.4, 14.0, 14.5, 1e-6), "fp16": (95.0, 100.0, 90.0, 101.0, 2e-4)}
    made = model(synthetic.h200_session(facts=v100, gemm=gemm, gb_per_s={"read": 800.0}, decode_us={}))
    found = checked(made, "gemm_within_30_percent")
    assert (found["status"], set(found["value"])) == ("pass", {"fp32", "fp16"})


# Roofs


def test_a_point_is_at_a_roof_from_two_thirds_of_it_on() -> None:
    limit = roof.Limit("launch", 1e-5, 0.0, "floor")
    assert (roof.is_at(limit, 1.49e-5), roof.is_at(limit, 1.51e-5)) == (True, False)
    assert (roof.is_at(limit, None), roof.is_at(None, 1e-5)) == (None, None)
    points = {each["id"]: each for each in model(synthetic.h200_session())["points"]}
    chain = points["gpu-decode-minigpt-fp16-S128-cupy_chain"]  # 115 µs over a floor of 9.3
    assert (chain["bound_by"], chain["at_roof"], chain["host_bound"]) == ("launch", False, True)
    assert points["gpu-decode-minigpt-fp16-S128-fused"]["at_roof"] is True


def test_an_l2_point_has_the_curve_at_its_size() -> None:
    sweep = [[2**20, 3.8e12], [2**22, 8.8e12], [2**25, 9.5e12]]
    l2: Any = {"burst": 9.5e12, "sweep": sweep}
    assert roof.bandwidth_at(l2, 2**22) == pytest.approx(8.8e12)
    assert roof.bandwidth_at(l2, 2**21) == pytest.approx((3.8e12 + 8.8e12) / 2)
    assert (roof.bandwidth_at(l2, 1), roof.bandwidth_at(l2, 2**30)) == (3.8e12, 9.5e12)
    assert roof.bandwidth_at({"burst": 4e12, "sweep": None}, 1) == 4e12  # type: ignore[typeddict-item]


def test_the_floors_that_were_used_are_a_range() -> None:
    own = synthetic.decode_series("empty", "empty kernel", 11.4, cache=None, relative_error=None, tolerance=None)
    slow = synthetic.decode("gpu", "fp16", 128, [own, synthetic.decode_series("fused", "fused", 13.0)])
    answer = model(synthetic.h200_session(without=["minigpt-fp16-S128"], extra=[slow]))["answers"]["decode"]
    assert (answer["launch_floor_low_s"], answer["launch_floor_high_s"]) == (
        pytest.approx(9.3e-6),
        pytest.approx(11.4e-6),
    )


def test_falls_between_programs_are_no_noise() -> None:
    """Medians of a thousand samples differ between programs because launching does; that is not told as scatter."""
    own = model(synthetic.h200_session())["answers"]["decode"]["dtypes"]["fp32"]
    assert own["latency_rises_with_sequence"] is False and own["falls_within_spread"] is None
    empty = synthetic.decode_series("empty", "empty kernel", 9.0, cache=None, relative_error=None, tolerance=None)
    steps = {128: 14.02, 256: 14.0, 512: 25.0}
    taken = [
        synthetic.decode("gpu", "fp16", s, [empty, synthetic.decode_series("fused", "fused", us)])
        for s, us in steps.items()
    ]
    made = model(synthetic.h200_session(decode_us={}, extra=taken))["answers"]["decode"]["dtypes"]["fp16"]
    assert made["falls_within_spread"] is True  # one program took them in turns: they share its empty launches


def test_a_cause_needs_its_evidence() -> None:
    """A CPU that moves a tenth of what its DRAM can is not said to be served by its cache."""
    made = model(synthetic.h200_session(cpu_decode_us={128: 600.0, 256: 850.0, 512: 1300.0, 1024: 2300.0}))
    pair = made["answers"]["cpu"]["sequences"]["1024"]
    assert pair["cpu_tier"] == "cache" and pair["cpu_fraction_of_main_memory"] < 0.1
    assert "cpu_reads_from_cache" not in made["answers"]["cpu"]["likely_reasons"]
    assert pair["cpu_at_roof"] is False and pair["cpu_fraction_of_attainable"] < 0.1


# Order


def test_a_trend_in_the_order_of_samples_is_told() -> None:
    slowing = [1.0 + 0.011 * place for place in range(10)]
    assert trend(slowing) == pytest.approx(0.077 / 1.0495, rel=0.05)
    shuffled = list(slowing)
    random.Random(3).shuffle(shuffled)
    assert trend(shuffled) == 0.0 and trend([1.0] * 20) == 0.0 and trend([1.0, 2.0, 3.0]) == 0.0
    made = with_product(product("fp16", 4096, {"lab": 700, "burst": 760}, burst={"samples_s": slowing}))
    assert [note["values"]["series"] for note in made["notes"] if note["code"] == "drift"] == ["burst"]


def test_the_parts_of_the_lab_s_one_sample_are_looked_at() -> None:
    parts = [0.1 + 0.002 * place for place in range(10)]
    one = {"lab": {"samples_s": [sum(parts)], "parts_s": parts}}
    made = with_product(product("fp16", 4096, {"lab": 700, "burst": 760}, **one))
    assert [note["values"]["series"] for note in made["notes"] if note["code"] == "drift"] == ["lab"]

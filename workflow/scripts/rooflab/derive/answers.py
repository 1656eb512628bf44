"""Every number the interpretation may say, gathered from ceilings and points, so that the prose computes nothing.

Each answer lists under `required` the dotted paths of the figures its paragraph must cite.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rooflab.derive.answers_cpu import cpu_answer
from rooflab.derive.answers_decode import decode_answer
from rooflab.derive.chip.peaks import vendor_flop_per_s
from rooflab.derive.gemms import LAB_DTYPES
from rooflab.derive.roof import MAIN_TIER, compute_ceiling
from rooflab.derive.series import brakes, extremes, fraction, named
from rooflab.record.document_types import Answers
from rooflab.record.roof_types import Ceiling, Floor, Point
from rooflab.record.types import Json, Records, Series
from rooflab.theory import work

EXPECTED_FRACTION = (0.7, 0.9)  # of the vendor's dense peak, as the lab expects it of cuBLAS
INVESTIGATE_BELOW = 0.5  # of the vendor's dense peak: the lab asks why


def answers(
    records: Records,
    ceilings: Sequence[Ceiling],
    floors: Sequence[Floor],
    points: Sequence[Point],
    main_side: str,
    gpu_sessions: Sequence[str],
) -> Answers:
    """The figures of the three paragraphs. `gpu_sessions`: names of the sessions with a GPU beside a CPU session."""
    return {
        "gemm": gemm_answer(records, ceilings, points, main_side),
        "decode": decode_answer(records, ceilings, floors, points, main_side),
        "cpu": cpu_answer(ceilings, floors, points, main_side, gpu_sessions),
    }


def gemm_answer(records: Records, ceilings: Sequence[Ceiling], points: Sequence[Point], side: str) -> Json:
    """Paragraph 1: each lab point against its own ceiling, its burst and sustained rate against the vendor's."""
    lab = {p["variant"]: p for p in points if (p["side"], p["operator"], p["lab_point"]) == (side, "gemm", True)}
    dtypes = {name: _gemm_dtype(name, lab[name], records, ceilings) for name in sorted(lab)}
    asked = [name for name in LAB_DTYPES if name in dtypes and side == "gpu"] or list(dtypes)
    return {
        "side": side,
        "expected_low": EXPECTED_FRACTION[0],
        "expected_high": EXPECTED_FRACTION[1],
        "investigate_below": INVESTIGATE_BELOW,
        "dtypes": dtypes,
        "required": extremes(
            {f"dtypes.{name}.fraction_of_ceiling": dtypes[name]["fraction_of_ceiling"] for name in asked}
        ),
    }


def _gemm_dtype(name: str, point: Point, records: Records, ceilings: Sequence[Ceiling]) -> Json:
    """One dtype; burst and sustained are the ceiling's, so that "of the vendor" means one thing everywhere."""
    record = records[point["file"]]
    ceiling = compute_ceiling(ceilings, point["side"], name)
    instructions = compute_ceiling(ceilings, point["side"], f"{name}_fma")
    vendor = ceiling["vendor"] if ceiling else vendor_flop_per_s(records, point["side"], name)
    burst, sustained = (ceiling["burst"], ceiling["sustained"]) if ceiling else (None, None)
    base = records[ceiling["file"]] if ceiling else record
    series = named(base, str(ceiling["series"])) if ceiling else named(record, "burst")
    return {
        "point": point["id"],
        "ceiling": ceiling["id"] if ceiling else None,
        "n": point["n"],
        "achieved_flop_per_s": point["achieved_flop_per_s"],
        "ceiling_flop_per_s": ceiling["burst"] if ceiling else None,
        "fraction_of_ceiling": point["fraction_of_ceiling"],
        "fraction_of_attainable": point["fraction_of_attainable"],
        "above_roof": point["above_roof"],
        "bound_by": point["bound_by"],
        "intensity": point["intensity"],
        "ridge_intensity": _ridge(ceiling, ceilings),
        "burst_flop_per_s": burst,
        "sustained_flop_per_s": sustained,
        "vendor_flop_per_s": vendor,
        "burst_fraction_of_vendor": fraction(burst, vendor),
        "sustained_fraction_of_vendor": fraction(sustained, vendor),
        "sustained_fraction_of_burst": fraction(sustained, burst),
        "instructions_flop_per_s": instructions["burst"] if instructions else None,
        "burst_fraction_of_instructions": fraction(burst, instructions["burst"] if instructions else None),
        "power_capped": ceiling["power_capped"] if ceiling else None,
        "clock_factor": ceiling["clock"]["factor"] if ceiling and ceiling["clock"] else None,
        "use_of_issue_rate": ceiling["use"]["of_issue_rate"] if ceiling and ceiling["use"] else None,
        "clock_hz": ceiling["clock_hz"] if ceiling else None,
        "vendor_clock_hz": ceiling["clock"]["vendor_hz"] if ceiling and ceiling["clock"] else None,
        "sustained_clock_hz": ceiling["sustained_clock_hz"] if ceiling else None,
        "sustained_temperature_c": ceiling["sustained_temperature_c"] if ceiling else None,
        "sustained_power_w": ceiling["sustained_power_w"] if ceiling else None,
        "series": ceiling["series"] if ceiling else None,
        "chip": {"burst": _chip(series), "sustained": _chip(named(base, "sustained"))},
        "investigations": [_finding(each, vendor) for each in record["details"].get("investigations", [])],
        "verified": point["verified"],
    }


def _ridge(ceiling: Ceiling | None, ceilings: Sequence[Ceiling]) -> float | None:
    """Where this ceiling leaves the slope of main-memory reads, FLOP/byte."""
    if ceiling is None:
        return None
    side = ceiling["side"]
    slopes = [c["burst"] for c in ceilings if (c["side"], c["pattern"], c["tier"]) == (side, "read", MAIN_TIER[side])]
    return fraction(ceiling["burst"], slopes[0] if slopes else None)


def _chip(series: Series | None) -> Json:
    """What the chip said under the load of one series; `throttle_reasons` is null where it says nothing."""
    state = series["chip"]["during"] if series else {}
    return {
        "sm_clock_hz": state.get("sm_clock_hz"),
        "power_w": state.get("power_w"),
        "temperature_c": state.get("temperature_c"),
        "throttle_reasons": brakes(series) if series else None,
    }


def _finding(found: Mapping[str, Any], vendor: float | None) -> Json:
    """One thing tried where a product fell short: what, and the rate it reached, or why it could not be tried."""
    rate = work.square_product(found["n"]) / found["seconds_per_call"] if "seconds_per_call" in found else None
    tried = {key: found.get(key) for key in ("name", "n", "implementation", "refused")}
    return tried | {"flop_per_s": rate, "fraction_of_vendor": fraction(rate, vendor)}

"""The lab's stop conditions, one by one: pass, fail or not applicable, with its numbers. Failing stops nothing."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rooflab.derive.chip.peaks import cpu_peak_flop_per_s, vendor_flop_per_s, vendor_of
from rooflab.derive.chip.physics import is_impossible
from rooflab.derive.evidence import facts
from rooflab.derive.gemms import LAB_DTYPES, gemm_flop_per_s, lab_records
from rooflab.derive.series import fraction, is_power_capped, named, refuted
from rooflab.derive.told import told
from rooflab.record.document_types import Check, PlacedPart
from rooflab.record.roof_types import Ceiling, Point
from rooflab.record.types import Reason, Records, Told
from rooflab.theory.dtypes import refusal

LEAST_DTYPES = 3
LEAST_FRACTION_OF_VENDOR = 0.70
LEAST_SEQUENCES = 4


def check(
    name: str,
    passed: bool | None,
    value: Any = None,
    limit: float | None = None,
    reason: Iterable[Reason] = (),
    advice: Iterable[Told] = (),
) -> Check:
    """One check. `passed` None means not applicable, with its `reason`; `advice` is kept for a failure only."""
    return {
        "name": name,
        "status": {True: "pass", False: "fail", None: "not applicable"}[passed],
        "value": value,
        "limit": limit,
        "advice": list(advice) if passed is False else [],
        "reason": list(reason),
    }


def measured_checks(
    records: Records,
    ceilings: Sequence[Ceiling],
    points: Sequence[Point],
    parts: Mapping[str, PlacedPart],
    main_side: str,
) -> list[Check]:
    """The checks that the measurements alone decide. `parts`: of served models and sweeps, by a name for each."""
    return [
        gemm_within_30_percent(records, main_side),
        decode_sequences(points, main_side),
        points_below_roof(points),
        physically_possible(ceilings, points, parts),
    ]


def gemm_within_30_percent(records: Records, main_side: str) -> Check:
    """Stop condition 1: 3 or more of the lab's dtypes, each plain burst within 30 % of the vendor's peak."""
    name, limit = "gemm_within_30_percent", LEAST_FRACTION_OF_VENDOR
    unknown = _no_vendor_peak(records, main_side)
    if unknown is not None:
        return check(name, None, limit=limit, reason=[unknown])
    fractions = gemm_fractions_of_vendor(records, main_side)
    least = min(LEAST_DTYPES, len(computed_dtypes(records)))
    low = [dtype for dtype, value in fractions.items() if value < limit]
    capped = [dtype for dtype in low if _is_capped(records, main_side, dtype)]
    said = [
        told("reaches_capped", dtype=dtype, share=fractions[dtype]) if dtype in capped
        else told("reaches", dtype=dtype, share=fractions[dtype])
        for dtype in low
    ]  # fmt: skip
    few = [told("few_dtypes", count=len(fractions), least=least)] if len(fractions) < least else []
    advice = told("advice_missing_dtypes") if not low else told("advice_investigate")
    peaks = vendor_of(records)
    known = [peaks.power_cap] if capped and peaks and peaks.power_cap else []
    return check(name, not low and not few, fractions, limit, [*few, *said, *known], [advice])


def computed_dtypes(records: Records) -> list[str]:
    """The lab's dtypes that the chip of the session multiplies; all of them where the chip is not known."""
    gpu = facts(records, "gpu")
    known = gpu["compute_capability"] if gpu else None
    return [each for each in LAB_DTYPES if known is None or refusal(each, round(10 * float(known))) is None]


def _is_capped(records: Records, side: str, dtype: str) -> bool:
    """Whether the power limit held the clocks of a plain lab product down, under its bursts or seconds of load."""
    _, record = lab_records(records, side)[dtype]
    return any(is_power_capped(series) for series in record["series"])


def gemm_fractions_of_vendor(records: Records, side: str) -> dict[str, float]:
    """Burst of the plain lab product over the vendor's dense peak, for each of the lab's dtypes that has both."""
    found = {}
    for dtype, (_, record) in lab_records(records, side).items():
        series = named(record, "burst")
        if dtype in LAB_DTYPES and series is not None and not refuted(series):
            found[dtype] = fraction(gemm_flop_per_s(record, series), vendor_flop_per_s(records, side, dtype))
    return {dtype: value for dtype, value in found.items() if value is not None}


def decode_sequences(points: Iterable[Point], main_side: str) -> Check:
    """Stop condition 2: decode attention at 4 or more values of S, in every dtype that was measured."""
    seen: dict[str, set[int | None]] = {}
    for point in points:
        if (point["side"], point["operator"], point["lab_point"]) == (main_side, "decode_attention", True):
            seen.setdefault(point["dtype"], set()).add(point["sequence"])
    counts = {dtype: len(sequences) for dtype, sequences in sorted(seen.items())}
    few = [
        told("few_lengths", dtype=dtype, count=count, least=LEAST_SEQUENCES)
        for dtype, count in counts.items()
        if count < LEAST_SEQUENCES
    ]
    reason = few or ([] if counts else [told("no_decode")])
    return check("decode_sequences", not reason, counts, LEAST_SEQUENCES, reason, [told("advice_missing_lengths")])


def points_below_roof(points: Iterable[Point]) -> Check:
    """No point may beat a measured ceiling by more than the ceiling's own spread."""
    known = [point for point in points if point["bound_by"] is not None]
    above = [point for point in known if point["above_roof"]]
    listed = [told("at", point=point["id"], share=point["fraction_of_attainable"]) for point in above]
    causes = sorted({f"advice_above_{point['bound_by']}" for point in above})
    reason = listed if known else [told("no_roof")]
    return check("points_below_roof", not above if known else None, len(above), 0, reason, map(told, causes))


def physically_possible(ceilings: Iterable[Ceiling], points: Iterable[Point], parts: Mapping[str, PlacedPart]) -> Check:
    """No figure may exceed what the chip can do by more than 2 %: SMs x FLOP per clock x clock, bus width x memory clock."""
    shares = {ceiling["id"]: ceiling["of_physical_limit"] for ceiling in ceilings}
    shares |= {point["id"]: point["of_physical_limit"] for point in points}
    shares |= {name: part["of_physical_limit"] for name, part in parts.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    beyond = [told("beyond_physics", what=name, share=share) for name, share in known.items() if is_impossible(share)]
    reason = beyond if known else [told("no_physical_limit")]
    passed = not beyond if known else None
    return check("physically_possible", passed, len(beyond), 0, reason, [told("advice_beyond_physics")])


def _no_vendor_peak(records: Records, main_side: str) -> Reason | None:
    """Why no vendor's peak applies; None where there is one."""
    if main_side == "cpu":
        return told("no_tensor_cores") if cpu_peak_flop_per_s(records, "fp32") else told("no_cpu_peak")
    peaks = vendor_of(records)
    if peaks is None:
        return told("no_device_record")
    return peaks.reason

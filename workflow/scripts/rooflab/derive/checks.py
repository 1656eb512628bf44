"""The lab's stop conditions, one by one: pass, fail or not applicable, with its numbers. Failing stops nothing."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rooflab.derive.answers import resolve
from rooflab.derive.ceilings import (
    cpu_peak_flop_per_s,
    fraction,
    gemm_flop_per_s,
    plain,
    refuted,
    vendor_flop_per_s,
    vendor_of,
)
from rooflab.derive.evidence import Records
from rooflab.derive.points import LAB_DTYPES, lab_records

Check = dict[str, Any]

LEAST_DTYPES = 3
LEAST_FRACTION_OF_VENDOR = 0.70
LEAST_SEQUENCES = 4
PARAGRAPHS = ("gemm", "decode", "cpu")
ABOVE_ROOF_CAUSE = {
    "launch": "the launch floor was taken in a slower state of the host: measure launch_floor again",
    "compute": "fewer bits were multiplied than the dtype says: compare the relative error in the record",
    "HBM": "part of the data came from L2: use a larger working set, or measure the read bandwidth again",
    "L2": "the L2 ceiling was taken with another working set: measure it again",
    "DRAM": "part of the data came from a cache: use a larger working set, or measure the read bandwidth again",
    "cache": "the cache ceiling was taken with another working set: measure it again",
}
FIGURES = re.compile(r"<!--\s*figures:(.*?)-->", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SVG_ID = re.compile(r'\bid="([^"]+)"')


def check(name: str, title: str, passed: bool | None, **facts_of_it: Any) -> Check:
    """One check. `passed` None means not applicable, with its `reason`; `advice` is kept for a failure only."""
    status = {True: "pass", False: "fail", None: "not applicable"}[passed]
    made = {
        "name": name,
        "title": title,
        "status": status,
        "value": None,
        "limit": None,
        "advice": None,
        "reason": None,
    }
    made |= facts_of_it
    return made | {"advice": made["advice"] if passed is False else None}


def measured_checks(records: Records, points: Sequence[Mapping[str, Any]], main_side: str) -> list[Check]:
    """The checks that the measurements alone decide."""
    return [gemm_within_30_percent(records, main_side), decode_sequences(points, main_side), points_below_roof(points)]


def gemm_within_30_percent(records: Records, main_side: str) -> Check:
    """Stop condition 1: 3 or more of the lab's dtypes, each plain burst within 30 % of the vendor's peak."""
    name, title = (
        "gemm_within_30_percent",
        "cuBLAS GEMM in 3 or more dtypes, each within 30 % of the vendor's dense peak",
    )
    reason = _no_vendor_peak(records, main_side)
    if reason is not None:
        return check(name, title, None, limit=LEAST_FRACTION_OF_VENDOR, reason=reason)
    fractions = gemm_fractions_of_vendor(records, main_side)
    low = [f"{dtype} reaches {value:.0%}" for dtype, value in fractions.items() if value < LEAST_FRACTION_OF_VENDOR]
    few = [f"{len(fractions)} of {LEAST_DTYPES} dtypes measured"] if len(fractions) < LEAST_DTYPES else []
    advice = (
        "read the investigation in the gemm records, let the card cool and measure again"
        if low
        else "measure the missing dtypes"
    )
    return check(
        name,
        title,
        not low and not few,
        value=fractions,
        limit=LEAST_FRACTION_OF_VENDOR,
        reason="; ".join(few + low) or None,
        advice=advice,
    )


def gemm_fractions_of_vendor(records: Records, side: str) -> dict[str, float]:
    """Burst of the plain lab product over the vendor's dense peak, for each of the lab's dtypes that has both."""
    found = {}
    for dtype, (_, record) in lab_records(records, side).items():
        series = plain(record, "burst")
        if dtype in LAB_DTYPES and series is not None and not refuted(series):
            found[dtype] = fraction(gemm_flop_per_s(record, series), vendor_flop_per_s(records, side, dtype))
    return {dtype: value for dtype, value in found.items() if value is not None}


def decode_sequences(points: Iterable[Mapping[str, Any]], main_side: str) -> Check:
    """Stop condition 2: decode attention at 4 or more values of S, in every dtype that was measured."""
    seen: dict[str, set[int]] = {}
    for point in points:
        if (point["side"], point["operator"], point["lab_point"]) == (main_side, "decode_attention", True):
            seen.setdefault(point["dtype"], set()).add(point["sequence"])
    counts = {dtype: len(sequences) for dtype, sequences in sorted(seen.items())}
    few = [f"{dtype}: {count} of {LEAST_SEQUENCES}" for dtype, count in counts.items() if count < LEAST_SEQUENCES]
    return check(
        "decode_sequences",
        "decode attention at 4 or more values of S",
        bool(counts) and not few,
        value=counts,
        limit=LEAST_SEQUENCES,
        reason="; ".join(few) or (None if counts else "no decode point measured"),
        advice="run the workflow again: measured points are kept, the missing ones are taken",
    )


def points_below_roof(points: Iterable[Mapping[str, Any]]) -> Check:
    """No point may beat a measured ceiling by more than the ceiling's own spread."""
    known = [point for point in points if point["bound_by"] is not None]
    above = [point for point in known if point["above_roof"]]
    listed = [f"{point['id']} at {point['fraction_of_attainable']:.0%}" for point in above]
    causes = sorted({ABOVE_ROOF_CAUSE[point["bound_by"]] for point in above})
    return check(
        "points_below_roof",
        "no point above its roof",
        not above if known else None,
        value=len(above),
        limit=0,
        reason="; ".join(listed) or (None if known else "no point has a roof"),
        advice="; ".join(causes),
    )


def plot_complete(roofline: Mapping[str, Any], svg: str | None) -> Check:
    """Stop condition 3: the picture holds every ceiling and point of its device under its id. `svg` None: no picture."""
    side = roofline["main_side"]
    wanted = [item["id"] for kind in ("ceilings", "points") for item in roofline[kind] if item["side"] == side]
    drawn = set(SVG_ID.findall(svg or ""))
    absent = [name for name in wanted if name not in drawn]
    return check(
        "plot_complete",
        "the roofline plot holds every ceiling and point",
        svg is not None and bool(wanted) and not absent,
        value=len(wanted) - len(absent),
        limit=len(wanted),
        reason=_absent(svg is None, "roofline.svg", wanted, absent),
        advice="draw it again: snakemake --cores 1 plot",
    )


def interpretation_answers(roofline: Mapping[str, Any], text: str | None) -> Check:
    """Stop condition 4: three paragraphs, each naming its required figures. `text` None: there is no interpretation."""
    paragraphs = _paragraphs(text or "")
    named = [set(re.findall(r"(\S+?)=", figures)) for figures in FIGURES.findall(text or "")]
    named += [set()] * len(PARAGRAPHS)
    absent = [
        f"{part}: {key}"
        for part, keys in zip(PARAGRAPHS, named, strict=False)
        for key in roofline["answers"][part]["required"]
        if key not in keys
    ]
    reason = f"{len(paragraphs)} paragraphs, expected {len(PARAGRAPHS)}" if len(paragraphs) != len(PARAGRAPHS) else None
    return check(
        "interpretation_answers",
        "the interpretation answers the three questions with their figures",
        text is not None and reason is None and not absent,
        value=len(paragraphs),
        limit=len(PARAGRAPHS),
        reason=reason
        if text is not None and reason
        else _absent(text is None, "interpretation.md", PARAGRAPHS, absent),
        advice="write it again: snakemake --cores 1 report",
    )


def manifest_complete(manifest: Mapping[str, Any], required: Iterable[str]) -> Check:
    """Stop condition 5: every required entry (a dotted path) of the manifest says something, and nothing is pending."""
    wanted = list(required)
    empty = [path for path in wanted if resolve(manifest, path) in (None, "", [], {})]
    pending = [hole["file"] for hole in manifest["holes"] if hole["status"] != "unsupported"]
    reasons = [f"empty: {path}" for path in empty] + [f"not measured: {file}" for file in pending]
    return check(
        "manifest_complete",
        "the manifest is complete",
        not reasons,
        value=len(wanted) - len(empty),
        limit=len(wanted),
        reason="; ".join(reasons) or None,
        advice="run the workflow again: snakemake --cores 1",
    )


def _no_vendor_peak(records: Records, main_side: str) -> str | None:
    """Why no vendor's peak applies; None where there is one."""
    if main_side == "cpu":
        known = cpu_peak_flop_per_s(records, "fp32")
        return "a CPU has no Tensor Cores" if known else "no vendor peak for this CPU"
    peaks = vendor_of(records)
    return peaks.reason if peaks else "no device record, so no vendor peak"


def _paragraphs(text: str) -> list[str]:
    blocks = [block.strip() for block in re.split(r"\n\s*\n", COMMENT.sub("", text))]
    return [block for block in blocks if block and not block.startswith("#")]


def _absent(no_file: bool, file: str, wanted: Iterable[str], absent: list[str]) -> str | None:
    if no_file:
        return f"{file} is not there"
    if not list(wanted):
        return "no ceiling and no point measured"
    return f"absent: {', '.join(absent)}" if absent else None

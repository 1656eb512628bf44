"""The operators on the roofline: what each needs by theory, what the clock said, and how much of its roof that is."""

from collections.abc import Mapping
from typing import Any

from rooflab.derive import roof
from rooflab.derive.ceilings import (
    EMPTY,
    fraction,
    own_floors,
    plain,
    refuted,
    seconds_per_launch,
    variant_of,
    vendor_flop_per_s,
    verified,
)
from rooflab.derive.evidence import Records, facts, measured
from rooflab.theory import work as theory
from rooflab.theory.dtypes import dtype, result_bytes
from rooflab.theory.quantiles import median, percentile
from rooflab.theory.work import Work

Record = dict[str, Any]
Point = dict[str, Any]

LAB_N = 4096
LAB_DTYPES = ("fp32", "fp16", "bf16", "fp8_e4m3")
LAB_MODEL = "minigpt"

FAST_BYTES = {"gpu": "l2_bytes", "cpu": "llc_bytes"}


def all_points(records: Records, ceilings: list[Record], floors: list[Record]) -> list[Point]:
    """One GEMM per dtype, one decode point per series of each (dtype, S); by side, operator, dtype and S."""
    made = []
    for side in ("gpu", "cpu"):
        made += _gemm_points(records, side) + _decode_points(records, side)
    placed = [_place(point, records, ceilings, own_floors(records[point["file"]], floors)) for point in made]
    return sorted(placed, key=lambda p: (p["side"], p["operator"], p["dtype"], p["sequence"] or 0, p["id"]))


def lab_records(records: Records, side: str) -> dict[str, tuple[str, Record]]:
    """The file and record of the lab's GEMM per dtype and variant: 4096 where measured, else the smallest size."""
    found: dict[str, tuple[str, Record]] = {}
    for file, record in sorted(measured(records, side, "gemm").items(), key=lambda item: _lab_rank(item[1])):
        found.setdefault(variant_of(record), (file, record))
    return dict(sorted(found.items()))


def _lab_rank(record: Record) -> tuple[bool, int]:
    return record["shape"]["n"] != LAB_N, record["shape"]["n"]


def _gemm_points(records: Records, side: str) -> list[Point]:
    made = []
    for file, record in lab_records(records, side).values():
        series = plain(record, "lab")
        if series is not None:
            made.append(_gemm_point(file, record, series))
    return made


def _gemm_point(file: str, record: Record, series: Record) -> Point:
    shape, name = record["shape"], variant_of(record)
    size = dtype(record["dtype"]).bytes
    sizes = (shape["m"], shape["n"], shape["k"], size, result_bytes(record["dtype"]))
    work, whole = theory.gemm(*sizes, "reads"), theory.gemm(*sizes, "reads_and_write")
    return _point(
        file,
        record,
        series,
        work,
        id=f"{record['side']}-gemm-{name}-n{shape['n']}",
        operator="gemm",
        variant=name,
        n=shape["n"],
        convention="reads of A and B",
        intensity_with_writes=whole.intensity,
        working_set_bytes=whole.bytes,
        lab_point=(record["side"] == "cpu" or name in LAB_DTYPES) and not refuted(series),
    )


def _decode_points(records: Records, side: str) -> list[Point]:
    made = []
    for file, record in measured(records, side, "decode").items():
        if record["spec"].get("operator", LAB_MODEL) != LAB_MODEL:
            continue
        steps = [series for series in record["series"] if series["implementation"] != EMPTY]
        chosen = _lab_series(record) if record["shape"]["batch"] == 1 else None
        made += [_decode_point(file, record, series, series is chosen) for series in steps]
    return made


def _lab_series(record: Record) -> Record | None:
    """The fastest way launched from Python with a synchronisation around every step, the cache warm as the lab has it,
    unless its result was wrong."""
    ways = [
        series
        for series in record["series"]
        if (series["launch"], series["timing"], series["cache"]) == ("python", "sync_each", "warm")
        and not refuted(series)
    ]
    return min(ways, key=lambda series: median(seconds_per_launch(series)), default=None)


def _decode_point(file: str, record: Record, series: Record, is_lab: bool) -> Point:
    shape, name = record["shape"], record["dtype"]
    parts = ("batch", "query_heads", "kv_heads", "sequence", "head_dim")
    work = theory.decode_attention(**{part: shape[part] for part in parts}, kv_bytes=dtype(name).bytes)
    return _point(
        file,
        record,
        series,
        work,
        id=f"{record['side']}-decode-{record['name']}-{series['name'].replace(' ', '_')}",
        operator="decode_attention",
        variant=name,
        sequence=shape["sequence"],
        convention="K and V read once",
        working_set_bytes=work.bytes,
        lab_point=is_lab,
    )


def _point(file: str, record: Record, series: Record, work: Work, **given: Any) -> Point:
    """What is known of a point without looking at any ceiling."""
    seconds = seconds_per_launch(series)
    middle = median(seconds)
    blank: Point = {"sequence": None, "n": None, "intensity_with_writes": None}
    return blank | given | {
        "side": record["side"],
        "name": record["name"],
        "dtype": record["dtype"],
        **{key: series[key] for key in ("implementation", "launch", "timing", "cache", "relative_error")},
        "flop": work.flop,
        "bytes": work.bytes,
        "intensity": work.intensity,
        "median_s": middle,
        "p10_s": percentile(seconds, 10),
        "p90_s": percentile(seconds, 90),
        "min_s": min(seconds),
        "samples": len(seconds),
        "achieved_flop_per_s": work.flop / middle,
        "achieved_bytes_per_s": work.bytes / middle,
        "verified": verified(series),
        "file": file,
    }  # fmt: skip


def _place(point: Point, records: Records, ceilings: list[Record], floors: list[Record]) -> Point:
    """The point with its roof: tier, binding limit and every fraction."""
    side, achieved = point["side"], point["achieved_flop_per_s"]
    device = facts(records, side) or {}
    fast_bytes = roof.reach(ceilings, side, "L2") or device.get(FAST_BYTES[side])
    tier = roof.tier_of(side, point["working_set_bytes"], point["cache"], fast_bytes)
    compute = roof.compute_ceiling(ceilings, side, point["variant"])
    memory = roof.memory_ceiling(ceilings, side, tier)
    floor = roof.launch_floor(floors, side, point["launch"], point["timing"])
    limit = roof.binding(roof.limits(Work(point["flop"], point["bytes"]), tier, compute, memory, floor))
    fp16 = roof.compute_ceiling(ceilings, "gpu", "fp16") if side == "gpu" else None
    attainable = point["flop"] / limit.seconds if limit else None
    spread = (point["p90_s"] - point["p10_s"]) / point["median_s"]
    return point | {
        "tier": tier,
        "memory_ceiling": _get(memory, "id"),
        "attainable_flop_per_s": attainable,
        "bound_by": limit.bound if limit else None,
        "limit": limit.source if limit else None,
        "launch_floor_s": _get(floor, "median_s"),
        "fraction_of_attainable": fraction(achieved, attainable),
        "fraction_of_ceiling": fraction(achieved, _get(compute, "burst")),
        "fraction_of_fp16_peak": fraction(achieved, _get(fp16, "burst")),
        "fraction_of_vendor": fraction(achieved, vendor_flop_per_s(records, side, point["variant"])),
        "above_roof": roof.is_above_roof(point["median_s"], spread, limit),
    }


def _get(ceiling: Mapping[str, Any] | None, key: str) -> Any:
    return ceiling[key] if ceiling is not None else None

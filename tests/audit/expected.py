"""Floors, the roof and the points under it as the raw samples give them: {id: {field: value}}, numbers in SI units."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import timed
from counted import Need, attention, product
from timed import Json, Session, median, per_launch, tenths
from tops import CACHE_BYTES, FAST, MAIN, beyond, share

LAB = ("fp32", "fp16", "bf16", "fp8_e4m3")
AT_ROOF = 2 / 3  # of the attainable speed: from here on a roof explains a time


# Launch floors


def floors(session: Session) -> dict[tuple[str, str, str], Json]:
    """Median, 10th and 90th percentile of launching nothing, by side, launch and timing."""
    return {
        (side, series["launch"], series["timing"]): floor(series)
        for side in ("cpu", "gpu")
        for record in session.of(side, "launch_floor").values()
        for series in record["series"]
    }


def floor(series: Json) -> Json:
    """The three figures of a floor."""
    low, high = tenths(series)
    return {"median_s": median(series), "p10_s": low, "p90_s": high}


def own_floor(session: Session, side: str, record: Json, series: Json) -> Json | None:
    """What launching the same way costs in the program of `record` itself, else in the stage that measures only that."""
    way = (series["launch"], series["timing"])
    for empty in record["series"]:
        if empty["implementation"] == timed.EMPTY and (empty["launch"], empty["timing"]) == way:
            return floor(empty)
    return floors(session).get((side, *way))


# The roof


def serves(side: str, nbytes: float, is_warm: bool, tops: dict[str, Json], device: Json) -> str:
    """The tier that serves a working set: the fast one where it is warm and fits what that was seen to serve."""
    reach = tops.get(f"{side}-memory-l2", {}).get("reach_bytes") or device.get(CACHE_BYTES[side])
    return FAST[side] if is_warm and reach is not None and nbytes <= reach else MAIN[side]


def slope_of(side: str, tier: str, tops: dict[str, Json]) -> str | None:
    """The ceiling for reads from a tier; where the fast one has none, main memory's."""
    reads = [name for name in (f"{side}-memory-l2", f"{side}-memory-read") if name in tops]
    fitting = [name for wanted in (tier, MAIN[side]) for name in reads if tops[name]["tier"] == wanted]
    return next(iter(fitting), None)


def bandwidth(slope: Json, nbytes: float) -> float:
    """What a slope gives to a working set: where its tier was swept, the curve at that size, straight between neighbours in
    the logarithm of the size."""
    if not slope.get("sweep"):
        return float(slope["burst"])
    sizes, rates = zip(*slope["sweep"], strict=True)
    return float(np.interp(math.log(nbytes), np.log(sizes), rates))


def roof(
    need: Need, tier: str, compute: str | None, slope: str | None, empty: float | None, tops: dict[str, Json]
) -> Any:
    """(name of what binds, shortest seconds) of computing, moving and launching; None where nothing is known."""
    known = []
    if compute in tops:
        known.append(("compute", need.flop / tops[compute]["burst"]))
    if slope in tops:
        known.append((tier, need.bytes / bandwidth(tops[slope], need.bytes)))
    if empty is not None:
        known.append(("launch", empty))
    return max(known, key=lambda bound: bound[1], default=None)


def is_at(bound: Any, seconds: float | None) -> bool:
    """Whether something is at its roof: from two thirds of the attainable speed on."""
    return bound is not None and seconds is not None and bound[1] >= AT_ROOF * seconds


def of_limits(
    session: Session, side: str, kind: str | None, series: Json | None, need: Need, seconds: float | None, tier: str
) -> float | None:
    """The larger of the shares of what the chip can compute and of what its bus can carry."""
    if seconds is None:
        return None
    computing = session.most_flop_per_s(side, kind, series) if kind else None
    shares = share(need.flop / seconds, computing), share(need.bytes / seconds, session.most_bytes_per_s(tier))
    return max((each for each in shares if each is not None), default=None)


# Points


def points(session: Session, tops: dict[str, Json]) -> dict[str, Json]:
    """Every point by its id."""
    made = {}
    for side in ("cpu", "gpu"):
        for file, record, series, need, working, name in [*_products(session, side), *_decodes(session, side)]:
            made[name] = _point(session, side, file, record, series, need, working, tops)
    return made


def lab_gemm(session: Session, side: str) -> dict[str, tuple[str, Json]]:
    """The lab's product of each variant: 4096 where it was measured, else the smallest size."""
    found: dict[str, tuple[str, Json]] = {}
    sized = sorted(
        session.of(side, "gemm").items(), key=lambda each: (each[1]["shape"]["n"] != 4096, each[1]["shape"]["n"])
    )
    for file, record in sized:
        found.setdefault(timed.variant(record), (file, record))
    return found


def _products(session: Session, side: str) -> Iterator[tuple[str, Json, Json, Need, float, str]]:
    for name, (file, record) in lab_gemm(session, side).items():
        n = record["shape"]["n"]
        whole = product(n, n, n, record["dtype"])
        for series in record["series"]:
            if series["name"] == "lab":
                read = product(n, n, n, record["dtype"], write=False)
                yield file, record, series, read, whole.bytes, f"{side}-gemm-{name}-n{n}"


def _decodes(session: Session, side: str) -> Iterator[tuple[str, Json, Json, Need, float, str]]:
    for file, record in session.of(side, "decode").items():
        if record["spec"].get("operator", "minigpt") != "minigpt":
            continue
        sizes = (record["shape"][key] for key in ("batch", "query_heads", "kv_heads", "sequence", "head_dim"))
        need = attention(*sizes, dtype=record["dtype"])
        for series in record["series"]:
            if series["implementation"] != timed.EMPTY:
                name = series["name"].replace(" ", "_")
                yield file, record, series, need, need.bytes, f"{side}-decode-{record['name']}-{name}"


def _point(
    session: Session,
    side: str,
    file: str,
    record: Json,
    series: Json,
    need: Need,
    working: float,
    tops: dict[str, Json],
) -> Json:
    kind = timed.variant(record) if record["stage"] == "gemm" else record["dtype"]
    middle, (low, high), seconds = median(series), tenths(series), per_launch(series)
    tier = serves(side, working, series["cache"] == "warm", tops, session.device(side))
    slope, compute = slope_of(side, tier, tops), f"{side}-compute-{kind}"
    empty = own_floor(session, side, record, series)
    bound = roof(need, tier, compute, slope, empty["median_s"] if empty else None, tops)
    achieved = need.flop / middle
    fp16 = tops.get("gpu-compute-fp16", {}).get("burst") if side == "gpu" else None
    of_limit = of_limits(session, side, kind, series, need, middle, tier)
    return {
        "flop": need.flop,
        "bytes": need.bytes,
        "intensity": need.flop / need.bytes,
        "working_set_bytes": working,
        "median_s": middle,
        "p10_s": low,
        "p90_s": high,
        "min_s": float(seconds.min()),
        "samples": len(seconds),
        "achieved_flop_per_s": achieved,
        "achieved_bytes_per_s": need.bytes / middle,
        "verified": timed.was_right(series),
        "tier": tier,
        "memory_ceiling": slope,
        "bound_by": bound[0] if bound else None,
        "attainable_flop_per_s": need.flop / bound[1] if bound else None,
        "at_roof": is_at(bound, middle),
        "host_bound": side == "gpu" and series["launch"] == "python" and bool(bound and bound[0] == "launch"),
        "of_physical_limit": of_limit,
        "impossible": beyond(of_limit),
        "launch_floor_s": empty["median_s"] if empty else None,
        "launch_floor_p10_s": empty["p10_s"] if empty else None,
        "launch_floor_p90_s": empty["p90_s"] if empty else None,
        "fraction_of_attainable": share(bound[1] if bound else None, middle),
        "fraction_of_ceiling": share(achieved, tops.get(compute, {}).get("burst")),
        "fraction_of_fp16_peak": share(achieved, fp16),
        "fraction_of_vendor": share(achieved, session.vendor_flop_per_s(side, kind)),
        "intensity_with_writes": need.flop / working if record["stage"] == "gemm" else None,
        "file": file,
    }

"""Ceilings, floors, ridge points and points as the raw samples give them: {id: {field: value}}, numbers in SI units."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import timed
from counted import Need, attention, product
from timed import Json, Session, median, per_launch, tenths

LAB = ("fp32", "fp16", "bf16", "fp8_e4m3")
MAIN, FAST = {"gpu": "HBM", "cpu": "DRAM"}, {"gpu": "L2", "cpu": "cache"}


def share(part: float | None, whole: float | None) -> float | None:
    """part / whole where both are known."""
    return part / whole if part is not None and whole else None


# Ceilings


def ceilings(session: Session) -> dict[str, Json]:
    """Every ceiling by its id."""
    made = {}
    for side in ("cpu", "gpu"):
        made |= dict(_compute(session, side)) | dict(_registers(session, side)) | dict(_memory(session, side))
    return made


def judged_by(record: Json, series: Json) -> bool:
    """Whether a series of a product may be a ceiling: not the lab's own, five samples or more, not known to be wrong."""
    return series["name"] != "lab" and len(series["samples_s"]) >= timed.FEWEST and not timed.was_wrong(series)


def held(record: Json, winner: Json) -> Json | None:
    """The sustained run beside a ceiling, of the same implementation; None where another one was held."""
    runs = [series for series in record["series"] if series["name"].startswith("sustained")]
    return next((run for run in runs if run["implementation"] == winner["implementation"]), None)


def _compute(session: Session, side: str) -> Iterator[tuple[str, Json]]:
    gemms = session.of(side, "gemm")
    for name in {timed.variant(record) for record in gemms.values()}:
        loads = [
            (timed.gemm_rate(record, series), file, series["name"])
            for file, record in gemms.items()
            if timed.variant(record) == name
            for series in record["series"]
            if judged_by(record, series)
        ]
        if not loads:
            continue
        rate, file, won = max(loads)
        record = gemms[file]
        series = next(each for each in record["series"] if each["name"] == won)
        run = held(record, series)
        flop = timed.gemm_rate(record, series | {"name": "burst"}) * median(series)
        low, high = tenths(series)
        yield (
            f"{side}-compute-{name}",
            _ceiling(
                burst=rate,
                burst_spread=[flop / high, flop / low],
                sustained=timed.gemm_rate(record, run) if run else None,
                vendor=session.vendor_flop_per_s(side, name),
                n=record["shape"]["n"],
                file=file,
            ),
        )


def _registers(session: Session, side: str) -> Iterator[tuple[str, Json]]:
    for file, record in session.of(side, "fma").items():
        flop = 2 * record["shape"]["threads"] * record["shape"]["fma_per_thread"]
        best = min((each for each in record["series"] if judged_by(record, each)), key=median)
        low, high = tenths(best)
        run = held(record, best)
        yield (
            f"{side}-compute-{record['dtype']}_fma",
            _ceiling(
                burst=flop / median(best),
                burst_spread=[flop / high, flop / low],
                sustained=flop / timed.settled(run) if run else None,
                vendor=session.vendor_flop_per_s(side, record["dtype"]),
                file=file,
            ),
        )


def _memory(session: Session, side: str) -> Iterator[tuple[str, Json]]:
    for file, record in session.of(side, "bandwidth").items():
        rates = {series["name"]: timed.moved_bytes(record, series) / median(series) for series in record["series"]}
        best = max(record["series"], key=lambda series: rates[series["name"]])
        moved, (low, high) = timed.moved_bytes(record, best), tenths(best)
        sizes = record["details"].get("bytes_per_series", {}) if record["name"] == "l2" else {}
        top = max(rates.values())
        of_vendor = side == "gpu" and record["name"] != "l2" and session.vendor
        yield (
            f"{side}-memory-{record['name']}",
            _ceiling(
                burst=top,
                burst_spread=[moved / high, moved / low],
                sustained=None,
                vendor=float(session.vendor["memory_gb_per_s"]) * 1e9 if of_vendor else None,
                reach_bytes=max((sizes[n] for n in sizes if rates[n] >= timed.L2_REACH * top), default=None),
                sweep=sorted([sizes[n], rates[n]] for n in sizes) or None,
                file=file,
            ),
        )


def _ceiling(**known: Any) -> Json:
    return known | {
        "fraction_of_vendor": share(known["burst"], known["vendor"]),
        "sustained_fraction_of_vendor": share(known["sustained"], known["vendor"]),
    }


def ridge_points(tops: dict[str, Json]) -> dict[tuple[str, str], Json]:
    """Where each compute ceiling meets the slope of reads of its side."""
    return {
        (top, slope): {
            "intensity": tops[top]["burst"] / tops[slope]["burst"],
            "flop_per_s": tops[top]["burst"],
        }
        for top in tops
        for slope in tops
        if "-compute-" in top and slope == f"{top[:3]}-memory-read"
    }


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
    reach = tops.get(f"{side}-memory-l2", {}).get("reach_bytes") or device.get(
        {"gpu": "l2_bytes", "cpu": "llc_bytes"}[side]
    )
    return FAST[side] if is_warm and reach is not None and nbytes <= reach else MAIN[side]


def slope_of(side: str, tier: str, tops: dict[str, Json]) -> str | None:
    """The ceiling for reads from a tier; where the fast one has none, main memory's."""
    own = f"{side}-memory-l2" if tier == "L2" else None
    return next((name for name in (own, f"{side}-memory-read") if name in tops), None)


def roof(
    need: Need, tier: str, compute: str | None, slope: str | None, empty: float | None, tops: dict[str, Json]
) -> Any:
    """(name of what binds, shortest seconds) of computing, moving and launching; None where nothing is known."""
    known = []
    if compute in tops:
        known.append(("compute", need.flop / tops[compute]["burst"]))
    if slope in tops:
        known.append((tier, need.bytes / _speed(tops[slope], need.bytes)))
    if empty is not None:
        known.append(("launch", empty))
    return max(known, key=lambda bound: bound[1], default=None)


def _speed(slope: Json, nbytes: float) -> float:
    """Bytes/s at a working set: of a slope taken over sizes, its curve over the logarithm of the size."""
    if not slope.get("sweep"):
        return float(slope["burst"])
    sizes, rates = np.array(slope["sweep"]).T
    return float(np.interp(np.log(nbytes), np.log(sizes), rates))


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
        "launch_floor_s": empty["median_s"] if empty else None,
        "fraction_of_attainable": share(bound[1] if bound else None, middle),
        "fraction_of_ceiling": share(achieved, tops.get(compute, {}).get("burst")),
        "fraction_of_fp16_peak": share(achieved, fp16),
        "fraction_of_vendor": share(achieved, session.vendor_flop_per_s(side, kind)),
        "intensity_with_writes": need.flop / working if record["stage"] == "gemm" else None,
        "file": file,
    }

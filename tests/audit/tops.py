"""Ceilings and ridge points as the raw samples give them: {id: {field: value}}, numbers in SI units."""

from collections.abc import Iterator
from typing import Any

import timed
from timed import Json, Session, median, tenths

BEYOND = 1.02  # of a physical limit
MAIN, FAST = {"gpu": "HBM", "cpu": "DRAM"}, {"gpu": "L2", "cpu": "cache"}
CACHE_BYTES = {"gpu": "l2_bytes", "cpu": "llc_bytes"}


def share(part: float | None, whole: float | None) -> float | None:
    """part / whole where both are known."""
    return part / whole if part is not None and whole else None


def beyond(of_limit: float | None) -> bool:
    """Whether a share of a physical limit cannot be."""
    return of_limit is not None and of_limit > BEYOND


def ceilings(session: Session) -> dict[str, Json]:
    """Every ceiling by its id."""
    made: dict[str, Json] = {}
    for side in ("cpu", "gpu"):
        for kind in (_products, _registers, _memory):
            made |= dict(kind(session, side))
    return made


def ridge_points(tops: dict[str, Json]) -> dict[tuple[str, str], Json]:
    """Where each compute ceiling meets the slope of its side: reads from main memory."""
    made = {}
    for top in (name for name in tops if "-compute-" in name):
        slope = f"{top[:3]}-memory-read"
        if slope in tops and tops[slope]["tier"] == MAIN[top[:3]]:
            rate = tops[top]["burst"]
            made[top, slope] = {"intensity": rate / tops[slope]["burst"], "flop_per_s": rate}
    return made


def may_judge(series: Json) -> bool:
    """Whether a ceiling may rest on a series: five samples or more, not the lab's that it judges, and not known to be wrong."""
    return series["name"] != "lab" and len(series["samples_s"]) >= timed.FEWEST and not timed.was_wrong(series)


def held(record: Json, winner: Json) -> Json | None:
    """The sustained run beside a ceiling: of the same size and implementation, else none."""
    runs = (series for series in record["series"] if series["name"].startswith("sustained"))
    return next((series for series in runs if series["implementation"] == winner["implementation"]), None)


def _products(session: Session, side: str) -> Iterator[tuple[str, Json]]:
    """The fastest load of each dtype and variant over all sizes and algorithms."""
    gemms = session.of(side, "gemm")
    for name in {timed.variant(record) for record in gemms.values()}:
        loads = [
            (timed.gemm_rate(record, series), file, series["name"])
            for file, record in gemms.items()
            if timed.variant(record) == name
            for series in record["series"]
            if may_judge(series)
        ]
        if loads:
            rate, file, won = max(loads)
            record = gemms[file]
            series = next(each for each in record["series"] if each["name"] == won)
            computed = _computed(session, record, name, series, timed.gemm_flop(record), rate)
            yield f"{side}-compute-{name}", computed | {"n": record["shape"]["n"], "file": file}


def _registers(session: Session, side: str) -> Iterator[tuple[str, Json]]:
    for file, record in session.of(side, "fma").items():
        flop = 2 * record["shape"]["threads"] * record["shape"]["fma_per_thread"]
        loads = [series for series in record["series"] if may_judge(series)]
        if loads:
            best, name = min(loads, key=median), record["dtype"]
            computed = _computed(session, record, name, best, flop, flop / median(best))
            yield f"{side}-compute-{name}_fma", computed | {"file": file}


def _computed(session: Session, record: Json, name: str, series: Json, flop: float, rate: float) -> Json:
    """A compute ceiling, and the gap to the vendor's figure taken apart into clock and use of the issue rate."""
    side, run, (low, high) = record["side"], held(record, series), tenths(series)
    vendor, clock = session.vendor_flop_per_s(side, name), timed.inside(series)
    assumed = session.vendor_clock_hz(name) if side == "gpu" else None
    of_limit, factor = share(rate, session.most_flop_per_s(side, name, series)), share(clock, assumed)
    return _ceiling(
        burst=rate,
        burst_spread=[flop / high, flop / low],
        sustained=flop / timed.settled(run) if run else None,
        sustained_clock_hz=timed.mean_over_cycles(run, "sm_hz") if run else None,
        sustained_temperature_c=timed.mean_over_cycles(run, "temperature_c") if run else None,
        vendor=vendor,
        series=series["name"],
        samples=len(series["samples_s"]),
        clock_hz=clock,
        clock={"measured_hz": clock, "vendor_hz": assumed, "factor": factor},
        use={"of_issue_rate": rate / (vendor * factor) if vendor and factor else None},
        of_physical_limit=of_limit,
        impossible=beyond(of_limit),
    )


def _memory(session: Session, side: str) -> Iterator[tuple[str, Json]]:
    for file, record in session.of(side, "bandwidth").items():
        loads = [series for series in record["series"] if len(series["samples_s"]) >= timed.FEWEST]
        if loads:
            yield f"{side}-memory-{record['name']}", _slope(session, side, record, loads) | {"file": file}


def _slope(session: Session, side: str, record: Json, loads: list[Json]) -> Json:
    rates = {series["name"]: timed.moved_bytes(record, series) / median(series) for series in loads}
    best = max(loads, key=lambda series: rates[series["name"]])
    moved, (low, high), tier = timed.moved_bytes(record, best), tenths(best), _served_from(session, side, record)
    sizes = record["details"].get("bytes_per_series", {}) if record["name"] == "l2" else {}
    sweep, top = sorted([sizes[n], rates[n]] for n in sizes if n in rates), max(rates.values())
    fast = [each for each in sweep if each[1] >= timed.L2_REACH * top]
    of_limit = share(top, session.most_bytes_per_s(tier))
    return _ceiling(
        burst=top,
        burst_spread=[moved / high, moved / low],
        sustained=None,
        vendor=float(session.vendor["memory_gb_per_s"]) * 1e9 if tier == "HBM" and session.vendor else None,
        tier=tier,
        series=best["name"],
        samples=len(best["samples_s"]),
        reach_bytes=max((size for size, _ in fast), default=None),
        sweep=sweep or None,
        plateau=[min(rate for _, rate in fast), max(rate for _, rate in fast)] if fast else None,
        plateau_bytes=[min(size for size, _ in fast), max(size for size, _ in fast)] if fast else None,
        of_physical_limit=of_limit,
        impossible=beyond(of_limit),
    )


def _served_from(session: Session, side: str, record: Json) -> str:
    """The memory that served a bandwidth kernel: the cache where all its buffers fit into the last level of it."""
    shape, cache = record["shape"], session.device(side).get(CACHE_BYTES[side])
    together = shape["bytes_per_array"] * max(1, shape.get("reads", 1) + shape.get("writes", 0))
    return FAST[side] if record["name"] == "l2" or (cache and together <= cache) else MAIN[side]


def _ceiling(**known: Any) -> Json:
    return known | {
        "fraction_of_vendor": share(known["burst"], known["vendor"]),
        "sustained_fraction_of_vendor": share(known["sustained"], known["vendor"]),
    }

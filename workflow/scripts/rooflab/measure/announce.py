"""The one line per finished job that the reader of the terminal sees."""

from typing import Any

from rooflab.theory import recorded
from rooflab.theory.quantiles import median, percentile

HEADLINE = ("lab", "fused", "numpy", "sync_each", "burst")


def line(record: dict[str, Any]) -> str:
    """Operator, dtype, shape, median with spread, achieved, seconds spent; or the status with its reason."""
    head = f"{record['side']} {record['stage']:<12} {record['name']:<20}"
    tail = f"[{record['seconds']:.1f} s]"
    if record["status"] != "measured":
        return f"{head} {record['status']}: {record['reason']} {tail}"
    if "bytes_per_series" in record["details"]:
        return f"{head} {_fastest(record):<51} {tail}"
    if record["stage"] in ("step", "sweep"):
        return f"{head} {_parts(record['series']):<51} {tail}"
    if not record["series"]:
        return f"{head} {record['device'].get('name', '')} {tail}"
    series = _headline(record["series"])
    per_call = recorded.seconds_per_launch(series)
    return f"{head} {_time(per_call):<34} {_achieved(record, series, median(per_call)):<16} {tail}"


def _fastest(record: dict[str, Any]) -> str:
    """The best of a sweep over buffer sizes."""
    rates = {
        s["name"]: recorded.moved_bytes(record, s["name"]) / median(recorded.seconds_per_launch(s))
        for s in record["series"]
    }
    best = max(rates, key=lambda name: rates[name])
    return f"{_rate(rates[best], 'B/s')} at {best}, {len(rates)} sizes"


def _parts(series: list[dict[str, Any]]) -> str:
    """How many parts were timed, and the longest of them."""
    times = {s["name"]: median(recorded.seconds_per_launch(s)) for s in series}
    longest = max(times, key=lambda name: times[name])
    return f"{len(times)} parts, longest {longest}: {times[longest] * 1e6:.4g} µs"


def _headline(series: list[dict[str, Any]]) -> dict[str, Any]:
    by_name = {s["name"]: s for s in series}
    return next((by_name[n] for n in HEADLINE if n in by_name), series[0])


def _time(seconds: list[float]) -> str:
    if len(seconds) < 3:
        return f"{median(seconds) * 1e6:.4g} µs"
    low, high = (percentile(seconds, percent) for percent in (10, 90))
    return f"{median(seconds) * 1e6:.4g} µs (p10 {low * 1e6:.4g}, p90 {high * 1e6:.4g})"


def _achieved(record: dict[str, Any], series: dict[str, Any], seconds: float) -> str:
    if record["stage"] == "bandwidth":
        return _rate(recorded.moved_bytes(record, series["name"]) / seconds, "B/s")
    flop = recorded.flop(record)
    return _rate(flop / seconds, "FLOP/s") if flop else ""


def _rate(value: float, unit: str) -> str:
    prefix, scale = ("T", 1e12) if value >= 1e12 else ("G", 1e9)
    return f"{value / scale:.4g} {prefix}{unit}"

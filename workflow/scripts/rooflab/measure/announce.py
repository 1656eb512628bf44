"""The one line per finished job that the reader of the terminal sees."""

from typing import Any

from rooflab.theory import work as theory
from rooflab.theory.dtypes import dtype
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
    per_call = [s / series["iterations_per_sample"] for s in series["samples_s"]]
    return f"{head} {_time(per_call):<34} {_achieved(record, median(per_call)):<16} {tail}"


def _fastest(record: dict[str, Any]) -> str:
    """The best of a sweep over buffer sizes."""
    sizes = record["details"]["bytes_per_series"]
    rates = {
        s["name"]: sizes[s["name"]] * s["iterations_per_sample"] / median(s["samples_s"]) for s in record["series"]
    }
    best = max(rates, key=lambda name: rates[name])
    return f"{_rate(rates[best], 'B/s')} at {best}, {len(rates)} sizes"


def _parts(series: list[dict[str, Any]]) -> str:
    """How many parts were timed, and the longest of them."""
    times = {s["name"]: median(s["samples_s"]) / s["iterations_per_sample"] for s in series}
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


def _achieved(record: dict[str, Any], seconds: float) -> str:
    shape = record["shape"]
    match record["stage"]:
        case "gemm":
            return _rate(theory.multiply_adds(shape["m"] * shape["n"] * shape["k"]) / seconds, "FLOP/s")
        case "fma":
            return _rate(theory.multiply_adds(shape["threads"] * shape["fma_per_thread"]) / seconds, "FLOP/s")
        case "bandwidth" if "bytes_per_series" not in record["details"]:
            moved = shape["bytes_per_array"] * (shape["reads"] + shape["writes"])
            return _rate(moved / seconds, "B/s")
        case "decode":
            size = dtype(record["dtype"]).bytes
            work = theory.decode_attention(
                shape["batch"], shape["query_heads"], shape["kv_heads"], shape["sequence"], shape["head_dim"], size
            )
            return _rate(work.flop / seconds, "FLOP/s")
    return ""


def _rate(value: float, unit: str) -> str:
    prefix, scale = ("T", 1e12) if value >= 1e12 else ("G", 1e9)
    return f"{value / scale:.4g} {prefix}{unit}"

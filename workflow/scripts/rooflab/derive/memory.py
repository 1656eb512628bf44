"""The measured memory slopes: main memory by pattern, and L2 by the sweep over buffer sizes."""

from rooflab.derive.evidence import measured
from rooflab.derive.peaks import vendor_of
from rooflab.derive.roof import MAIN_TIER
from rooflab.derive.series import fraction, is_power_capped, median_s, rate_spread
from rooflab.record.types import Ceiling, Record, Records
from rooflab.theory import recorded

PATTERN_LABEL = {"d2d": "copy (read + write)", "read": "read", "write": "write", "triad": "triad", "l2": "read"}
REACH = 0.9  # of the L2 ceiling: buffers up to the largest that still reads this fast are served by L2


def memory_ceilings(records: Records, side: str) -> list[Ceiling]:
    """One ceiling a pattern, in bytes/s."""
    return [_ceiling(records, side, file, record) for file, record in measured(records, side, "bandwidth").items()]


def _ceiling(records: Records, side: str, file: str, record: Record) -> Ceiling:
    pattern = record["name"]
    rates = {s["name"]: recorded.moved_bytes(record, s["name"]) / median_s(s) for s in record["series"]}
    series = max(record["series"], key=lambda each: rates[each["name"]])
    burst, sweep = rates[series["name"]], _sweep(record, rates) if pattern == "l2" else []
    tier = "L2" if pattern == "l2" else MAIN_TIER[side]
    peaks = vendor_of(records) if tier == "HBM" else None
    vendor = peaks.bytes_per_s.value if peaks else None
    return {
        "id": f"{side}-memory-{pattern}",
        "side": side,
        "kind": "memory",
        "label": f"{tier} {PATTERN_LABEL[pattern]}",
        "dtype": None,
        "variant": None,
        "unit": None,
        "accumulator": None,
        "tier": tier,
        "pattern": pattern,
        "burst": burst,
        "burst_spread": rate_spread(series, recorded.moved_bytes(record, series["name"])),
        "sustained": None,
        "unit_of_value": "bytes_per_s",
        "vendor": vendor,
        "fraction_of_vendor": fraction(burst, vendor),
        "sustained_fraction_of_vendor": None,
        "power_capped": is_power_capped(series),
        "sm_clock_hz": series["chip"]["during"].get("sm_clock_hz"),
        "implementation": series["implementation"],
        "n": None,
        "reach_bytes": max((int(size) for size, rate in sweep if rate >= REACH * burst), default=None),
        "sweep": sweep or None,
        "file": file,
    }


def _sweep(record: Record, rates: dict[str, float]) -> list[list[float]]:
    """[buffer bytes, bytes per second] of every size of an L2 sweep, smallest first; empty where only one was taken."""
    sizes = record["details"].get("bytes_per_series", {})
    return sorted([size, rates[name]] for name, size in sizes.items())

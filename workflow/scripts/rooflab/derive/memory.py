"""The measured memory slopes: main memory by pattern, and L2 by the sweep over buffer sizes."""

from rooflab.derive.chip import physics
from rooflab.derive.chip.clock import UNCLOCKED
from rooflab.derive.chip.peaks import vendor_of
from rooflab.derive.evidence import facts, measured
from rooflab.derive.roof import FAST_BYTES, FAST_TIER, MAIN_TIER
from rooflab.derive.series import LEAST_SAMPLES, fraction, is_power_capped, median_s, rate_spread
from rooflab.record.roof_types import Ceiling, Swept
from rooflab.record.types import Record, Records
from rooflab.theory import recorded

PATTERN_LABEL = {"d2d": "copy (read + write)", "read": "read", "write": "write", "triad": "triad", "l2": "read"}
UNSWEPT: Swept = {"reach_bytes": None, "sweep": None, "plateau": None, "plateau_bytes": None}
REACH = 0.9  # of the L2 ceiling: buffers up to the largest that still reads this fast are served by L2


def memory_ceilings(records: Records, side: str) -> list[Ceiling]:
    """One ceiling a pattern that was sampled often enough, in bytes/s."""
    found = measured(records, side, "bandwidth").items()
    made = [_ceiling(records, side, file, record) for file, record in found]
    return [ceiling for ceiling in made if ceiling is not None]


def tier_of_buffers(records: Records, side: str, record: Record) -> str:
    """The memory that served a bandwidth record: its buffers together lie in the last-level cache, or do not."""
    cache = (facts(records, side) or {}).get(FAST_BYTES[side])
    shape = record["shape"]
    together = shape["bytes_per_array"] * max(1, shape.get("reads", 1) + shape.get("writes", 0))
    fits = cache is not None and together <= cache
    return FAST_TIER[side] if record["name"] == "l2" or fits else MAIN_TIER[side]


def _ceiling(records: Records, side: str, file: str, record: Record) -> Ceiling | None:
    pattern, often = record["name"], [s for s in record["series"] if len(s["samples_s"]) >= LEAST_SAMPLES]
    if not often:
        return None
    rates = {s["name"]: recorded.moved_bytes(record, s["name"]) / median_s(s) for s in often}
    series = max(often, key=lambda each: rates[each["name"]])
    burst, tier = rates[series["name"]], tier_of_buffers(records, side, record)
    peaks = vendor_of(records) if tier == "HBM" else None
    vendor = peaks.bytes_per_s.value if peaks else None
    of_limit = physics.share(burst, physics.bytes_per_s(records, tier))
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
        **UNCLOCKED,
        "of_physical_limit": of_limit,
        "impossible": physics.is_impossible(of_limit),
        "implementation": series["implementation"],
        "series": series["name"],
        "samples": len(series["samples_s"]),
        "n": None,
        **_swept(record, rates, burst),
        "file": file,
    }


def _swept(record: Record, rates: dict[str, float], burst: float) -> Swept:
    """The curve over buffer sizes, smallest first: how far it reaches, and the range of the sizes that read nearly as fast as
    the best; nothing where only one size was taken."""
    sizes = record["details"].get("bytes_per_series", {}) if record["name"] == "l2" else {}
    sweep = sorted([size, rates[name]] for name, size in sizes.items() if name in rates)
    fast = [(int(size), rate) for size, rate in sweep if rate >= REACH * burst]
    if not fast:
        return UNSWEPT
    return {
        "reach_bytes": max(size for size, _ in fast),
        "sweep": sweep,
        "plateau": [min(rate for _, rate in fast), max(rate for _, rate in fast)],
        "plateau_bytes": [min(size for size, _ in fast), max(size for size, _ in fast)],
    }

"""The vendor's figures of a session's devices."""

import math
from typing import Any

from rooflab.derive.evidence import facts
from rooflab.record.types import Records
from rooflab.theory.vendor import VendorPeaks, vendor_peaks


def vendor_of(records: Records) -> VendorPeaks | None:
    """The vendor's figures of the session's GPU; None without its device record."""
    gpu = facts(records, "gpu")
    if gpu is None:
        return None
    return vendor_peaks(
        gpu["name"],
        gpu["sm_count"],
        gpu["compute_capability"],
        gpu.get("max_sm_clock_hz") or gpu.get("sm_clock_hz"),
        gpu.get("memory_bytes"),
        bool(gpu.get("mig")),
        gpu.get("max_memory_clock_hz") or gpu.get("memory_clock_hz"),
        gpu.get("memory_bus_bits"),
    )


def vendor_flop_per_s(records: Records, side: str, name: str) -> float | None:
    """The vendor's dense peak of a dtype on this side; on a CPU the theoretical peak where every factor is known."""
    if side == "cpu":
        return cpu_peak_flop_per_s(records, name)
    peaks = vendor_of(records)
    return peaks.flop_per_s[name].value if peaks else None


def cpu_peak_flop_per_s(records: Records, name: str) -> float | None:
    """Cores x maximum clock x fp32 lanes x FMA units x 2 FLOP, half of that in fp64; None for any other dtype."""
    factors = (facts(records, "cpu") or {}).get("peak") or {}
    known: list[Any] = [factors.get(factor) for factor in ("cores", "clock_hz", "fp32_lanes", "fma_units")]
    share = {"fp32": 1.0, "fp64": 0.5}.get(name)
    return None if share is None or None in known else 2 * share * math.prod(map(float, known))

"""The gap between a vendor's figure and a measured ceiling, taken apart: the clock it ran at, and the use of what the units can
issue at that clock.

vendor figure x clock.factor x use.of_issue_rate = measured. The factor is the clock inside the timed blocks, by stamps on the
stream, over the SM clock that the vendor's figure assumes. What remains is the share of the issue rate: the vendor's figure is
SMs x FLOP per clock x clock, so the rate over the figure at the measured clock is the share of what the units issue there.
"""

from rooflab.derive.chip.peaks import vendor_of
from rooflab.derive.evidence import facts
from rooflab.record.roof_types import Clocked, ClockSplit, UseSplit
from rooflab.record.types import Records, Series
from rooflab.theory.issue_rates import issue_rate
from rooflab.theory.parts import MIG_SUFFIX

UNCLOCKED: Clocked = {
    "clock_hz": None,
    "clock": None,
    "use": None,
    "sustained_clock_hz": None,
    "sustained_temperature_c": None,
    "sustained_power_w": None,
}


def inside(series: Series) -> float | None:
    """The SM clock inside the timed blocks of a series, Hz; None where no pair of stamps is valid."""
    clock = series.get("clock")
    return clock["sm_hz"] if clock else None


def clock_split(records: Records, side: str, name: str, series: Series) -> ClockSplit:
    """The measured clock over the vendor's, for the dtype or variant `name`."""
    clock, peaks = series.get("clock"), vendor_of(records) if side == "gpu" else None
    measured = inside(series)
    vendor_hz = peaks.clock_hz.get(name) if peaks else None
    reason = None
    if measured is None:
        reason = (clock["reason"] if clock else None) or "not_stamped"
    elif vendor_hz is None:
        reason = "no_vendor_clock"
    factor = measured / vendor_hz if measured and vendor_hz else None
    return {"measured_hz": measured, "vendor_hz": vendor_hz, "factor": factor, "reason": reason}


def use_split(records: Records, name: str, burst: float, vendor: float | None, clock: ClockSplit) -> UseSplit:
    """The share of the issue rate at the measured clock: by the vendor's figure, or by the chip's FLOP per clock where the
    vendor table holds none."""
    if clock["measured_hz"] is None:
        return {"of_issue_rate": None, "reason": clock["reason"]}
    if vendor is not None and clock["factor"] is not None:
        return {"of_issue_rate": burst / (vendor * clock["factor"]), "reason": None}
    rate = issued_per_clock(records, name)
    if rate is None:
        return {"of_issue_rate": None, "reason": "no_issue_rate"}
    return {"of_issue_rate": burst / (rate * clock["measured_hz"]), "reason": None}


def issued_per_clock(records: Records, name: str) -> float | None:
    """FLOP that the whole GPU can issue in a clock in a dtype or variant; None where it is not known."""
    gpu = facts(records, "gpu")
    if gpu is None:
        return None
    rate = issue_rate(MIG_SUFFIX.sub("", gpu["name"]), gpu["compute_capability"], name).flop_per_clock
    return rate * gpu["sm_count"] if rate is not None else None

"""What a chip cannot exceed, whatever a vendor prints: SMs x FLOP per clock x clock, and bus width x memory clock.

The clock is the one inside the timed block where stamps read it, else the card's maximum. A figure beyond a limit by more than
2 % is a fault of the measurement: fewer bits were multiplied, or a cache answered.
"""

from rooflab.derive.chip.clock import inside, issued_per_clock
from rooflab.derive.chip.peaks import cpu_peak_flop_per_s
from rooflab.derive.evidence import facts
from rooflab.record.types import Records, Series
from rooflab.theory.vendor import memory_estimate

TOLERANCE = 0.02
MAIN_MEMORY = ("HBM",)  # the tiers that the bus limits


def flop_per_s(records: Records, side: str, name: str, series: Series | None) -> float | None:
    """The most FLOP/s in a dtype or variant at the clock of a series; None where a factor is not known."""
    if side == "cpu":
        return cpu_peak_flop_per_s(records, name)
    gpu, rate = facts(records, "gpu"), issued_per_clock(records, name)
    clock = (inside(series) if series else None) or _most(gpu or {}, "sm_clock_hz")
    return rate * clock if rate is not None and clock else None


def bytes_per_s(records: Records, tier: str | None) -> float | None:
    """The most bytes/s over the bus of a tier: 2 (double data rate) x memory clock x bus width / 8; None for a cache."""
    gpu = facts(records, "gpu") if tier in MAIN_MEMORY else None
    if gpu is None or gpu.get("mig"):
        return None
    return memory_estimate(_most(gpu, "memory_clock_hz"), gpu.get("memory_bus_bits")).value


def share(value: float | None, limit: float | None) -> float | None:
    """A figure over its physical limit; None where either is not known."""
    return value / limit if value is not None and limit else None


def highest(*shares: float | None) -> float | None:
    """The largest of the shares that are known."""
    return max((each for each in shares if each is not None), default=None)


def is_impossible(of_limit: float | None) -> bool:
    """Whether a figure lies beyond what the chip can do."""
    return of_limit is not None and of_limit > 1 + TOLERANCE


def _most(gpu: dict[str, object], clock: str) -> float | None:
    known = [float(str(each)) for each in (gpu.get(f"max_{clock}"), gpu.get(clock)) if each]
    return max(known, default=None)

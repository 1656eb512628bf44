"""Where a point stands under its roof: what bounds it, and how fast the measured ceilings let it run.

Attainable time = the longest of the launch floor of its way of launching, its bytes at the bandwidth of its tier and
its FLOP at the compute ceiling of its dtype: the roofline (Williams, Waterman, Patterson, CACM 52(4), 2009) with one
more floor.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log

from rooflab.derive.evidence import facts
from rooflab.record.roof_types import Ceiling, Floor
from rooflab.record.types import Records
from rooflab.theory.work import Work

FAST_TIER = {"gpu": "L2", "cpu": "cache"}
MAIN_TIER = {"gpu": "HBM", "cpu": "DRAM"}
FAST_BYTES = {"gpu": "l2_bytes", "cpu": "llc_bytes"}


AT_ROOF = 2 / 3  # of the attainable speed: from here on a roof explains a time


@dataclass(frozen=True)
class Limit:
    """One bound of a point: its name, the seconds it takes at least, its relative spread, the ceiling it comes from.

    `judged` is False where the ceiling was measured in another tier, so that running faster contradicts nothing.
    """

    bound: str
    seconds: float
    spread: float
    source: str
    judged: bool = True


@dataclass(frozen=True)
class Way:
    """How something was run: what it computes in (a dtype or variant; None where computing is no limit), whether its
    working set was warm, who launched it and where the device was synchronised."""

    variant: str | None
    cache: str | None
    launch: str
    timing: str


@dataclass(frozen=True)
class Place:
    """Where some work stands: the tier that serves it, the ceilings and floor of its way, and the limit that binds."""

    tier: str
    compute: Ceiling | None
    memory: Ceiling | None
    floor: Floor | None
    limit: Limit | None


@dataclass(frozen=True)
class Roof:
    """The ceilings and launch floors of one side, and the largest buffer that its fast tier serves, bytes."""

    side: str
    ceilings: Sequence[Ceiling]
    floors: Sequence[Floor]
    fast_bytes: int | None

    def place(self, work: Work, way: Way, working_set_bytes: int) -> Place:
        """The place of `work` run that way."""
        tier = tier_of(self.side, working_set_bytes, way.cache, self.fast_bytes)
        compute = compute_ceiling(self.ceilings, self.side, way.variant) if way.variant else None
        memory = memory_ceiling(self.ceilings, self.side, tier)
        floor = launch_floor(self.floors, self.side, way.launch, way.timing)
        return Place(tier, compute, memory, floor, binding(limits(work, tier, compute, memory, floor)))

    def flop_per_s(self, variant: str) -> float | None:
        """The compute ceiling of a dtype or variant."""
        found = compute_ceiling(self.ceilings, self.side, variant)
        return found["burst"] if found else None

    def bytes_per_s(self) -> float | None:
        """The ceiling of reads from main memory."""
        found = memory_ceiling(self.ceilings, self.side, MAIN_TIER[self.side])
        return found["burst"] if found else None


def roof(records: Records, side: str, ceilings: Sequence[Ceiling], floors: Sequence[Floor]) -> Roof:
    """The roof of one side of a session."""
    known = facts(records, side) or {}
    return Roof(side, ceilings, floors, reach(ceilings, side, FAST_TIER[side]) or known.get(FAST_BYTES[side]))


def tier_of(side: str, working_set_bytes: int, cache: str | None, fast_bytes: int | None) -> str:
    """The tier that serves a working set: L2 (GPU) or the last-level cache (CPU) where it fits and is warm."""
    fits = fast_bytes is not None and working_set_bytes <= fast_bytes
    return FAST_TIER[side] if fits and cache == "warm" else MAIN_TIER[side]


def memory_ceiling(ceilings: Iterable[Ceiling], side: str, tier: str) -> Ceiling | None:
    """The ceiling for reads from `tier`: its own where measured, else the read ceiling of main memory; never a copy."""
    reads = [c for c in ceilings if c["side"] == side and c["pattern"] in ("l2", "read")]
    ordered = sorted(reads, key=lambda c: c["pattern"] != "l2")
    own = (c for wanted in (tier, MAIN_TIER[side]) for c in ordered if c["tier"] == wanted)
    return next(own, None)


def bandwidth_at(slope: Ceiling, nbytes: int) -> float:
    """Bytes/s of a slope for a working set of `nbytes`: a tier that was swept over sizes has a curve, straight between two
    neighbours in the logarithm of the size, and flat beyond its ends."""
    sweep = slope["sweep"]
    if not sweep:
        return slope["burst"]
    below = [each for each in sweep if each[0] <= nbytes]
    above = [each for each in sweep if each[0] > nbytes]
    if not below or not above:
        return (below[-1] if below else above[0])[1]
    (low, slow), (high, fast) = below[-1], above[0]
    return slow + (fast - slow) * log(nbytes / low) / log(high / low)


def compute_ceiling(ceilings: Iterable[Ceiling], side: str, variant: str) -> Ceiling | None:
    """The measured compute ceiling of a dtype, or of a variant of one, on this side."""
    return next((c for c in ceilings if (c["side"], c["kind"], c["variant"]) == (side, "compute", variant)), None)


def slope(ceilings: Iterable[Ceiling], side: str, pattern: str) -> float | None:
    """The bandwidth of one pattern of this side's memory, bytes/s; None where it was not measured."""
    return next((c["burst"] for c in ceilings if (c["side"], c["pattern"]) == (side, pattern)), None)


def reach(ceilings: Iterable[Ceiling], side: str, tier: str) -> int | None:
    """The largest buffer that a tier was seen to serve; None where no sweep was taken."""
    return next((c["reach_bytes"] for c in ceilings if (c["side"], c["tier"]) == (side, tier)), None)


def launch_floor(floors: Iterable[Floor], side: str, launch: str, timing: str) -> Floor | None:
    """The launch floor taken the same way as the point: from Python or a graph, synchronised each or in blocks."""
    return next((f for f in floors if (f["side"], f["launch"], f["timing"]) == (side, launch, timing)), None)


def limits(work: Work, tier: str, compute: Ceiling | None, memory: Ceiling | None, floor: Floor | None) -> list[Limit]:
    """The bounds that are known; a missing ceiling bounds nothing."""
    made = []
    if compute is not None:
        made.append(Limit("compute", work.flop / compute["burst"], relative_spread(compute), compute["id"]))
    if memory is not None:
        seconds = work.bytes / bandwidth_at(memory, work.bytes)
        made.append(Limit(tier, seconds, relative_spread(memory), memory["id"], judged=memory["tier"] == tier))
    if floor is not None:
        width = (floor["p90_s"] - floor["p10_s"]) / floor["median_s"]
        made.append(Limit("launch", floor["median_s"], width, floor["id"]))
    return made


def binding(known: Iterable[Limit]) -> Limit | None:
    """The limit that sets the attainable time; a tie goes to the first; None where nothing is known."""
    return max(known, key=lambda limit: limit.seconds, default=None)


def is_at(limit: Limit | None, median_s: float | None) -> bool | None:
    """Whether something that took `median_s` is at the roof that allows it least, so that this roof explains its time; else
    it lies below every roof, and that one is only the nearest. None where no roof or no time is known."""
    return None if limit is None or median_s is None else limit.seconds >= AT_ROOF * median_s


def is_above_roof(median_s: float, spread: float, limit: Limit | None) -> bool:
    """Whether a point beats its roof by more than both of them spread: then one of the two measurements is wrong.

    `spread` of the point: from the 10th to the 90th percentile, as a fraction of the median.
    """
    return limit is not None and limit.judged and limit.seconds > median_s * (1 + spread + limit.spread)


def relative_spread(ceiling: Ceiling) -> float:
    """Distance from the 10th to the 90th percentile of a ceiling, as a fraction of it."""
    low, high = ceiling["burst_spread"]
    return (high - low) / ceiling["burst"]

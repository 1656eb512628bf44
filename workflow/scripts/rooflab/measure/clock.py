"""The clock that the multiprocessors really had inside a timed block, from marks that the device itself makes.

A driver's figure is read after the work and averages over it; two marks on the timed stream bound it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from rooflab.theory.quantiles import median

MOST_MARKS = 16
INSIDE_SHARE = 0.005  # of a block: what the marks may cost where they are timed with it
LEAST_BLOCK_S = 0.001  # below it what lies between the marks is not the block alone
COST_PAIRS = 20
GAUGES_EVERY_S = 0.5
LEAST_POWER_S = 1.0  # the energy counter moves in steps of some ten milliseconds: a shorter run has no watts
SHORT, OTHER_SM, STILL = "blocks_under_1_ms", "stamps_on_different_sms", "timer_did_not_move"

Call = Callable[[], Any]


@dataclass(frozen=True)
class Mark:
    """What one stamp wrote down: nanoseconds of the device, cycles of a multiprocessor, and which one."""

    nanoseconds: int
    cycles: int
    multiprocessor: int


class Stamps(Protocol):
    """Something that marks the timed stream; slots count from 0 to MOST_MARKS - 1."""

    def mark(self, slot: int) -> None:
        """Enqueues one mark."""

    def read(self, count: int) -> list[Mark]:
        """The first `count` marks of an idle device."""


def cost_s(stamps: Stamps, synchronize: Call, clock: Callable[[], float]) -> float:
    """Seconds that a pair of marks takes on the stream."""
    seconds = []
    for _ in range(3):
        synchronize()
        start = clock()
        for _ in range(COST_PAIRS):
            stamps.mark(0)
            stamps.mark(1)
        synchronize()
        seconds.append((clock() - start) / COST_PAIRS)
    return min(seconds)


def sm_hz(first: Mark, last: Mark) -> float | None:
    """Mean clock between two marks, Hz; None where they are of two multiprocessors or no time passed between them."""
    passed = last.nanoseconds - first.nanoseconds
    if first.multiprocessor != last.multiprocessor or passed <= 0:
        return None
    return (last.cycles - first.cycles) / passed * 1e9


@dataclass
class Watch:
    """Times blocks of about `expected_s`, and marks them: inside the timed part where that weighs nothing, else around it,
    and not at all where blocks are short. Where `expected_s` is None they are marked around, and short ones do not count.

    `parts` equal parts of a block are marked too where that weighs nothing.
    """

    stamps: Stamps | None
    synchronize: Call
    now: Callable[[], float]
    expected_s: float | None
    pair_s: float
    parts: int = 1
    seen: list[list[Mark]] = field(default_factory=list)
    long: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self._free(self.parts):
            self.parts = 1

    @property
    def where(self) -> str | None:
        """`inside`, `outside`, or None where no mark is made."""
        if self.stamps is None or (self.expected_s is not None and self.expected_s < LEAST_BLOCK_S):
            return None
        return "inside" if self._free(1) else "outside"

    def timed(self, call: Call, times: int) -> float:
        """Seconds of `times` calls between two synchronisations of the device."""
        where, mark = self.where, self.stamps.mark if self.stamps else _no_mark
        if where == "outside":
            mark(0)
        self.synchronize()
        start = self.now()
        if where == "inside":
            mark(0)
        for part in range(self.parts):
            for _ in range(times // self.parts):
                call()
            if where == "inside":
                mark(part + 1)
        self.synchronize()
        seconds = self.now() - start
        if where == "outside":
            mark(1)
            self.synchronize()
        if where is not None and self.stamps is not None:
            self.seen.append(self.stamps.read(self.parts + 1))
            self.long.append(seconds >= LEAST_BLOCK_S)
        return seconds

    def clocks(self) -> list[float | None]:
        """Mean clock inside each block so far, Hz; None where the marks do not tell it."""
        return [sm_hz(marks[0], marks[-1]) if long else None for marks, long in zip(self.seen, self.long, strict=True)]

    def taken(self) -> dict[str, Any]:
        """The fields `clock` and `parts_s` of the series; nothing of a device that makes no marks."""
        if self.stamps is None:
            return {}
        valid = [hz for hz in self.clocks() if hz is not None]
        clock = {
            "sm_hz": median(valid) if valid else None,
            "sm_hz_low": min(valid, default=None),
            "sm_hz_high": max(valid, default=None),
            "pairs": len(valid),
            "where": self.where,
            "reason": None if valid else self._reason(),
        }
        return {"clock": clock, "parts_s": self._parts_s()}

    def _free(self, parts: int) -> bool:
        known = self.stamps is not None and self.expected_s is not None
        return known and self.pair_s / 2 * (parts + 1) < INSIDE_SHARE * (self.expected_s or 0.0)

    def _reason(self) -> str:
        if not any(self.long):
            return SHORT
        still = all(marks[-1].nanoseconds <= marks[0].nanoseconds for marks in self.seen)
        return STILL if still else OTHER_SM

    def _parts_s(self) -> list[float] | None:
        """Seconds of the parts of every block in order, by the device's timer; None where they were not marked."""
        if self.parts == 1 or self.where != "inside":
            return None
        edges = [[mark.nanoseconds for mark in marks] for marks in self.seen]
        return [(end - begin) / 1e9 for block in edges for begin, end in zip(block, block[1:], strict=False)]


@dataclass
class Track:
    """What a long run was like, block by block: when each began, and what the gauges said after some of them."""

    starts_s: list[float] = field(default_factory=list)
    gauges: list[dict[str, float | None]] = field(default_factory=list)

    def is_due(self, start_s: float) -> bool:
        """Whether the gauges have not been asked for some time."""
        asked = [at for at, gauges in zip(self.starts_s, self.gauges, strict=True) if gauges]
        return not asked or start_s - asked[-1] >= GAUGES_EVERY_S

    def note(self, start_s: float, gauges: dict[str, float | None]) -> None:
        """A block that began `start_s` after the run, and the gauges after it where they were asked."""
        self.starts_s.append(start_s)
        self.gauges.append(gauges)

    def power(self) -> dict[str, float]:
        """Mean watts by the energy counter; nothing for runs too short for it, or where the counter is refused."""
        told = [(at, joules) for at, each in zip(self.starts_s, self.gauges, strict=True)
                if (joules := each.get("energy_j")) is not None]  # fmt: skip
        if len(told) < 2:
            return {}
        (begin, first), (end, last) = told[0], told[-1]
        return {"power_w": (last - first) / (end - begin)} if last > first and end - begin >= LEAST_POWER_S else {}

    def columns(self, watch: Watch) -> dict[str, list[float | None]]:
        """The track as a series holds it, a value a block, null where it was not asked; what is not known at all is left out."""
        names = dict.fromkeys(name for each in self.gauges for name in each)
        clocks = {"sm_hz": watch.clocks()} if watch.seen else {}
        return {
            "start_s": [*self.starts_s],
            **{name: [each.get(name) for each in self.gauges] for name in names},
            **clocks,
        }


def _no_mark(slot: int) -> None:
    return None

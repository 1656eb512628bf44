"""What a chip holds for seconds: work over time across whole cycles of its power limit, with clock, temperature and watts.

Under a power limit the clock is a saw-tooth, so the median of its blocks depends on where the run ended. Work over time does
not, if it is taken from one rise of the block times above their mean to the last such rise.
"""

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from rooflab.record.types import Series

SETTLING = 1 / 3  # of the run, before the chip has warmed up


@dataclass(frozen=True)
class Held:
    """A sustained run: seconds of a launch, and means over the same blocks; None where the record holds none."""

    seconds_per_launch: float
    implementation: str
    sm_clock_hz: float | None
    temperature_c: float | None
    power_w: float | None


def held(series: Series) -> Held:
    """What a sustained series held after it settled. Power: the energy counter's, over the whole run."""
    samples, track = series["samples_s"], series.get("track")
    first, end = window(samples)
    launches = (end - first) * series["iterations_per_sample"]
    clocks, warmth = (track.get("sm_hz"), track.get("temperature_c")) if track else (None, None)
    power = series["chip"]["during"].get("power_w")
    return Held(
        sum(samples[first:end]) / launches,
        series["implementation"],
        _mean(clocks, first, end),
        _mean(warmth, first, end),
        float(power) if track is not None and power is not None else None,
    )


def window(samples_s: list[float]) -> tuple[int, int]:
    """First block and the one after the last of the whole cycles after settling; all settled blocks where there is no cycle."""
    settled = int(len(samples_s) * SETTLING)
    level = fmean(samples_s[settled:])
    pairs = enumerate(pairwise(samples_s[settled:]), settled + 1)
    rises = [place for place, (before, after) in pairs if before <= level < after]
    return (rises[0], rises[-1]) if len(rises) > 1 else (settled, len(samples_s))


def _mean(values: list[float | None] | None, first: int, end: int) -> float | None:
    known = [each for each in (values or [])[first:end] if each is not None]
    return fmean(known) if known else None

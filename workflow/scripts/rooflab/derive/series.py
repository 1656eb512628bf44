"""A timed series: seconds of each launch, their percentiles, what was verified, and what the chip said meanwhile."""

from collections.abc import Mapping
from typing import TypedDict

from rooflab.record.types import Record, Series
from rooflab.theory.quantiles import median, percentile
from rooflab.theory.recorded import seconds_per_launch

LEAST_SAMPLES = 5  # that a ceiling rests on
POWER_CAP = "swpowercap"
IDLE = "gpu_idle"  # a chip between two blocks: no reason for a low clock under load


class Times(TypedDict):
    """Order statistics of one launch, seconds."""

    median_s: float
    p10_s: float
    p90_s: float


def median_s(series: Series) -> float:
    """The median launch, seconds."""
    return median(seconds_per_launch(series))


def times(series: Series) -> Times:
    """Median, 10th and 90th percentile of one launch, seconds."""
    seconds = seconds_per_launch(series)
    return {"median_s": median(seconds), "p10_s": percentile(seconds, 10), "p90_s": percentile(seconds, 90)}


def rate_spread(series: Series, amount: float) -> list[float]:
    """`amount` (FLOP or bytes of a launch) over the 90th and over the 10th percentile: the slow end first."""
    known = times(series)
    return [amount / known["p90_s"], amount / known["p10_s"]]


def named(record: Record, name: str) -> Series | None:
    """The series of a record with that name."""
    return next((series for series in record["series"] if series["name"] == name), None)


def verified(series: Series) -> bool:
    """Whether the result of what was timed was compared with float64 and lay within its tolerance."""
    error, tolerance = series["relative_error"], series["tolerance"]
    return error is not None and tolerance is not None and error <= tolerance


def refuted(series: Series) -> bool:
    """Whether the comparison was made and failed."""
    return series["relative_error"] is not None and not verified(series)


def brakes(series: Series) -> list[str] | None:
    """Why the driver held the clocks down under the load of a series; None where it does not say.

    What was set before the first sample proves nothing about a series of milliseconds; after seconds of load it does.
    """
    during, before = (series["chip"][when].get("throttle_reasons") for when in ("during", "before"))
    if during is None:
        return None
    old = () if series["name"].startswith("sustained") else before or ()
    return [str(each) for each in during if each != IDLE and each not in old]


def is_power_capped(series: Series) -> bool | None:
    """Whether the power limit held the clocks down under load; None where the chip does not say."""
    reasons = brakes(series)
    if reasons is None:
        return None
    return any(POWER_CAP in "".join(filter(str.isalnum, reason)).lower() for reason in reasons)


def fraction(value: float | None, whole: float | None) -> float | None:
    """value / whole, None where either is unknown."""
    return value / whole if value is not None and whole else None


def extremes(values: Mapping[str, float | None]) -> list[str]:
    """The keys of the smallest and the largest value; none where a value is not known."""
    known = {key: value for key, value in values.items() if value is not None}
    if not known or len(known) < len(values):
        return []
    return list(dict.fromkeys(end(known, key=known.__getitem__) for end in (min, max)))

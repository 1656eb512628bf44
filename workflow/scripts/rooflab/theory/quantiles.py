"""Order statistics of timed samples, in plain Python: a median and percentiles, because timing noise is one-sided."""

from collections.abc import Sequence


def percentile(samples: Sequence[float], percent: float) -> float:
    """The value below which `percent` (0 to 100) of the samples lie, linear between neighbours.

    Raises ValueError for no samples or another percentage.
    """
    if not samples or not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent} of {len(samples)} samples: expected 0 to 100 of at least one sample")
    ordered = sorted(samples)
    rank = (len(ordered) - 1) * percent / 100
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def median(samples: Sequence[float]) -> float:
    """The middle sample, in the unit of the samples."""
    return percentile(samples, 50)


def spread(samples: Sequence[float]) -> float:
    """Distance from the 10th to the 90th percentile as a fraction of the median; 0 where the median is 0."""
    middle = median(samples)
    return (percentile(samples, 90) - percentile(samples, 10)) / middle if middle else 0.0

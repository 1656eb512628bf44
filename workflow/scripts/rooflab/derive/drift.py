"""Trends in the order of samples: a chip that slows down while it is measured hides inside a median."""

from math import sqrt

from rooflab.derive.told import told
from rooflab.record.types import Records, Series, Told
from rooflab.theory.quantiles import median

FEWEST = 5  # samples: of fewer, no order tells anything
CERTAIN = (
    2.58  # standard deviations of the rank correlation of samples in no order: beyond it by chance once in a hundred
)
NEARLY_ALL = 0.97  # of a perfect order: what is asked of so few samples that chance cannot be told otherwise
WORTH_SAYING = 0.05  # of the median, from the first third to the last


def drifts(records: Records) -> list[Told]:
    """One a side, stage and series whose samples rise or fall in their order, and by how much; a sustained run shall."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records.values():
        for series in record["series"]:
            change = 0.0 if series["name"].startswith("sustained") else trend(in_order(series))
            if abs(change) > WORTH_SAYING:
                found.setdefault((f"{record['side']}/{record['stage']}", series["name"]), []).append(change)
    return [
        told("drift", where=where, series=series, share=max(map(abs, changes)), count=len(changes))
        for (where, series), changes in sorted(found.items())
    ]


def in_order(series: Series) -> list[float]:
    """The samples in the order they were taken; of a single one the parts of it, where they were told apart."""
    parts = series.get("parts_s")
    return parts if len(series["samples_s"]) == 1 and parts else series["samples_s"]


def trend(samples: list[float]) -> float:
    """How much longer the last third takes than the first, as a fraction of the median; 0 where the order shows no trend.

    The test is Spearman's rank correlation of value and place.
    """
    count = len(samples)
    if count < FEWEST or not median(samples):
        return 0.0
    correlation = _rank_correlation(samples)
    if abs(correlation) < min(NEARLY_ALL, CERTAIN / sqrt(count - 1)):
        return 0.0
    third = max(1, count // 3)
    return (median(samples[-third:]) - median(samples[:third])) / median(samples)


def _rank_correlation(samples: list[float]) -> float:
    """Spearman's: the correlation of a sample's rank with its place, ties at the mean of their ranks; 0 where all are equal."""
    count, ranks = len(samples), [0.0] * len(samples)
    order = sorted(range(count), key=lambda place: samples[place])
    first = 0
    while first < count:
        last = first
        while last + 1 < count and samples[order[last + 1]] == samples[order[first]]:
            last += 1
        for place in order[first : last + 1]:
            ranks[place] = (first + last) / 2
        first = last + 1
    middle = (count - 1) / 2
    shared = sum((rank - middle) * (place - middle) for place, rank in enumerate(ranks))
    spread = sum((rank - middle) ** 2 for rank in ranks) * sum((place - middle) ** 2 for place in range(count))
    return shared / sqrt(spread) if spread else 0.0

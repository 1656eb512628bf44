"""Sessions side by side: what each costs per unit of work, and which is slower than it should be.

Two questions, one rule. *Regression*: a card (or a CPU of one model) against its own latest earlier session.
*Straggler*: a card against the median of its siblings, the other cards of its model. A loss counts only if it exceeds
the threshold and the samples of the two lie apart: the fastest of the slow one slower than the slowest of the other.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rooflab.fleet.causes import likely_causes
from rooflab.fleet.sessions import Figure, Record, Session, record_of, series_of, speed_range

FREE_TO_DIFFER = ("n",)  # a ceiling is the best over the sizes: two cards may have it at different ones


@dataclass(frozen=True)
class Finding:
    """A figure of a session that lags behind its reference's; `loss` is the fraction of speed lost."""

    kind: str  # regression or straggler
    session: Session
    figure: Figure
    reference: Session
    wanted: Figure
    loss: float
    causes: tuple[str, ...]


Pair = tuple[str, Session, Figure, Session, Figure]


def findings(sessions: Iterable[Session], threshold: float) -> list[Finding]:
    """Every figure that is slower than its reference by the rule above, the worst first."""
    made = []
    for cards in by_model(sessions).values():
        for pair in [*_over_time(cards), *_against_siblings(cards)]:
            finding = _judged(pair, threshold)
            if finding is not None:
                made.append(finding)
    return sorted(made, key=lambda f: (-f.loss, f.session.name, f.figure.id))


def by_model(sessions: Iterable[Session]) -> dict[str, list[Session]]:
    """The sessions of each model, in the order they were measured."""
    groups: dict[str, list[Session]] = defaultdict(list)
    for each in sorted(sessions, key=lambda each: each.order):
        groups[each.model].append(each)
    return dict(sorted(groups.items()))


def _over_time(cards: Sequence[Session]) -> Iterator[Pair]:
    """Each session and the one before it of the same card; a CPU has no name of its own but its model's."""
    last: dict[str | None, Session] = {}
    for each in cards:
        before = last.get(each.uuid)
        for figure in each.figures.values() if before else ():
            wanted = before.figures.get(figure.id) if before else None
            if before and wanted:
                yield "regression", each, figure, before, wanted
        last[each.uuid] = each


def _against_siblings(cards: Sequence[Session]) -> Iterator[Pair]:
    """The latest session of each card, and for each figure the sibling in the middle of the other cards."""
    latest = {each.uuid: each for each in cards if each.uuid is not None}
    measured: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for each in latest.values():
        for figure in each.figures.values():
            measured[figure.id].append((figure.speed, str(each.uuid)))
    ordered = {figure: sorted(speeds) for figure, speeds in measured.items()}
    for card in latest.values():
        for figure in card.figures.values():
            middle = _middle_of_others(ordered[figure.id], (figure.speed, str(card.uuid)))
            if middle is not None:
                yield "straggler", card, figure, latest[middle], latest[middle].figures[figure.id]


def _middle_of_others(ordered: Sequence[tuple[float, str]], own: tuple[float, str]) -> str | None:
    """Of all but `own`, the one in the middle, the slower of two; None for a card without siblings."""
    if len(ordered) < 2:
        return None
    place = (len(ordered) - 2) // 2
    return ordered[place if place < bisect_left(ordered, own) else place + 1][1]


def _judged(pair: Pair, threshold: float) -> Finding | None:
    kind, session, figure, reference, wanted = pair
    loss = 1 - figure.speed / wanted.speed
    if loss <= threshold or _overlap(figure.likely, wanted.likely):
        return None
    slow, good = _opened(session, figure), _opened(reference, wanted)
    if slow is None or good is None or _parameters(slow[0]) != _parameters(good[0]):
        return None
    if speed_range(slow[1], figure)[1] >= speed_range(good[1], wanted)[0]:
        return None
    causes = likely_causes(slow, good, session.device_record, reference.device_record)
    return Finding(kind, session, figure, reference, wanted, loss, tuple(causes))


def _overlap(slow: tuple[float, float] | None, good: tuple[float, float] | None) -> bool:
    """Percentiles that already overlap spare the reading of two records."""
    return slow is not None and good is not None and slow[1] >= good[0]


@lru_cache(maxsize=256)
def _opened(session: Session, figure: Figure) -> tuple[Record, Record] | None:
    """The record and the series behind a figure; the card in the middle is asked for again and again."""
    record = record_of(session, figure)
    series = series_of(record, figure) if record is not None else None
    return (record, series) if record is not None and series is not None else None


def _parameters(record: Record) -> dict[str, Any]:
    return {key: value for key, value in record["spec"].items() if key not in FREE_TO_DIFFER}


def costs(session: Session) -> dict[str, Any]:
    """Dollars per 1e15 FLOP at each dtype's sustained rate (the burst's where it was not measured), and per 1e12 bytes read."""
    per_second = session.price_usd_per_hour / 3600 if session.price_usd_per_hour is not None else None
    rates = {_name(each): each["sustained"] or each["burst"] for each in session.ceilings if each["kind"] == "compute"}
    read = main_memory(session.ceilings)
    return {
        "price_usd_per_hour": session.price_usd_per_hour,
        "usd_per_pflop": {name: per_second * 1e15 / rate for name, rate in rates.items()}
        if per_second is not None
        else {},
        "usd_per_tb": per_second * 1e12 / read["burst"] if per_second is not None and read is not None else None,
    }


def main_memory(ceilings: Sequence[Record]) -> Record | None:
    """The main memory's slope, read where it was measured; None without any."""
    slopes = [each for each in ceilings if each["kind"] == "memory" and each["tier"] in ("HBM", "DRAM")]
    return min(slopes, key=lambda each: (each["pattern"] != "read", -each["burst"]), default=None)


def _name(ceiling: Mapping[str, Any]) -> str:
    return str(ceiling.get("variant") or ceiling["dtype"])

"""Sessions side by side: what each costs per unit of work, and which card is slower than it should be.

Two questions, one rule. *Regression*: a card (or a CPU of one model) against its own latest earlier session. *Straggler*: a
card against its siblings, the other cards of its model, each figure against the sibling in the middle. One figure *lags* if
it lost more than the threshold and the samples of the two lie apart: the fastest of the slow one slower than the slowest of
the other. One figure judges no card: of twenty, one lies 5 % off by chance on a healthy one. A card is slower where more than
half of the figures of one kind (computing, sustained computing, memory, decode steps) lag.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rooflab.fleet.causes import likely_causes
from rooflab.fleet.sessions import Figure, Session, record_of, series_of, speed_range
from rooflab.record.types import Json
from rooflab.theory.quantiles import median

FREE_TO_DIFFER = ("n",)  # a ceiling is the best over the sizes: two cards may have it at different ones
FEWEST = 2  # figures of a kind by which a card is judged


@dataclass(frozen=True)
class Pair:
    """A figure of a session and the one it is held against; `loss` is the fraction of speed lost, below 0 for a gain."""

    kind: str  # regression or straggler
    session: Session
    figure: Figure
    reference: Session
    wanted: Figure

    @property
    def loss(self) -> float:
        return 1 - self.figure.speed / self.wanted.speed


@dataclass(frozen=True)
class Slowness:
    """One kind of figure in which a card is slower: how many of those compared lag, and the middle of their losses."""

    figure_kind: str
    lagging: int
    compared: int
    loss: float


@dataclass(frozen=True)
class Finding:
    """The judgement on one card: the kinds in which it is slower, its lagging figures, the worst first, and why."""

    kind: str
    session: Session
    slow_in: tuple[Slowness, ...]
    lags: tuple[Pair, ...]
    causes: tuple[str, ...]
    differs: tuple[str, ...]

    @property
    def loss(self) -> float:
        return max(each.loss for each in self.slow_in)


def findings(sessions: Iterable[Session], threshold: float) -> list[Finding]:
    """Every card that is slower than its reference by the rule above, the worst first."""
    made = []
    for cards in by_model(sessions).values():
        for pairs in (*_over_time(cards), *_against_siblings(cards)):
            finding = _judged(pairs, threshold)
            if finding is not None:
                made.append(finding)
    return sorted(made, key=lambda f: (-f.loss, f.session.name))


def slow_kinds(lags: Mapping[str, Sequence[float]], compared: Mapping[str, int]) -> tuple[Slowness, ...]:
    """The judgement itself, the worst kind first. `lags`: the losses of the figures that lag; `compared`: how many figures
    of each kind both cards have."""
    made = [
        Slowness(kind, len(losses), compared[kind], median(losses))
        for kind, losses in lags.items()
        if compared[kind] >= FEWEST and 2 * len(losses) > compared[kind]
    ]
    return tuple(sorted(made, key=lambda each: -each.loss))


def by_model(sessions: Iterable[Session]) -> dict[str, list[Session]]:
    """The sessions of each model, in the order they were measured."""
    groups: dict[str, list[Session]] = defaultdict(list)
    for each in sorted(sessions, key=lambda each: each.order):
        groups[each.model].append(each)
    return dict(sorted(groups.items()))


def _over_time(cards: Sequence[Session]) -> Iterator[list[Pair]]:
    """Each session and the one before it of the same card; a CPU has no name of its own but its model's."""
    last: dict[str | None, Session] = {}
    for each in cards:
        before = last.get(each.uuid)
        if before:
            both = [figure for figure in each.figures.values() if figure.id in before.figures]
            yield [Pair("regression", each, figure, before, before.figures[figure.id]) for figure in both]
        last[each.uuid] = each


def _against_siblings(cards: Sequence[Session]) -> Iterator[list[Pair]]:
    """The latest session of each card, and for each figure the sibling in the middle of the other cards."""
    latest = {each.uuid: each for each in cards if each.uuid is not None}
    measured: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for each in latest.values():
        for figure in each.figures.values():
            measured[figure.id].append((figure.speed, str(each.uuid)))
    ordered = {figure: sorted(speeds) for figure, speeds in measured.items()}
    for card in latest.values():
        pairs = []
        for figure in card.figures.values():
            middle = _middle_of_others(ordered[figure.id], (figure.speed, str(card.uuid)))
            if middle is not None:
                pairs.append(Pair("straggler", card, figure, latest[middle], latest[middle].figures[figure.id]))
        yield pairs


def _middle_of_others(ordered: Sequence[tuple[float, str]], own: tuple[float, str]) -> str | None:
    """Of all but `own`, the one in the middle, the slower of two; None for a card without siblings."""
    if len(ordered) < 2:
        return None
    place = (len(ordered) - 2) // 2
    return ordered[place if place < bisect_left(ordered, own) else place + 1][1]


def _judged(pairs: Sequence[Pair], threshold: float) -> Finding | None:
    """One card against its references; records are opened only for figures that may lag."""
    lags: dict[str, list[Pair]] = defaultdict(list)
    compared: dict[str, int] = defaultdict(int)
    for pair in pairs:
        compared[pair.figure.kind] += 1
        if pair.loss > threshold:
            alike = _same_parameters(pair)
            compared[pair.figure.kind] -= not alike
            if alike and _apart(pair):
                lags[pair.figure.kind].append(pair)
    slow = slow_kinds({kind: [pair.loss for pair in own] for kind, own in lags.items()}, compared)
    if not slow:
        return None
    worst = sorted((pair for each in slow for pair in lags[each.figure_kind]), key=lambda pair: -pair.loss)
    causes, differs = _explained(worst)
    return Finding(worst[0].kind, worst[0].session, slow, tuple(worst), causes, differs)


def _explained(worst: Sequence[Pair]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(causes with evidence in the records, what else differs) of the lagging figures, each told once."""
    causes: dict[str, None] = {}
    differs: dict[str, None] = {}
    for pair in worst:
        slow, good = _opened(pair.session, pair.figure), _opened(pair.reference, pair.wanted)
        if slow is not None and good is not None:
            devices = (pair.session.device_record, pair.reference.device_record)
            found, other = likely_causes(slow, good, *devices, pair.loss)
            causes |= dict.fromkeys(found)
            differs |= dict.fromkeys(other)
    return tuple(causes), tuple(differs)


def _same_parameters(pair: Pair) -> bool:
    slow, good = _opened(pair.session, pair.figure), _opened(pair.reference, pair.wanted)
    return slow is not None and good is not None and _parameters(slow[0]) == _parameters(good[0])


def _apart(pair: Pair) -> bool:
    """Whether the fastest sample of the slow figure is slower than the slowest of the other."""
    slow, good = _opened(pair.session, pair.figure), _opened(pair.reference, pair.wanted)
    if slow is None or good is None:
        return False
    return speed_range(slow[1], pair.figure)[1] < speed_range(good[1], pair.wanted)[0]


@lru_cache(maxsize=256)
def _opened(session: Session, figure: Figure) -> tuple[Json, Json] | None:
    """The record and the series behind a figure; the card in the middle is asked for again and again."""
    record = record_of(session, figure)
    series = series_of(record, figure) if record is not None else None
    return (record, series) if record is not None and series is not None else None


def _parameters(record: Json) -> dict[str, Any]:
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


def main_memory(ceilings: Sequence[Json]) -> Json | None:
    """The main memory's slope, read where it was measured; None without any."""
    slopes = [each for each in ceilings if each["kind"] == "memory" and each["tier"] in ("HBM", "DRAM")]
    return min(slopes, key=lambda each: (each["pattern"] != "read", -each["burst"]), default=None)


def _name(ceiling: Mapping[str, Any]) -> str:
    return str(ceiling.get("variant") or ceiling["dtype"])

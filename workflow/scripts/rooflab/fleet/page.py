"""The comparison as a document (`compare.json`), as a page (`compare.md`) and as lines for the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rooflab.fleet.compare import Finding, Pair, by_model, costs, main_memory
from rooflab.fleet.sessions import Session, paid_together
from rooflab.look import words
from rooflab.record.names import format_of_lab_step
from rooflab.record.types import Json
from rooflab.theory.quantiles import median

COMPARE_VERSION = 2  # 2: one finding a card, with the kinds in which it is slower and its lagging figures
ROWS = 24  # a model with more sessions is told by its middle, its slowest and its fastest
KIND = {"burst": "computing", "sustained": "sustained computing", "bandwidth": "memory", "decode": "decode steps"}
UNIT = {"flop_per_s": words.flop_per_s, "bytes_per_s": words.bytes_per_s, "s": words.seconds}


def document(
    sessions: Sequence[Session], broken: Mapping[str, str], found: Sequence[Finding], threshold: float
) -> Json:
    """Everything the page and the chart say, SI base units."""
    return {
        "schema": "compare",
        "schema_version": COMPARE_VERSION,
        "threshold": threshold,
        "models": [_model(name, cards) for name, cards in by_model(sessions).items()],
        "sessions": [_session(each) for cards in by_model(sessions).values() for each in cards],
        "findings": [_finding(each) for each in found],
        "broken": [{"session": name, "reason": reason} for name, reason in sorted(broken.items())],
        "paid": paid_together(each.folder for each in sessions),
    }


def _model(name: str, cards: Sequence[Session]) -> Json:
    ids = dict.fromkeys(figure for card in cards for figure in card.figures)
    return {
        "model": name,
        "side": cards[0].side,
        "sessions": [card.name for card in cards],
        "cards": len({card.uuid or card.model for card in cards}),
        "figures": [_spread(each, [card for card in cards if each in card.figures]) for each in ids],
    }


def _spread(figure: str, cards: Sequence[Session]) -> Json:
    """How one figure spreads over the cards of a model, and which are its ends."""
    ordered = sorted(cards, key=lambda card: card.figures[figure].speed)
    example = ordered[0].figures[figure]
    return {
        "id": figure,
        "kind": example.kind,
        "label": example.label,
        "unit": example.unit,
        "median": median([card.figures[figure].value for card in cards]),
        "slowest": {"session": ordered[0].name, "value": example.value},
        "fastest": {"session": ordered[-1].name, "value": ordered[-1].figures[figure].value},
    }


def _session(each: Session) -> Json:
    return {
        "session": each.name,
        "model": each.model,
        "side": each.side,
        "uuid": each.uuid,
        "measured_at": each.measured_at,
        "main_memory": main_memory(each.ceilings),
        "ceilings": each.ceilings,
        "decode": each.decode,
        **costs(each),
        "paid": each.paid,
    }


def _finding(each: Finding) -> Json:
    return {
        "kind": each.kind,
        "session": each.session.name,
        "loss": each.loss,
        "slow_in": [
            {"figure_kind": kind.figure_kind, "lagging": kind.lagging, "compared": kind.compared, "loss": kind.loss}
            for kind in each.slow_in
        ],
        "figures": [_lag(pair) for pair in each.lags],
        "causes": list(each.causes),
        "differs": list(each.differs),
    }


def _lag(pair: Pair) -> Json:
    return {
        "figure": pair.figure.id,
        "figure_kind": pair.figure.kind,
        "label": f"{pair.figure.label} {pair.figure.kind}",
        "unit": pair.figure.unit,
        "value": pair.figure.value,
        "reference": pair.reference.name,
        "reference_value": pair.wanted.value,
        "loss": pair.loss,
        "files": [pair.figure.file, pair.wanted.file],
    }


def judgement(finding: Json) -> str:
    """The judgement on one card: in what it is slower, and by how much."""
    told = (
        f"{words.percent(kind['loss'])} in {KIND[kind['figure_kind']]} ({kind['lagging']} of {kind['compared']} figures)"
        for kind in finding["slow_in"]
    )
    return f"slower by {', '.join(told)}"


def reasons(finding: Json) -> str:
    """The causes that the records prove, and what else differs between them."""
    why = f"cause: {'; '.join(finding['causes'])}" if finding["causes"] else "the records show no cause"
    return f"{why}. Also differs: {'; '.join(finding['differs'])}" if finding["differs"] else why


def lag(figure: Json) -> str:
    """One lagging figure against its reference."""
    show = UNIT[figure["unit"]]
    return (
        f"{figure['label']}: {show(figure['value'])}, {words.percent(figure['loss'])} slower than "
        f"{figure['reference']} ({show(figure['reference_value'])})"
    )


def terminal(made: Json) -> list[str]:
    """The verdict in a few lines: the slow cards, the broken sessions, the sum."""
    lines = []
    for finding in made["findings"]:
        lines.append(f"{finding['kind'].upper()} {finding['session']}: {judgement(finding)}")
        lines += [f"  {each}" for each in (*map(lag, _worst_of_each_kind(finding["figures"])), reasons(finding))]
    lines += [f"broken {each['session']}: {each['reason']}" for each in made["broken"]]
    models = f"{len(made['sessions'])} session(s) of {len(made['models'])} model(s)"
    slow = len({each["session"] for each in made["findings"]})
    verdict = f"{slow} slower than its reference" if slow else "none slower than its reference"
    limit = words.exact_percent(made["threshold"])
    return [*lines, f"{models}: {verdict} by more than {limit} in most figures of a kind, their samples apart"]


def _worst_of_each_kind(figures: Sequence[Json]) -> list[Json]:
    """Of a card's lagging figures the first of every kind: the rest stands in the document."""
    worst: dict[str, Json] = {}
    for each in figures:
        worst.setdefault(each["figure_kind"], each)
    return list(worst.values())


def page(made: Json) -> str:
    """`compare.md`."""
    parts = ["# Sessions compared", "\n".join(["", *_verdict(made)])]
    for model in made["models"]:
        rows = [each for each in made["sessions"] if each["model"] == model["model"]]
        parts.append(f"\n## {model['model']}\n")
        parts += ["\n".join(_rows(rows, made["findings"]))] if len(rows) <= ROWS else ["\n".join(_summary(model))]
    parts.append(f"\n{_paid(made['paid'])}. Every figure: `compare.json`.\n")
    return "\n".join(parts)


def _paid(paid: Json) -> str:
    """Seconds and dollars of all sessions; the dollars leave out the runs without a price, which are counted."""
    told = f"Measured in {paid['seconds']:.0f} s over all sessions"
    if paid["usd"] is None:
        return told
    missing = paid["runs_without_price"]
    return f"{told}, ${paid['usd']:.4f}" + (f" without {missing} run(s) whose price is not known" if missing else "")


def _verdict(made: Json) -> Iterator[str]:
    yield (
        f"{len(made['sessions'])} session(s) of {len(made['models'])} model(s). A figure lags if it lies more than "
        f"{words.exact_percent(made['threshold'])} below its reference and the samples lie apart; a card is slower where more "
        "than half of its figures of one kind lag. *Straggler*: each figure against the sibling in the middle. "
        "*Regression*: against the same card's session before.\n"
    )
    for finding in made["findings"]:
        yield f"- **{finding['kind']}: {finding['session']}**, {judgement(finding)}; {reasons(finding)}"
        yield from (f"  - {lag(each)}" for each in _worst_of_each_kind(finding["figures"]))
    if not made["findings"]:
        yield "- none is slower than its reference"
    for each in made["broken"]:
        yield f"- *not compared*: `{each['session']}`: {each['reason']}"


def _rows(rows: Sequence[Json], found: Sequence[Json]) -> Iterator[str]:
    """One row per session: ceilings as burst (sustained), main memory, the longest step per dtype, dollars."""
    tops = list(dict.fromkeys(_name(c) for row in rows for c in row["ceilings"] if c["kind"] == "compute"))
    steps = list(dict.fromkeys(name for row in rows for name in _steps(row)))
    priced = any(row["price_usd_per_hour"] is not None for row in rows)
    head = ["session", "measured", *(f"{name} TFLOP/s" for name in tops), "memory GB/s", *(f"{s} µs" for s in steps)]
    head += ["$/h", *(f"$/PFLOP {name}" for name in tops), "$/TB"] if priced else []
    slow = {each["session"] for each in found}
    yield _line(head)
    yield _line(["---"] * len(head))
    for row in rows:
        by_name = {_name(c): c for c in row["ceilings"] if c["kind"] == "compute"}
        memory, measured = row["main_memory"], _steps(row)
        cells = [row["session"] + (" **slow**" if row["session"] in slow else ""), row["measured_at"][:10] or "–"]
        cells += [_top(by_name.get(name)) for name in tops]
        cells.append(words.significant(memory["burst"] / 1e9) if memory else "–")
        cells += [words.significant(measured[s] * 1e6) if s in measured else "–" for s in steps]
        if priced:
            cells += [_usd(row["price_usd_per_hour"]), *(_usd(row["usd_per_pflop"].get(name)) for name in tops)]
            cells.append(_usd(row["usd_per_tb"]))
        yield _line(cells)


def _summary(model: Json) -> Iterator[str]:
    """A model with many cards: every figure's middle and its two ends."""
    yield f"{len(model['sessions'])} sessions of {model['cards']} card(s).\n"
    yield _line(["figure", "median", "slowest", "its session", "fastest", "its session"])
    yield _line(["---"] * 6)
    for each in model["figures"]:
        show = UNIT[each["unit"]]
        ends = [cell for end in ("slowest", "fastest") for cell in (show(each[end]["value"]), each[end]["session"])]
        yield _line([f"{each['label']} {each['kind']}", show(each["median"]), *ends])


def _steps(row: Json) -> dict[str, float]:
    """The lab's MiniGPT step at the longest S of each dtype, seconds by `fp16 S=1024`."""
    found: dict[str, Json] = {}
    for each in row["decode"]:
        longest = found.get(each["dtype"], {"sequence": 0})["sequence"]
        if each["lab_point"] and format_of_lab_step(each["name"]) and each["sequence"] > longest:
            found[each["dtype"]] = each
    return {f"{each['dtype']} S={each['sequence']}": each["median_s"] for each in found.values()}


def _name(ceiling: Mapping[str, Any]) -> str:
    return str(ceiling["variant"] or ceiling["dtype"])


def _top(ceiling: Json | None) -> str:
    if ceiling is None:
        return "–"
    held = f" ({words.significant(ceiling['sustained'] / 1e12)})" if ceiling["sustained"] else ""
    return words.significant(ceiling["burst"] / 1e12) + held


def _usd(value: float | None) -> str:
    return "–" if value is None else words.significant(value)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

"""The page of what models would do on the measured cards: `predict.json` in Markdown. Figures are quoted, not computed."""

from typing import Any

from rooflab.explain.markdown import NOTHING, bound, cache, scheme, table, told
from rooflab.explain.model_line import count
from rooflab.look import words
from rooflab.look.style import Record

HOW = (
    "Nothing here was measured with these models. *By the roof*: every part of a step at the memory and compute ceilings that "
    "the session measured, with the bytes of the checkpoint as it is stored. The range: what measured parts of that size lost "
    "beyond their roof on the same card, the furthest out left aside, and {margin} on either side. ms/token is the time between "
    "two tokens of a sequence; $ is per million generated tokens. One card; memory without what a serving engine keeps for "
    "itself."
)


def page(document: Record) -> str:
    """The whole page: which card for which model first, then every step."""
    lines = ["# What these models would do", "", HOW.format(margin=words.exact_percent(document["margin"])), ""]
    lines += ["## Which card", "", *_best_table(document), "", *_aside(document["sessions"])]
    for model in document["models"]:
        lines += _section(model, [each for each in document["predictions"] if _is_of(each, model)])
    return "\n".join([*lines, f"Left out: {'; '.join(document['left_out'])}.", ""])


def terminal(document: Record) -> list[str]:
    """The best step of each model on each card at the longest context, for the terminal."""
    made = []
    for model in document["models"]:
        mine = [each for each in document["predictions"] if _is_of(each, model)]
        longest = max((each["sequence"] for each in mine), default=None)
        for each in (one for one in mine if one["sequence"] == longest):
            best = _best(each)
            speed = f"{_tokens(best)} tokens/s at batch {best['batch']}" if best else each["reason"] or "no batch fits"
            made.append(f"  {model['name']} on {each['session']}, S {longest}: {speed}")
    return made


def _is_of(prediction: Record, model: Record) -> bool:
    return all(prediction[key] == model[other] for key, other in (("model", "name"), ("dtype",) * 2, ("kv_dtype",) * 2))


def _best(prediction: Record) -> Record | None:
    """The batch that gives most tokens per second among those that fit."""
    fitting = [each for each in prediction["steps"] if each["fits"] is not False]
    return max(fitting, key=lambda each: float(each["roof_tokens_per_s"]), default=None)


BEST_HEAD = ("model", "S", "session", "weights", "sequences that fit", "batch", "ms/token", "tokens/s", "by the roof", "bound",
             "$ per million")  # fmt: skip


def _best_table(document: Record) -> list[str]:
    """One row per model, context and session: the fastest batch that fits; the cheapest session first where prices are known,
    else the fastest."""
    rows: list[tuple[str, ...]] = []
    for model in document["models"]:
        mine = [each for each in document["predictions"] if _is_of(each, model)]
        for sequence in sorted({each["sequence"] for each in mine}):
            here = [each for each in mine if each["sequence"] == sequence]
            rows += [_best_row(model, each) for each in sorted(here, key=_order)]
    return table(BEST_HEAD, rows)


def _order(prediction: Record) -> tuple[bool, float]:
    best = _best(prediction)
    if best is None:
        return True, 0.0
    usd = best["roof_usd_per_million_tokens"]
    return usd is None, usd if usd is not None else -float(best["roof_tokens_per_s"])


def _best_row(model: Record, each: Record) -> tuple[str, ...]:
    best = _best(each)
    head = (model["name"], str(each["sequence"]), each["session"], words.nbytes(model["weight_bytes"]))
    if best is None:
        return (*head, str(each["sequences_that_fit"]), NOTHING, each["reason"] or "no batch fits", *[NOTHING] * 4)
    return (
        *head,
        told(each["sequences_that_fit"]),
        str(best["batch"]),
        _milliseconds(best),
        _tokens(best),
        count(best["roof_tokens_per_s"]),
        bound(best["bound_by"]),
        _usd(best),
    )


STEP_HEAD = ("session", "S", "batch", "ms/token", "by the roof", "tokens/s", "by the roof", "bound", "attention", "$ per million",
             "fits")  # fmt: skip


def _section(model: Record, mine: list[Record]) -> list[str]:
    rows = [_step_row(each, step) for each in mine for step in each["steps"]]
    return [f"## {model['name']}", "", _facts(model), "", *_notes(model, mine), *table(STEP_HEAD, rows), ""]


def _facts(model: Record) -> str:
    stored = model["stored"]
    where = f" as stored in {scheme(stored)}" if stored else f" in {model['dtype']}"
    active = model["active_parameters"]
    share = f", {_billions(active)} of them for a token" if active < 0.9 * model["parameters"] else ""
    tied = ", the embedding shared with the LM head" if model["tied"] else ""
    return (
        f"{_billions(model['parameters'])} parameters{share}{tied}: {words.nbytes(model['weight_bytes'])}{where}. Cache: "
        f"{words.nbytes(model['kv_bytes_per_token'])} a token in {cache(stored, model['kv_dtype'])}; context "
        f"up to {model['context']}{_beyond(model)}."
    )


def _beyond(model: Record) -> str:
    lengths = ", ".join(map(str, model["beyond_context"]))
    return f", so that S {lengths} is left out" if lengths else ""


def _notes(model: Record, mine: list[Record]) -> list[str]:
    notes = list(dict.fromkeys(note for each in mine for note in each["notes"]))
    if model["stored"]:
        notes.append(
            f"no product on weights in {model['stored']['method']} was measured: the range takes what products in the measured "
            "formats lost at the same time by the roof"
        )
    return [*(f"- {note}" for note in notes), ""] if notes else []


def _step_row(prediction: Record, step: Record) -> tuple[str, ...]:
    return (
        prediction["session"],
        str(prediction["sequence"]),
        str(step["batch"]),
        _milliseconds(step),
        words.significant(step["roof_s"] * 1e3),
        _tokens(step),
        count(step["roof_tokens_per_s"]),
        bound(step["bound_by"]),
        words.percent(step["attention_share"]),
        _usd(step),
        {True: "yes", False: "no", None: NOTHING}[step["fits"]],
    )


def _aside(sessions: list[Record]) -> list[str]:
    lines = [f"- {each['session']}: {each['reason']}" for each in sessions if each["reason"]]
    return ["Left aside:", "", *lines, ""] if lines else []


def _milliseconds(step: Record) -> str:
    return _range(step["low_s"], step["high_s"], lambda value: words.significant(value * 1e3))


def _tokens(step: Record) -> str:
    return _range(step["high_tokens_per_s"], step["low_tokens_per_s"], count)


def _usd(step: Record) -> str:
    ends = step["low_usd_per_million_tokens"], step["high_usd_per_million_tokens"]
    if ends[0] is None and step["roof_usd_per_million_tokens"] is not None:
        return f"from {words.significant(step['roof_usd_per_million_tokens'])}"
    return _range(*ends, words.significant)


def _range(low: float | None, high: float | None, how: Any) -> str:
    if low is None or high is None:
        return NOTHING
    return how(low) if how(low) == how(high) else f"{how(low)}–{how(high)}"


def _billions(value: float) -> str:
    return f"{words.significant(value / 1e9)} B"

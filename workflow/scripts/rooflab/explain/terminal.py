"""Fits the closing lines of a run into a terminal of 80 columns and 40 rows; no colour, no control characters."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

from rooflab.look import words

WIDTH, HEIGHT = 79, 39  # the prompt needs a row too


def wrapped(lines: Sequence[str]) -> list[str]:
    """Every line cut at words to the width, what follows set in by two more columns."""
    told = []
    for line in lines:
        margin = " " * (len(line) - len(line.lstrip()) + 2)
        told += wrap(line, WIDTH, subsequent_indent=margin, drop_whitespace=True, break_on_hyphens=False) or [""]
    return told


def fitted(
    sessions: Sequence[Sequence[str]],
    brief: Sequence[str],
    drawing: Sequence[str],
    tail: Sequence[str],
    own: Sequence[bool] = (),
) -> list[str]:
    """The lines of every session, then the drawing, then `tail`: as much of them as the rows hold.

    Where they are too many the drawing goes first; then each session but this run's `own` is told by its line of `brief`,
    then the others are counted, and only then are its own brief too.
    """
    end = wrapped(tail)
    for lines in _ever_shorter(sessions, brief, drawing, own):
        if len(lines) + len(end) <= HEIGHT:
            return [*lines, *end]
    room = HEIGHT - len(end)
    short = _first_rows(brief)
    return [*short[: room - 1], f"and {len(short) - room + 1} more sessions in results/", *end]


def _ever_shorter(
    sessions: Sequence[Sequence[str]], brief: Sequence[str], drawing: Sequence[str], own: Sequence[bool]
) -> Iterator[list[str]]:
    whole = wrapped([line for lines in sessions for line in lines])
    if drawing:
        yield [*whole, "", *drawing]
    yield whole
    if any(own):
        mine = wrapped([line for lines, measured in zip(sessions, own, strict=True) if measured for line in lines])
        others = [line for line, measured in zip(brief, own, strict=True) if not measured]
        for before in (_first_rows(others), [f"and {len(others)} more sessions in results/"]):
            if drawing:
                yield [*before, *mine, "", *drawing]
            yield [*before, *mine]
    yield _first_rows(brief)


def _first_rows(lines: Sequence[str]) -> list[str]:
    return [wrapped([line])[0] for line in lines]


def plain(value: Any) -> str:
    """A figure of a Check in three digits; entries of a mapping after commas."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(each)}" for name, each in value.items())
    return words.significant(value) if isinstance(value, float) else str(value)

"""Fits the closing lines of a run into a terminal of 80 columns and 40 rows; no colour, no control characters."""

from collections.abc import Mapping, Sequence
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
    sessions: Sequence[Sequence[str]], brief: Sequence[str], drawing: Sequence[str], tail: Sequence[str]
) -> list[str]:
    """The lines of every session, then the drawing, then `tail`: as much of them as the rows hold.

    Where they are too many the drawing goes first; then each session is told by its line of `brief`.
    """
    whole, end = wrapped([line for lines in sessions for line in lines]), wrapped(tail)
    room = HEIGHT - len(end)
    if len(whole) + len(drawing) + 1 <= room and drawing:
        return [*whole, "", *drawing, *end]
    if len(whole) <= room:
        return [*whole, *end]
    short = [wrapped([line])[0] for line in brief]
    if len(short) > room:
        short = [*short[: room - 1], f"and {len(short) - room + 1} more sessions in results/"]
    return [*short, *end]


def plain(value: Any) -> str:
    """A figure of a Check in three digits; entries of a mapping after commas."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(each)}" for name, each in value.items())
    return words.significant(value) if isinstance(value, float) else str(value)

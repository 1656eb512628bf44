"""Every number of the prose with its place in roofline.json, so that a reader finds the unrounded value and its record."""

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from rooflab.look import words
from rooflab.look.style import Record
from rooflab.look.voice import UNITS, Voice
from rooflab.record.keys import step

ROOFLINE = "roofline.json"
COLUMNS = ("paragraph", "text", "key", "value", "record")
OPEN, BAR, CLOSE = "\ue000", "\ue001", "\ue002"  # around a figure in a sentence, until its paragraph is settled
MARK = re.compile(f"{OPEN}(\\d+){BAR}(.*?){CLOSE}")


@dataclass(frozen=True)
class Figure:
    """A number of roofline.json, SI, with its dotted key there and the record it rests on."""

    value: float
    key: str
    record: str


Ends = tuple[Figure, Figure]


class Book:
    """The figures of a roofline by their keys; an entry of a list is found by its id or its index."""

    def __init__(self, roofline: Record) -> None:
        self.roofline = roofline
        self._files = {
            entry["id"]: entry["file"] for kind in ("ceilings", "floors", "points") for entry in roofline[kind]
        }

    def at(self, *path: str) -> Figure | None:
        """The figure under a key, given in parts; None where there is no number."""
        node: Any = self.roofline
        record = ROOFLINE
        for part in path:
            node = step(node, part)
            record = self._record(node) or record
        return None if node is None else Figure(node, ".".join(path), record)

    def need(self, *path: str) -> Figure:
        """The figure under a key that is known to hold one. Raises KeyError otherwise."""
        found = self.at(*path)
        if found is None:
            raise KeyError(".".join(path))
        return found

    def ends(self, paths: Iterable[tuple[str, ...]]) -> Ends | None:
        """The smallest and the largest of some figures; None where one of them is absent."""
        found = [self.at(*path) for path in paths]
        known = [figure for figure in found if figure is not None]
        if not known or len(known) < len(found):
            return None
        return min(known, key=lambda f: f.value), max(known, key=lambda f: f.value)

    def _record(self, node: Any) -> str | None:
        if not isinstance(node, Mapping):
            return None
        own = node.get("file") or next(
            (self._files[str(node[k])] for k in ("point", "id", "gpu") if str(node.get(k)) in self._files), None
        )
        return None if own is None else str(own)


@dataclass(frozen=True)
class Quoting(Voice):
    """A voice that remembers each figure it writes."""

    cited: list[Figure] = field(default_factory=list)

    def number(self, value: Any, unit: str) -> str:
        """A figure, or the ends of a range, marked in the text; other numbers as any voice writes them."""
        ends = value if isinstance(value, tuple) else (value, value)
        if not all(isinstance(end, Figure) for end in ends):
            return super().number(value, unit)
        low, between, high = words.pieces(*(UNITS[unit](end.value) for end in ends))
        return (self._marked(low, ends[0]) if low else "") + between + self._marked(high, ends[1])

    def beside(self, value: Figure, other: Figure, unit: str) -> str:
        """A figure as it reads before another: without its unit where they share it."""
        alone, between, last = words.pieces(*(UNITS[unit](each.value) for each in (value, other)))
        return self._marked(alone if between else last, value)

    def _marked(self, text: str, figure: Figure) -> str:
        self.cited.append(figure)
        return f"{OPEN}{len(self.cited) - 1}{BAR}{self.localized(text)}{CLOSE}"


@dataclass(frozen=True)
class Paragraph:
    """A paragraph as it is read, and its figures in their order: what is shown of each, and what it is."""

    part: str
    text: str
    shown: list[tuple[str, Figure]]


def settled(part: str, marked: str, voice: Quoting) -> Paragraph:
    """A paragraph without its marks."""
    shown = [(text, voice.cited[int(index)]) for index, text in MARK.findall(marked)]
    return Paragraph(part, plain(marked), shown)


def plain(marked: str) -> str:
    """A text without the marks of its figures."""
    return MARK.sub(r"\2", marked)


def table(paragraphs: Iterable[Paragraph]) -> str:
    """`figures.csv`: a row for each number of the text, in its order; values in SI units, as roofline.json has them."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for paragraph in paragraphs:
        writer.writerows([paragraph.part, text, f.key, repr(f.value), f.record] for text, f in paragraph.shown)
    return out.getvalue()

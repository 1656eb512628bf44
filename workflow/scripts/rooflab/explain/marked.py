"""The paragraphs of `interpretation.md` as HTML, each number with its unrounded value, its key and its record."""

import csv
import re

from markupsafe import Markup, escape

from rooflab.look.style import Record

BOLD = re.compile(r"\*\*(.+?)\*\*")


def paragraphs(prose: str, figures: str) -> list[Markup]:
    """The paragraphs, with the numbers that `figures.csv` lists marked in them."""
    blocks = [block.strip() for block in prose.split("\n\n") if block.strip().startswith("**")]
    rows = list(csv.DictReader(figures.splitlines()))
    parts = list(dict.fromkeys(row["paragraph"] for row in rows))
    own = [[row for row in rows if row["paragraph"] == part] for part in parts]
    own += [[]] * (len(blocks) - len(own))
    return [marked(block, shown) for block, shown in zip(blocks, own, strict=False)]


def marked(text: str, rows: list[Record]) -> Markup:
    """A paragraph with a `data` element around each figure, in the order of the rows."""
    made, rest = Markup(), text
    for row in rows:
        before, found, after = rest.partition(row["text"])
        if found:
            title = f"{row['key']} = {row['value']} ({row['record']})"
            made += escape(before) + Markup('<data value="{}" title="{}">{}</data>').format(row["value"], title, found)
            rest = after
    return Markup(BOLD.sub(r"<strong>\1</strong>", str(made + escape(rest))))

"""Draws `roofline.png`, `roofline.svg`, its dark variant and a small PNG from `roofline.json`. Measures nothing."""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from rooflab.draw.figure import draw, draw_small
from rooflab.record.publish import published

# the same roofline.json gives the same bytes; text in the SVG stays text
STABLE: Any = {
    "svg.hashsalt": "rooflab",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],  # as wide, where the first is not installed
}
SMALL_DPI = 130


def checked(roofline: dict) -> dict:
    """The roofline, if it is one. Raises ValueError for any other file."""
    if roofline.get("schema") != "roofline":
        raise ValueError(
            f"schema is {roofline.get('schema')!r}, expected 'roofline': pass the roofline.json of a session"
        )
    return roofline


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Publishes the picture in the format of its suffix."""
    with published(path) as part:
        figure.savefig(part, format=path.suffix[1:], facecolor=figure.get_facecolor(), **options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--dark-svg", type=Path, required=True)
    parser.add_argument("--small-png", type=Path, required=True)
    parser.add_argument("--dpi", type=int, default=300)
    parser.add_argument("--title", default=None)
    parser.add_argument("--language", default="en")
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    roofline = checked(json.loads(arguments.roofline.read_text(encoding="utf-8")))
    how = (arguments.title, arguments.language)
    with matplotlib.rc_context(STABLE):
        figure = draw(roofline, *how)
        save(figure, arguments.svg, metadata={"Date": None})
        save(figure, arguments.png, dpi=arguments.dpi)
        save(draw(roofline, *how, theme="dark"), arguments.dark_svg, metadata={"Date": None})
        save(draw_small(roofline, *how), arguments.small_png, dpi=SMALL_DPI)


if __name__ == "__main__":
    main()

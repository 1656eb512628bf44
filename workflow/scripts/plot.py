"""Draws `roofline.png` and `roofline.svg` from `roofline.json`. Needs no GPU and measures nothing."""

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from rooflab.chart import draw

# the same roofline.json gives the same bytes; text in the SVG stays text
STABLE: Any = {"svg.hashsalt": "rooflab", "svg.fonttype": "none", "font.family": "DejaVu Sans"}


def render(roofline: dict, title: str | None = None) -> Figure:
    """The figure of one session. Raises ValueError for a file that is no roofline."""
    if roofline.get("schema") != "roofline":
        raise ValueError(
            f"schema is {roofline.get('schema')!r}, expected 'roofline': pass the roofline.json of a session"
        )
    return draw(roofline, title)


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Writes a part file beside `path`, then renames it: a picture that exists is complete."""
    handle, part = tempfile.mkstemp(dir=path.parent, suffix=path.suffix)
    os.close(handle)
    figure.savefig(part, **options)
    os.chmod(part, 0o644)
    os.replace(part, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--dpi", type=int, default=300)
    parser.add_argument("--title", default=None)
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    with matplotlib.rc_context(STABLE):
        figure = render(json.loads(arguments.roofline.read_text(encoding="utf-8")), arguments.title)
        save(figure, arguments.svg, metadata={"Date": None})
        save(figure, arguments.png, dpi=arguments.dpi)


if __name__ == "__main__":
    main()

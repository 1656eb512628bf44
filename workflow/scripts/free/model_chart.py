"""Draws `model_<name>.png` and its SVG from `roofline.json`. Measures nothing."""

import argparse
import json
from pathlib import Path

import matplotlib
from free.plot import STABLE, checked, save
from rooflab.draw.model import draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--dpi", type=int, default=300)
    given = parser.parse_args()
    matplotlib.use("Agg")
    roofline = checked(json.loads(given.roofline.read_text(encoding="utf-8")))
    with matplotlib.rc_context(STABLE):
        figure = draw(roofline, given.name)
        save(figure, given.svg, metadata={"Date": None})
        save(figure, given.png, dpi=given.dpi)


if __name__ == "__main__":
    main()

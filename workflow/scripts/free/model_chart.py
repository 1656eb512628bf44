"""Draws `model_<name>.png` and its SVG from `roofline.json`. Measures nothing."""

import argparse
import json
from pathlib import Path

import matplotlib
from rooflab.draw import save
from rooflab.draw.model import draw
from rooflab.look.document import checked
from rooflab.record.publish import write_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--dpi", type=int, default=300)
    given = parser.parse_args()
    roofline = checked(json.loads(given.roofline.read_text(encoding="utf-8")))
    with matplotlib.rc_context(save.STABLE):
        figure = draw(roofline, given.name)
        write_bytes(given.svg, save.svg(figure))
        write_bytes(given.png, save.png(figure, given.dpi))


if __name__ == "__main__":
    main()

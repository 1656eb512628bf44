"""Draws `roofline.png`, `roofline.svg` and its dark variant from `roofline.json`. Measures nothing."""

import argparse
import json
from pathlib import Path

from rooflab.draw import save
from rooflab.draw.figure import draw
from rooflab.look.document import checked
from rooflab.record.publish import write_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--png", type=Path, required=True)
    parser.add_argument("--svg", type=Path, required=True)
    parser.add_argument("--dark-svg", type=Path, required=True)
    parser.add_argument("--dpi", type=int, default=200)
    parser.add_argument("--title", default=None)
    parser.add_argument("--language", default="en")
    given = parser.parse_args()
    roofline = checked(json.loads(given.roofline.read_text(encoding="utf-8")))
    how = (roofline, given.title, given.language)
    figure = draw(*how)
    write_bytes(given.svg, save.svg(figure))
    write_bytes(given.png, save.png(figure, given.dpi))
    write_bytes(given.dark_svg, save.svg(draw(*how, theme="dark")))


if __name__ == "__main__":
    main()

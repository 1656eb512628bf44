"""Writes `interpretation.md`, three paragraphs by rule from `roofline.json`, and `figures.csv`, every number in them.

Computes nothing.
"""

import argparse
import json
from pathlib import Path

from rooflab.explain.figures import table
from rooflab.explain.prose import interpretation, paragraphs
from rooflab.look.catalogue import LANGUAGES
from rooflab.record.publish import write_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--figures", type=Path, required=True)
    parser.add_argument("--language", choices=LANGUAGES, default="en")
    given = parser.parse_args()
    roofline = json.loads(given.roofline.read_text(encoding="utf-8"))
    said = paragraphs(roofline, given.language)
    write_text(given.figures, table(said))
    write_text(given.out, interpretation(roofline, said, given.language))


if __name__ == "__main__":
    main()

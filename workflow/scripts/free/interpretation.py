"""Writes `interpretation.md`: three paragraphs by rule from the answers in `roofline.json`. Computes nothing."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflab.explain.prose import notes, paragraph
from rooflab.look.catalogue import LANGUAGES
from rooflab.look.document import checked
from rooflab.look.voice import Voice
from rooflab.record.publish import write_text

PARAGRAPHS = ("gemm", "decode", "cpu")


def leaves(answer: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number of an answer by its dotted path."""
    found: dict[str, float] = {}
    for key, value in answer.items():
        if isinstance(value, Mapping):
            found |= leaves(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[prefix + key] = value
    return found


def figures(answer: Mapping[str, Any]) -> str:
    """The comment that lists every number the paragraph draws on, as key=value in SI base units."""
    listed = " ".join(f"{key}={value:.6g}" for key, value in leaves(answer).items())
    return f"<!-- figures: {listed} -->" if listed else "<!-- figures: none -->"


def interpret(roofline: dict[str, Any], language: str = "en") -> str:
    """The whole text. Raises ValueError for a file that is no roofline and for a language without texts."""
    checked(roofline)
    device = (roofline["devices"][roofline["main_side"]] or {}).get("name", roofline["session"])
    voice = Voice(language)
    blocks = [voice.say("prose.title", device=device)]
    for part in PARAGRAPHS:
        blocks.append(f"{paragraph(part, roofline, voice)}\n{figures(roofline['answers'][part])}")
    blocks.append(notes(roofline, voice))
    return "\n\n".join(block for block in blocks if block) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--language", choices=LANGUAGES, default="en")
    arguments = parser.parse_args()
    roofline = json.loads(arguments.roofline.read_text(encoding="utf-8"))
    write_text(arguments.out, interpret(roofline, arguments.language))


if __name__ == "__main__":
    main()

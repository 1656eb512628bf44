"""The stop conditions that look at what was made of the derivation: picture, prose, manifest."""

import csv
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from rooflab.derive.checks import check
from rooflab.derive.gemms import LAB_DTYPES
from rooflab.derive.told import told
from rooflab.record.document_types import Check
from rooflab.record.keys import resolve
from rooflab.record.names import memory_sized
from rooflab.record.types import Reason

PARAGRAPHS = ("gemm", "decode", "cpu")
SLOPES = ("read", "d2d", "l2")
SVG_ID = re.compile(r'\bid="([^"]+)"')
NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*")  # one that is no part of a name: not fp16, not L2


def plot_complete(roofline: Mapping[str, Any], svg: str | None) -> Check:
    """Stop condition 3: the picture holds every ceiling and point of the lab under its id. `svg` None: no picture.

    All other points stand on the page.
    """
    wanted = [
        item["id"]
        for kind in ("ceilings", "points")
        for item in roofline[kind]
        if is_of_the_lab(item, roofline["main_side"])
    ]
    drawn = set(SVG_ID.findall(svg or ""))
    absent = [name for name in wanted if name not in drawn]
    passed = svg is not None and bool(wanted) and not absent
    reason = _absent(svg is None, "roofline.svg", wanted, absent)
    return check("plot_complete", passed, len(wanted) - len(absent), len(wanted), reason, [told("advice_draw")])


def is_of_the_lab(item: Mapping[str, Any], side: str) -> bool:
    """Whether a ceiling or a point is one the lab asks for: its formats, its slopes, its steps over S."""
    if item["side"] != side:
        return False
    if item.get("kind") == "memory":
        return item["pattern"] in SLOPES
    if item.get("kind") == "compute":
        return side == "cpu" or item["variant"] in LAB_DTYPES
    own = side == "cpu" or item.get("variant") in (None, *LAB_DTYPES)
    return bool(item["lab_point"]) and own and not memory_sized(item["name"])


def interpretation_answers(roofline: Mapping[str, Any], text: str | None, figures: str | None) -> Check:
    """Stop condition 4: three paragraphs that cite what the questions need, each number of them in `figures.csv`.

    `text` or `figures` None: the file is not there.
    """
    paragraphs = [block.strip() for block in re.split(r"\n\s*\n", text or "") if block.strip().startswith("**")]
    rows = list(csv.DictReader((figures or "").splitlines()))
    reason = _absent(text is None, "interpretation.md", PARAGRAPHS, [])
    reason += _absent(figures is None, "figures.csv", PARAGRAPHS, [])
    if text is not None and len(paragraphs) != len(PARAGRAPHS):
        reason.append(told("paragraphs", count=len(paragraphs), wanted=len(PARAGRAPHS)))
    if not reason:
        own = {part: list(found) for part, found in groupby(rows, key=lambda row: row["paragraph"])}
        untrue = [row["key"] for row in rows if resolve(roofline, row["key"]) != float(row["value"])]
        unlisted = [part for part, said in zip(PARAGRAPHS, paragraphs, strict=True)
                    if NUMBER.findall(said) != [n for row in own.get(part, []) for n in NUMBER.findall(row["text"])]]  # fmt: skip
        uncited = [key for part in PARAGRAPHS for key in _uncited(roofline, part, own.get(part, []))]
        reason = [told("absent", what=[*untrue, *unlisted, *uncited])] if untrue or unlisted or uncited else []
    advice = [told("advice_write")]
    return check("interpretation_answers", not reason, len(paragraphs), len(PARAGRAPHS), reason, advice)


def _uncited(roofline: Mapping[str, Any], part: str, rows: list[dict[str, str]]) -> list[str]:
    """What the question of a paragraph needs and its text does not say."""
    answer, cited = roofline["answers"][part], {float(row["value"]) for row in rows}
    return [f"{part}: {key}" for key in answer["required"] if resolve(answer, key) not in cited]


def manifest_complete(manifest: Mapping[str, Any], required: Iterable[str]) -> Check:
    """Stop condition 5: every required entry (a dotted path) of the manifest says something, and nothing is pending."""
    wanted = list(required)
    empty = [path for path in wanted if resolve(manifest, path) in (None, "", [], {})]
    pending = [hole["file"] for hole in manifest["holes"] if hole["status"] != "unsupported"]
    reason = [told("empty", what=path) for path in empty] + [told("pending", file=file) for file in pending]
    advice = [told("advice_run_again")]
    return check("manifest_complete", not reason, len(wanted) - len(empty), len(wanted), reason, advice)


def _absent(no_file: bool, file: str, wanted: Iterable[str], absent: list[str]) -> list[Reason]:
    if no_file:
        return [told("no_file", file=file)]
    if not list(wanted):
        return [told("nothing_to_draw")]
    return [told("absent", what=absent)] if absent else []

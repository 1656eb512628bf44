"""The interpretation, paragraph by paragraph: chooses the sentences that the record supports; computes nothing.

The sentences themselves stand in `data/texts_prose.yaml`, in every language.
"""

from typing import Any

from rooflab.explain.cpu import cpu_sentences
from rooflab.explain.decode import decode_sentences
from rooflab.explain.gemm import gemm_sentences
from rooflab.look import catalogue

Record = dict[str, Any]

HOLES_SHOWN = 6  # by name, of those absent for one reason

SENTENCES = {"gemm": gemm_sentences, "decode": decode_sentences, "cpu": cpu_sentences}


def paragraph(part: str, roofline: Record, language: str) -> str:
    """The paragraph `part` ("gemm", "decode", "cpu") with the holes of its stage; the last also tells what failed."""
    sentences = [*SENTENCES[part](roofline, language), *_holes(part, roofline["holes"], language)]
    if part == "cpu":
        sentences += _failed(roofline["checks"], language)
    return " ".join(sentences)


def notes(roofline: Record, language: str) -> str:
    """What the model notes about its records, one line each under a heading; empty where it notes nothing."""
    said = [f"- {catalogue.translated(note, language)}" for note in roofline["notes"]]
    return "\n".join([catalogue.text("prose.notes", language, count=len(said)), *said]) if said else ""


def _holes(part: str, holes: list[Record], language: str) -> list[str]:
    own = [hole for hole in holes if (hole["stage"] if hole["stage"] in ("gemm", "decode") else "cpu") == part]
    alike: dict[tuple[str, str | None], list[str]] = {}
    for hole in own:
        alike.setdefault((hole["status"], hole["reason"]), []).append(f"{hole['side'].upper()} {hole['name']}")
    said = [_hole(names, status, reason, language) for (status, reason), names in alike.items()]
    return [catalogue.text("prose.holes", language, count=len(own), items="; ".join(said))] if said else []


def _hole(names: list[str], status: str, reason: str | None, language: str) -> str:
    """Measurements that are absent for one reason, the first few by name."""
    shown, rest = names[:HOLES_SHOWN], len(names) - HOLES_SHOWN
    if rest > 0:
        shown.append(catalogue.text("prose.more_holes", language, count=rest))
    given = {"names": ", ".join(shown), "status": catalogue.text(f"status.{status}", language)}
    if reason is None or status == "missing":
        return catalogue.text("prose.hole", language, **given)
    return catalogue.text("prose.hole_because", language, reason=catalogue.translated(reason, language), **given)


def _failed(checks: list[Record], language: str) -> list[str]:
    said = [
        catalogue.text(
            "prose.failed_check",
            language,
            title=catalogue.text(f"check.{check['name']}", language),
            reason=catalogue.translated(check["reason"] or check["title"], language),
        )
        for check in checks
        if check["status"] == "fail"
    ]
    return [catalogue.text("prose.failed_checks", language, count=len(said), items="; ".join(said))] if said else []

"""The interpretation, paragraph by paragraph: chooses the sentences that the record supports; computes nothing.

The sentences themselves stand in `data/texts_prose.yaml`, in every voice.
"""

from typing import Any

from rooflab.explain.cpu import cpu_sentences
from rooflab.explain.decode import decode_sentences
from rooflab.explain.gemm import gemm_sentences
from rooflab.look.voice import Voice

Record = dict[str, Any]

HOLES_SHOWN = 6  # by name, of those absent for one reason

SENTENCES = {"gemm": gemm_sentences, "decode": decode_sentences, "cpu": cpu_sentences}


def paragraph(part: str, roofline: Record, voice: Voice) -> str:
    """The paragraph `part` ("gemm", "decode", "cpu") with the holes of its stage; the last also tells what failed."""
    sentences = [*SENTENCES[part](roofline, voice), *_holes(part, roofline["holes"], voice)]
    if part == "cpu":
        sentences += _failed(roofline["checks"], voice)
    return " ".join(sentences)


def notes(roofline: Record, voice: Voice) -> str:
    """What the model notes about its records, one line each under a heading; empty where it notes nothing."""
    said = [f"- {voice.reason(note)}" for note in roofline["notes"]]
    return "\n".join([voice.say("prose.notes", count=len(said)), *said]) if said else ""


def _holes(part: str, holes: list[Record], voice: Voice) -> list[str]:
    own = [hole for hole in holes if (hole["stage"] if hole["stage"] in ("gemm", "decode") else "cpu") == part]
    alike: dict[tuple[str, str], list[str]] = {}
    for hole in own:
        alike.setdefault((hole["status"], voice.reason(hole["reason"])), []).append(
            f"{hole['side'].upper()} {hole['name']}"
        )
    said = [_hole(names, status, reason, voice) for (status, reason), names in alike.items()]
    return [voice.say("prose.holes", count=len(own), items="; ".join(said))] if said else []


def _hole(names: list[str], status: str, reason: str, voice: Voice) -> str:
    """Measurements that are absent for one reason, the first few by name."""
    shown, rest = names[:HOLES_SHOWN], len(names) - HOLES_SHOWN
    if rest > 0:
        shown.append(voice.say("prose.more_holes", count=rest))
    given = {"names": ", ".join(shown), "status": voice.say(f"status.{status}")}
    if not reason or status == "missing":
        return voice.say("prose.hole", **given)
    return voice.say("prose.hole_because", reason=reason, **given)


def _failed(checks: list[Record], voice: Voice) -> list[str]:
    said = [
        voice.say(
            "prose.failed_check",
            title=voice.say(f"check.{check['name']}"),
            reason=voice.reason(check["reason"]),
        )
        for check in checks
        if check["status"] == "fail"
    ]
    return [voice.say("prose.failed_checks", count=len(said), items="; ".join(said))] if said else []

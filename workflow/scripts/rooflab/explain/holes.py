"""What a paragraph lacks: the formats or sides whose measurements are not there, in one sentence for each kind of absence."""

from rooflab.explain.compose import Sentence
from rooflab.explain.figures import Book, Quoting
from rooflab.look.style import VARIANTS, named_format
from rooflab.record.names import format_of

KINDS = ("unsupported", "failed", "missing")
MOST = 4  # formats by name


def missing(book: Book, voice: Quoting, stage: str) -> list[Sentence]:
    """The absent formats of a stage on the main side; their reasons, and absent ways of summing, stand on the page."""
    side, said = book.roofline["main_side"], []
    for kind in KINDS:
        own = [h for h in book.roofline["holes"] if (h["stage"], h["side"], h["status"]) == (stage, side, kind)]
        absent = dict.fromkeys(format_of(hole["name"]) for hole in own)
        formats = [name for name in absent if name not in VARIANTS]
        if formats:
            listed = [named_format(voice, name) for name in formats[:MOST]] + (
                [voice.say("holes.others")] if formats[MOST:] else []
            )
            said.append(Sentence(voice.say(f"holes.{kind}.{stage}", names=voice.listed(listed)), 1))
    return said

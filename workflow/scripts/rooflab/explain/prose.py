"""The interpretation: three paragraphs by rule, each with its figures; computes nothing.

The sentences themselves stand in `data/texts_prose.yaml`, in every language.
"""

from rooflab.explain.compose import composed
from rooflab.explain.cpu import cpu_sentences
from rooflab.explain.decode import decode_sentences
from rooflab.explain.figures import Book, Paragraph, Quoting, settled
from rooflab.explain.gemm import gemm_sentences
from rooflab.look.document import checked
from rooflab.look.style import Record
from rooflab.look.voice import Voice

SENTENCES = {"gemm": gemm_sentences, "decode": decode_sentences, "cpu": cpu_sentences}


def paragraphs(roofline: Record, language: str = "en") -> list[Paragraph]:
    """The three paragraphs. Raises ValueError for a file that is no roofline and for a language without texts."""
    book, voice = Book(checked(roofline)), Quoting(language)
    return [settled(part, composed(sentences(book, voice)), voice) for part, sentences in SENTENCES.items()]


def interpretation(roofline: Record, said: list[Paragraph], language: str = "en") -> str:
    """`interpretation.md`: its heading, the paragraphs, one line that says where all the rest is."""
    voice, side = Voice(language), roofline["main_side"]
    device = roofline["devices"].get(side) or {}
    name = device.get("name", roofline["session"])
    date = str(device["measured_at"])[:10] if device.get("measured_at") else None
    head = voice.say("prose.title.dated", device=name, date=date) if date else voice.say("prose.title", device=name)
    failed = any(check["status"] == "fail" for check in roofline["checks"])
    last = voice.say("prose.last.failed" if failed else "prose.last")
    return "\n\n".join([head, *(paragraph.text for paragraph in said), last]) + "\n"

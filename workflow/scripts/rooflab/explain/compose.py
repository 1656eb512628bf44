"""A paragraph out of sentences: what must be said, then what has room, never more words than a reader takes in at once."""

from dataclasses import dataclass

from rooflab.explain.figures import plain

LEAST, MOST = 60, 130  # words of a paragraph, by white space
MUST, FILL = 0, 9


@dataclass(frozen=True)
class Sentence:
    """A sentence and its rank: MUST, then the lower the sooner it is kept; FILL only where words are wanting."""

    text: str
    rank: int = 1


def composed(sentences: list[Sentence]) -> str:
    """The sentences that fit, in the order they were given."""
    kept: set[int] = set()
    count = 0
    for rank in sorted({each.rank for each in sentences}):
        for index, each in enumerate(sentences):
            size = len(plain(each.text).split())
            wanted = count < LEAST if rank == FILL else rank == MUST or count + size <= MOST
            if each.rank == rank and each.text and wanted:
                kept.add(index)
                count += size
    return " ".join(each.text for index, each in enumerate(sentences) if index in kept)

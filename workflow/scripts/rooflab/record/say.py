"""What a program tells its reader, who may be gone, have a full disk, or a terminal that lacks a letter."""

import sys
from typing import TextIO


def say(text: str, stream: TextIO | None = None) -> None:
    """Prints lines, on stdout unless another stream is given. Whoever outlived its terminal, or whose terminal lacks a letter,
    goes on without it."""
    out = stream or sys.stdout
    if out is None:  # closed before the program began
        return
    try:
        encoding = getattr(out, "encoding", None) or "utf-8"
        print(text.encode(encoding, errors="replace").decode(encoding), file=out, flush=True)
    except (OSError, ValueError):  # ValueError: closed meanwhile
        return

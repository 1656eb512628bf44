"""The sign of life of a measurement: a ledger line, and from ten seconds on a line for the reader."""

import sys
import threading
import time
from pathlib import Path
from typing import Any

from rooflab.measure.bench import PULSE_S
from rooflab.record import ledger
from rooflab.record.say import say

QUIET_S = 10.0
SILENT = 2 * PULSE_S  # one block of a slow product: the clock ticks instead of the bench


def note(book: Path, event: str, ticket: dict[str, Any], **fields: Any) -> None:
    """A line in the ledger beside a measurement under way or done: a full disk must not cost the measurement."""
    try:
        ledger.append(book, event, **ticket, **fields)
    except OSError as error:
        say(f"{book}: {event} not noted ({error.strerror})", sys.stderr)


class Pulse:
    """Called by the bench between samples; while one sample lasts long, a thread beats in its place."""

    def __init__(self, book: Path, ticket: dict[str, Any], name: str) -> None:
        self._book, self._ticket, self._name = book, ticket, name
        self._begin = self._last = time.monotonic()
        self._text = "measuring"
        self._over = threading.Event()

    def __enter__(self) -> "Pulse":
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def __call__(self, text: str) -> None:
        self._text = text
        if time.monotonic() - self._last >= PULSE_S:
            self._beat()

    def _watch(self) -> None:
        while not self._over.wait(PULSE_S):
            if time.monotonic() - self._last >= SILENT:
                self._beat()

    def _beat(self) -> None:
        self._last = now = time.monotonic()
        note(self._book, "pulse", self._ticket)
        if now - self._begin >= QUIET_S:
            say(f"  … {self._name}: {self._text}, {now - self._begin:.0f} s")

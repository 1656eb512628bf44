"""What may still go wrong once a record is published: it is told and logged, and never changes how the program ends."""

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rooflab.record.say import say


def log_traceback(log: Path | None, what: str = "") -> str:
    """Adds the traceback being handled to the log; where it can be read, or nothing where it could not be written."""
    if log is None:
        return ""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{what}\n{traceback.format_exc()}" if what else traceback.format_exc())
    except OSError:
        return ""
    return f" (details: {log})"


def tolerated(what: str, action: Callable[[], Any], log: Path | None) -> None:
    """Does what comes after the record; what fails in it is said by name, in the log too."""
    try:
        action()
    except Exception as error:
        told = f"{what} failed: {type(error).__name__}: {error}"
        say(f"{told}{log_traceback(log, told)}", sys.stderr)


def leave(status: int) -> None:
    """Ends the process at once: what libraries do at the end of Python, after an error of the device, may crash."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)

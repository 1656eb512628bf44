"""How a page in Markdown shows tables, what is absent, what bounds a part and how a checkpoint is stored."""

from collections.abc import Callable, Iterable
from typing import Any

NOTHING = "–"
BOUNDS = {"launch": "launch floor", "compute": "computing"}


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ("--",) * len(head), *rows)]


def told(value: Any, how: Callable[[Any], str] = str) -> str:
    """A value in words, or that there is none."""
    return NOTHING if value is None else how(value)


def bound(name: str | None, at_roof: bool | None = None) -> str:
    """What bounds a part or a step; of one far below every roof, which is the nearest."""
    named = NOTHING if name is None else BOUNDS.get(name, name)
    return f"below every roof, the nearest {named}" if at_roof is False else named


def scheme(stored: dict[str, Any]) -> str:
    """How a checkpoint stores its weights: `awq, 4 bits`."""
    return f"{stored['method']}, {stored['bits']} bits"


def cache(stored: dict[str, Any] | None, kv_dtype: str) -> str:
    """What the cache is in: what the checkpoint says of it, else the dtype of serving."""
    return f"{stored['kv_bits']} bits" if stored and stored["kv_bits"] else kv_dtype

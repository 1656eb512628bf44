"""A model in one line of the closing summary: the most tokens per second that were measured, and what the roof allows."""

import json
from pathlib import Path

from rooflab.look import words
from rooflab.look.style import Record


def of_session(folder: Path) -> list[str]:
    """One line per way of serving a model that the session's roofline.json knows; none where there is no such file."""
    path = folder / "roofline.json"
    return headlines(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def headlines(roofline: Record) -> list[str]:
    """The best measured step of each model whose weights and cache the card holds."""
    best = ((model, _best(model["steps"])) for model in roofline.get("models", []))
    return [_line(model, step) for model, step in best if step is not None]


def count(value: float) -> str:
    """A number of tokens, three digits of it: 16,700."""
    return f"{float(words.significant(value)):,.0f}" if value >= 1000 else words.significant(value)


def _line(model: Record, step: Record) -> str:
    roof = step["attainable_tokens_per_s"]
    told = f" (roof {count(roof)})" if roof else ""
    dtypes = "/".join(dict.fromkeys((model["dtype"], model["kv_dtype"])))  # of weights / of cache
    place = f"S {step['sequence']}, batch {step['batch']}"
    return f"  {model['name']} {dtypes}: {count(step['tokens_per_s'])} tokens/s{told}, {place}"


def _best(steps: list[Record]) -> Record | None:
    measured = [step for step in steps if step["tokens_per_s"] and step["fits"] is not False]
    return max(measured, key=lambda step: float(step["tokens_per_s"]), default=None)

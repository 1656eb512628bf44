"""Dotted keys into a JSON document: how prose, figures and Checks name one number of it."""

from collections.abc import Mapping
from typing import Any


def resolve(document: Any, key: str) -> Any:
    """What a dotted key names: a field, or the entry of a list by its id or index; None where there is none."""
    for part in key.split("."):
        document = step(document, part)
    return document


def step(node: Any, part: str) -> Any:
    """One step down a document."""
    if isinstance(node, Mapping):
        return node.get(part)
    if isinstance(node, list):
        named = next((entry for entry in node if isinstance(entry, Mapping) and entry.get("id") == part), None)
        return node[int(part)] if named is None and part.isdigit() and int(part) < len(node) else named
    return None

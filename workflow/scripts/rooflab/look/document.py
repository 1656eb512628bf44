"""The document that picture and prose are made of."""

from typing import Any


def checked(roofline: dict[str, Any]) -> dict[str, Any]:
    """The roofline, if it is one. Raises ValueError for any other file."""
    if roofline.get("schema") != "roofline":
        seen = roofline.get("schema")
        raise ValueError(f"schema is {seen!r}, expected 'roofline': pass the roofline.json of a session")
    return roofline

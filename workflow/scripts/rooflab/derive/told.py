"""What the derivation has to say, as codes of the catalogue of texts: `said.<code>` there, with these values."""

from typing import Any

from rooflab.record.types import Told


def told(code: str, /, **values: Any) -> Told:
    """A code and its values: words, counts, lists of them, and numbers in SI units or as fractions."""
    return {"code": code, "values": values}

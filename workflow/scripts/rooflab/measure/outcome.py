"""How a measurement ends: with numbers, or with the reason why there are none."""

from dataclasses import dataclass, field
from typing import Any


class Failed(Exception):
    """The measurement could not be taken this time: published as a record, planned again by the next run.

    `own`: another attempt on a free machine would end the same way; after a few of these it is left out.
    """

    def __init__(self, reason: str, remedy: str, own: bool = True) -> None:
        super().__init__(reason)
        self.remedy = remedy
        self.own = own


class Unsupported(Exception):
    """This device can never do it: published as a final record."""


@dataclass
class Measurement:
    """What a stage hands back. `beside`: the same of each spec that the bench was handed to be measured in turns with this
    one; None where that one has to be measured by itself."""

    operator: str | None = None
    dtype: str | None = None
    shape: dict[str, int] = field(default_factory=dict)
    series: list[dict[str, Any]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    status: str = "measured"
    reason: str | None = None
    remedy: str | None = None
    beside: list["Measurement | None"] = field(default_factory=list)

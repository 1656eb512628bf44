"""What the parts of served models lost beyond their roof on one card, and the range of it that a part of that size can expect.

A kernel's time beyond its roof hardly depends on which model it is of: for products it goes with the roof's time and the
rows, for attention with the FLOP, since what is multiplied does not overlap whole with what is read.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]

NEAREST = 6  # measured shapes that speak for a part
LEAST = 3  # fewer of them give no range
# a loss grows with the square root of the size: halfway between one that is fixed and one that is a fixed share
GROWTH = 0.5
ROWS_WEIGHT = 0.5  # how far twice the rows is from here, beside twice the time


@dataclass(frozen=True)
class Shape:
    """One part as it was measured, or is to be: `kind` attention, product or elementwise, the seconds it takes by the roof,
    the FLOP, the rows, and the seconds that it took beyond the roof."""

    kind: str
    roof_s: float
    flop: int
    rows: int
    lost_s: float = 0.0

    def size(self) -> float:
        """What its loss goes with, as a power of two."""
        return math.log2(self.flop if self.kind == "attention" else self.roof_s)

    def distance(self, other: "Shape") -> float:
        """How far another shape of this kind is."""
        rows = 0.0 if self.kind == "attention" else ROWS_WEIGHT * math.log2(self.rows / other.rows)
        return math.hypot(self.size() - other.size(), rows)


def measured_shapes(roofline: Record, without: str | None = None) -> list[Shape]:
    """The parts of every served model in a session's roofline.json but the one called `without`, the products of its sweeps,
    and the lab's attention where its cache lies beyond L2. What was refuted is left out."""
    found = [
        Shape(part["kind"], part["attainable_s"], part["flop"], part["batch"], part["median_s"] - part["attainable_s"])
        for model in roofline["models"]
        if model["name"] != without
        for part in model["operators"]
        if part["median_s"] and part["attainable_s"]
    ]
    return [*found, *_swept(roofline), *_lab_attention(roofline)]


def _swept(roofline: Record) -> Iterator[Shape]:
    for sweep in roofline["sweeps"]:
        for each in sweep["points"] if sweep["dtype"] != "fp32" else ():
            if each["median_s"] and each["attainable_s"]:
                lost_s = each["median_s"] - each["attainable_s"]
                yield Shape("product", each["attainable_s"], each["flop"], each["batch"], lost_s)


def _lab_attention(roofline: Record) -> Iterator[Shape]:
    for point in roofline["points"]:
        launched = (point["side"], point["operator"], point["timing"]) == ("gpu", "decode_attention", "graph")
        if launched and point["tier"] == "HBM" and point["attainable_flop_per_s"]:
            roof_s = point["flop"] / point["attainable_flop_per_s"]
            yield Shape("attention", roof_s, point["flop"], 1, point["median_s"] - roof_s)


def expected_loss(part: Shape, known: list[Shape]) -> tuple[float, float] | None:
    """The least and the most seconds beyond its roof by the nearest measured shapes, the furthest out of them left aside where
    there are enough; None where too few of the kind were measured."""
    same = sorted((each for each in known if each.kind == part.kind), key=part.distance)[:NEAREST]
    if len(same) < LEAST:
        return None
    losses = sorted(max(0.0, each.lost_s) * 2 ** (GROWTH * (part.size() - each.size())) for each in same)
    trimmed = losses[1:-1] if len(losses) == NEAREST else losses
    return trimmed[0], trimmed[-1]

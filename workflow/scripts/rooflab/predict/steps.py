"""One decode step of a model on a measured card: by its roof, and by what parts of that size really took there."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rooflab.derive.roof import Roof, reach
from rooflab.derive.serving_points import Setting, part_limit, stored_parts
from rooflab.predict.shapes import Shape, expected_loss
from rooflab.theory.step import CachedAttention

Record = dict[str, Any]

# On either side of the sum: what no shape nearby tells. With it, a model left out of a session lies within its range in 9 of
# 10 steps (tests/test_predict.py, on the committed H200)
MARGIN = 0.05


@dataclass(frozen=True)
class Card:
    """A measured card: its roof, and what the parts of served models lost there."""

    over: Roof
    shapes: list[Shape]


def roof_of(roofline: Mapping[str, Any]) -> Roof:
    """The roof that a session's roofline.json holds."""
    device = roofline["devices"]["gpu"] or {}
    ceilings = roofline["ceilings"]
    return Roof("gpu", ceilings, roofline["floors"], reach(ceilings, "gpu", "L2") or device.get("l2_bytes"))


def step(setting: Setting, card: Card, sequence: int, batch: int) -> Record | None:
    """Seconds of one token for each of `batch` sequences at a context of `sequence`: `roof_s`, and the range `low_s` to
    `high_s`, null where too little was measured; None where a ceiling of the card is missing."""
    parts = list(_parts(setting, card.over, sequence, batch))
    if not parts or any(limit is None for _, _, limit in parts):
        return None
    roof_s = sum(count * limit.seconds for _, count, limit in parts)
    bounds: Counter[str] = Counter()
    for _, count, limit in parts:
        bounds[limit.bound] += count * limit.seconds
    attention_s = sum(count * limit.seconds for shape, count, limit in parts if shape.kind == "attention")
    return {
        "batch": batch,
        "roof_s": roof_s,
        **_range([(shape, count) for shape, count, _ in parts], card, roof_s),
        "bound_by": max(bounds, key=lambda bound: bounds[bound]),
        "attention_share": attention_s / roof_s,
    }


def _parts(setting: Setting, over: Roof, sequence: int, batch: int) -> Iterator[tuple[Shape, int, Any]]:
    """Every part as a shape, how often a step has it, and its limit; None for one whose ceiling was not measured."""
    for part, work, arithmetic in stored_parts(setting, sequence, batch):
        limit = part_limit(work, over, arithmetic)
        if arithmetic and over.flop_per_s(arithmetic) is None or over.bytes_per_s() is None:
            limit = None
        product = "elementwise" if arithmetic is None else "product"
        kind = "attention" if isinstance(part, CachedAttention) else product
        yield Shape(kind, limit.seconds if limit else 0.0, work.flop, batch), part.count, limit


def _range(parts: list[tuple[Shape, int]], card: Card, roof_s: float) -> Record:
    """The sum over the parts at their least and at their most, apart by the margin on either side; nothing beats the roof."""
    losses = [(count, expected_loss(shape, card.shapes)) for shape, count in parts]
    known = [(count, loss) for count, loss in losses if loss is not None]
    if len(known) < len(losses):
        return {"low_s": None, "high_s": None}
    low_s = roof_s + sum(count * loss[0] for count, loss in known)
    high_s = roof_s + sum(count * loss[1] for count, loss in known)
    return {"low_s": max(roof_s, low_s / (1 + MARGIN)), "high_s": high_s * (1 + MARGIN)}

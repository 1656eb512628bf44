"""The experts of a config, and how many layers have an ordinary MLP instead."""

from collections.abc import Mapping
from reprlib import repr as shown
from typing import Any

from rooflab.plan.reading.fields import OTHER_EXPERTS, Fields
from rooflab.theory.geometry import Experts, GeometryError

DEMANDED = ("count", "chosen", "inner", "shared", "shared_inner", "first", "step", "dense_inner")


def experts_of(fields: Fields, meant: Mapping[str, Any] | None, layers: int) -> Experts | None:
    """The experts by the family's fields for them (`meant`, a row's `experts`); None for a model without any."""
    if meant is None:
        _refuse_other_experts(fields)
        return None
    if meant["count"] in fields.values and not fields.get(meant["count"]):
        return None
    fields.require(meant[role] for role in DEMANDED if role in meant)
    inner = fields.get(meant["inner"])
    return Experts(
        count=fields.get(meant["count"]),
        chosen=fields.get(meant["chosen"]),
        inner=inner,
        shared=_shared(fields, meant, inner),
        dense_layers=_dense_layers(fields, meant, layers),
    )


def _shared(fields: Fields, meant: Mapping[str, Any], inner: int) -> int:
    if "shared_inner" not in meant:
        return 1 if meant.get("one_shared") else int(fields.get(meant.get("shared", ""), 0) or 0)
    width = int(fields.get(meant["shared_inner"]))
    if width % inner:
        raise GeometryError(f"{meant['shared_inner']} is {width}: expected a multiple of {meant['inner']}, {inner}")
    return width // inner


def _dense_layers(fields: Fields, meant: Mapping[str, Any], layers: int) -> int:
    """The first ones, those that a list names, or all but every so many (`transformers`: layer i has experts where i + 1 is
    a multiple of the step)."""
    if "first" in meant:
        return int(fields.get(meant["first"]))
    listed = fields.get(meant.get("dense", ""), None) or []
    if not isinstance(listed, list) or any(not isinstance(each, int) for each in listed):
        raise GeometryError(f"{meant['dense']} is {shown(listed)}: expected a list of layers")
    step = int(fields.get(meant["step"])) if "step" in meant else 1
    return layers - sum((layer + 1) % step == 0 and layer not in listed for layer in range(layers))


def _refuse_other_experts(fields: Fields) -> None:
    found = [name for name in OTHER_EXPERTS if (fields.get(name) or 0) > 1]
    if found:
        raise GeometryError(
            f"{fields.kind} with {found[0]}: give the geometry itself, with experts (count, chosen, inner)"
        )

"""What is measured of the config's `operators:`, beside the MiniGPT: attention over S x batch x cache dtype, the rest of
a step at each batch, and one product over many batches, the walk up the slope.

One file per attention shape and per (model, batch), so that a new value in a list changes no other key.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from rooflab.plan.models import resolved, shipped
from rooflab.plan.points import Point, planned, scalars
from rooflab.record import names as file_names
from rooflab.theory.geometry import Decoder
from rooflab.theory.step import attentions

# Raised by hand when the way a stage measures changes its numbers.
PROTOCOL = {"attention": 2, "step": 1, "sweep": 1}


def points(config: dict[str, Any]) -> list[Point]:
    """The measurements of a GPU's session; none where the config names no operator. Two models of one geometry are
    measured once, under the first one's name."""
    models = resolved(config["operators"])
    if not models:
        return []
    found: dict[str, Point] = {}
    for name, model in models.items():
        for each in _of_model(name, model, config["serving"]):
            found.setdefault(each.key, each)
    return [*found.values(), *_sweeps(config["sweep"])]


def asked(config: dict[str, Any]) -> list[dict[str, Any]]:
    """What the config wants to know of its models, whatever files hold it: name, geometry, contexts."""
    return _asked(config["operators"], config["serving"])


def foretold(config: dict[str, Any]) -> dict[str, Any]:
    """What `predict` is asked: its own models, else the operators, else every shipped one; at the contexts, batches and
    formats of `serving`."""
    entries = config.get("predict") or config["operators"] or [{"name": name} for name in shipped()]
    serving = config["serving"]
    kept = {name: serving[name] for name in ("batches", "dtypes", "kv_dtypes")}
    return {"models": _asked(entries, serving), **kept}


def _asked(entries: list[dict[str, Any]], serving: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "geometry": model.as_dict(), "contexts": serving["sequence_lengths"]}
        for name, model in resolved(entries).items()
    ]


def names(files: Iterable[str]) -> list[str]:
    """The models that these records or planned files speak of."""
    return sorted({model for file in files if (model := file_names.model_of(file))})


def sequences(model: Decoder, wanted: list[int]) -> list[int]:
    """The contexts that a model has: those of `wanted`, or its longest where it has none of them."""
    return [each for each in wanted if each <= model.context] or [model.context]


def _of_model(name: str, model: Decoder, serving: dict[str, Any]) -> Iterator[Point]:
    geometry, labels = model.timed(), _labels(name, model)
    for dtype in serving["kv_dtypes"]:
        for length, contexts in _lengths(model, serving["sequence_lengths"]).items():
            for batch in serving["batches"]:
                asked = {"contexts": contexts} if contexts != [length] else {}
                yield _point(
                    "attention", file_names.attention(name, dtype, length, batch), geometry=geometry, dtype=dtype,
                    sequence=length, batch=batch, **labels, **asked, **scalars(serving),
                )  # fmt: skip
    for dtype in serving["dtypes"]:
        for batch in serving["batches"]:
            yield _point(
                "step", file_names.step(name, dtype, batch), geometry=geometry, dtype=dtype, batch=batch,
                **labels, **scalars(serving),
            )  # fmt: skip


def _labels(name: str, model: Decoder) -> dict[str, Any]:
    """What a spec says of the model that it is measured for; none of it decides the number."""
    stored = model.stored()
    return {"operator": name} | ({"stored": stored} if stored else {})


def _lengths(model: Decoder, wanted: list[int]) -> dict[int, list[int]]:
    """Every length of cache that a layer reads -> the wanted contexts at which one does."""
    found: dict[int, list[int]] = {}
    for context in sequences(model, wanted):
        for each in attentions(model, context, 1):
            found.setdefault(each.length, []).append(context)
    return dict(sorted(found.items()))


def _sweeps(sweep: dict[str, Any]) -> Iterator[Point]:
    for dtype in sweep["dtypes"]:
        sizes = {name: value for name, value in sweep.items() if name != "dtypes"}
        yield _point("sweep", file_names.sweep(dtype, sweep["n"], sweep["k"]), dtype=dtype, **sizes)


def _point(stage: str, name: str, **parameters: Any) -> Point:
    return planned(stage, "gpu", name, PROTOCOL[stage], **parameters)

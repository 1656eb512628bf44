"""What is measured of the config's `operators:`, beside the MiniGPT: attention over S x batch x cache dtype, the rest of
a step at each batch, and one product over many batches, the walk up the slope.

One file per attention shape and per (model, batch), so that a new value in a list changes no other key.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from rooflab.plan.models import resolved
from rooflab.theory import dtypes
from rooflab.theory.geometry import Decoder

# Raised by hand when the way a stage measures changes its numbers.
PROTOCOL = {"attention": 1, "step": 1, "sweep": 1}

Planned = tuple[str, str, dict[str, Any]]  # stage, name, parameters


def planned(config: dict[str, Any]) -> list[Planned]:
    """The stages, names and parameters of a GPU's session; none where the config names no operator."""
    models = resolved(config["operators"])
    if not models:
        return []
    found = {each[:2]: each for name, model in models.items() for each in _of_model(name, model, config["serving"])}
    return [*found.values(), *_sweeps(config["sweep"])]


def names(files: Iterable[str]) -> list[str]:
    """The models that these records or planned files speak of: a file says name, dtype, context if any, and batch."""
    of_a_model = re.compile(rf"/(?:attention|step)/([a-z0-9-]+)-(?:{dtypes.pattern()})-(?:S\d+-)?B\d+\.")
    return sorted({found[1] for file in files if (found := of_a_model.search(file))})


def sequences(model: Decoder, wanted: list[int]) -> list[int]:
    """The contexts that a model has: those of `wanted`, or its longest where it has none of them."""
    return [each for each in wanted if each <= model.context] or [model.context]


def _of_model(name: str, model: Decoder, serving: dict[str, Any]) -> Iterator[Planned]:
    geometry = model.as_dict()
    for dtype in serving["kv_dtypes"]:
        for length in _lengths(model, serving["sequence_lengths"]):
            for batch in serving["batches"]:
                yield "attention", f"{name}-{dtype}-S{length}-B{batch}", {
                    **{"operator": name, "geometry": geometry, "dtype": dtype, "sequence": length, "batch": batch},
                    **_timing(serving),
                }  # fmt: skip
    for dtype in serving["dtypes"]:
        for batch in serving["batches"]:
            yield "step", f"{name}-{dtype}-B{batch}", {
                **{"operator": name, "geometry": geometry, "dtype": dtype, "batch": batch},
                **_timing(serving),
            }  # fmt: skip


def _lengths(model: Decoder, wanted: list[int]) -> list[int]:
    """Every length of cache that a layer of the model reads at one of the wanted contexts."""
    contexts = sequences(model, wanted)
    full = contexts if model.window_layers < model.layers else []
    windowed = [min(context, model.window) for context in contexts] if model.window else []
    return sorted({*full, *windowed})


def _sweeps(sweep: dict[str, Any]) -> Iterator[Planned]:
    for dtype in sweep["dtypes"]:
        yield (
            "sweep",
            f"{dtype}-n{sweep['n']}-k{sweep['k']}",
            {
                **{name: value for name, value in sweep.items() if name != "dtypes"},
                "dtype": dtype,
            },
        )


def _timing(serving: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in serving.items() if not isinstance(value, list)}

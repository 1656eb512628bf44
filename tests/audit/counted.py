"""What an operator needs, counted anew from its definition: FLOP (2 per multiply-add) and bytes (each operand moves once).

Nothing of the product is imported in this folder; the definitions are those of the README and of the docstrings.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SIZE = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "int8": 1}
WRITTEN = {"fp8_e4m3": 2, "int8": 4}  # an fp8 product is written as bf16, an int8 product as int32
COMPUTED_IN = {"fp8_e4m3": "fp16"}  # what multiplies the elements of an fp8 cache
STATE_OF = {"fp8_e4m3": "bf16"}  # the dtype of the state between the products of an fp8 model


@dataclass(frozen=True)
class Need:
    """FLOP and bytes of one occurrence."""

    flop: float
    bytes: float


@dataclass(frozen=True)
class Part:
    """One part of a model's decode step: its need, how often a step has it, and what computes it (None: bandwidth only)."""

    name: str
    need: Need
    count: int
    arithmetic: str | None
    length: int | None = None


def product(m: int, n: int, k: int, dtype: str, groups: int = 1, write: bool = True) -> Need:
    """`groups` products (m, k) x (k, n); `write` counts the result, which the lab's intensity does not."""
    size = SIZE[dtype]
    moved = (m * k + k * n) * size + (m * n * WRITTEN.get(dtype, size) if write else 0)
    return Need(groups * 2 * m * n * k, groups * moved)


def step_product(m: int, n: int, k: int, dtype: str, groups: int = 1) -> Need:
    """The same in a model's step, where an int8 result would be requantised: fp8 writes two bytes, all others their own."""
    size = SIZE[dtype]
    written = 2 if dtype == "fp8_e4m3" else size
    return Need(groups * 2 * m * n * k, groups * ((m * k + k * n) * size + m * n * written))


def attention(batch: int, heads: int, kv_heads: int, length: int, head_dim: int, dtype: str) -> Need:
    """q K^T and p V of one token a sequence over `length` cached ones; the cache is read once."""
    return Need(4 * batch * heads * length * head_dim, 2 * batch * kv_heads * length * head_dim * SIZE[dtype])


def step_parts(model: dict[str, Any], batch: int, dtype: str) -> list[Part]:
    """Every product and element-wise kernel of one decode step of a model (its geometry as in the record)."""
    made = [*_around_attention(model, batch), *_feed_forward(model, batch)]
    made.append(("LM head", batch, model["vocabulary"], model["width"], 1, 1))
    products = [Part(name, step_product(m, n, k, dtype, g), count, dtype) for name, m, n, k, count, g in made]
    between = SIZE[STATE_OF.get(dtype, dtype)]
    return [*products, *(_elementwise(*each, between) for each in _kernels(model, batch))]


def step_attention(model: dict[str, Any], batch: int, length: int, dtype: str) -> Need:
    """One layer's attention of a step over `length` cached tokens; a latent is read once for keys and values (absorbed)."""
    latent = model.get("latent")
    if not latent:
        return attention(batch, model["heads"], model["kv_heads"], length, model["head_dim"], dtype)
    tokens, cached = batch * length, latent["rank"] + latent["rope_dim"]
    return Need(2 * tokens * model["heads"] * (cached + latent["rank"]), tokens * cached * SIZE[dtype])


def lengths(model: dict[str, Any], sequence: int) -> Iterator[tuple[int, int]]:
    """(length, layers) of the attentions at a context: layers with a window see no more than it."""
    windowed = model["window_layers"] if model["window"] and model["window"] < sequence else 0
    if model["layers"] - windowed:
        yield sequence, model["layers"] - windowed
    if windowed:
        yield model["window"], windowed


def cache_bytes(model: dict[str, Any], sequence: int, dtype: str) -> int:
    """One sequence's cache over all layers."""
    latent = model.get("latent")
    each = latent["rank"] + latent["rope_dim"] if latent else 2 * model["kv_heads"] * model["head_dim"]
    return sum(length * layers for length, layers in lengths(model, sequence)) * each * SIZE[dtype]


def weight_bytes(model: dict[str, Any], dtype: str) -> int:
    """All weights: every product's, of every expert, the LM head and the token embedding."""
    total = model["vocabulary"] * model["width"]
    experts = model.get("experts")
    shapes = [*_around_attention(model, 1), *_feed_forward(model, 1)]
    shapes.append(("LM head", 1, model["vocabulary"], model["width"], 1, 1))
    for name, _, n, k, count, groups in shapes:
        total += n * k * count * (experts["count"] if experts and name.startswith("experts") else groups)
    return total * SIZE[dtype]


def _around_attention(model: dict[str, Any], rows: int) -> Iterator[tuple[str, int, int, int, int, int]]:
    """(name, rows, n, k, count, groups) of the projections before and after attention."""
    layers, width, heads, latent = model["layers"], model["width"], model["heads"], model.get("latent")
    if not latent:
        both = heads * model["head_dim"]
        yield "QKV", rows, both + 2 * model["kv_heads"] * model["head_dim"], width, layers, 1
        yield "attention output", rows, width, both, layers, 1
        return
    query, rank = heads * (latent["nope_dim"] + latent["rope_dim"]), latent.get("query_rank") or 0
    yield "query and latent", rows, (rank or query) + latent["rank"] + latent["rope_dim"], width, layers, 1
    if rank:
        yield "query from its latent", rows, query, rank, layers, 1
    yield "heads' queries to the latent", rows, latent["rank"], latent["nope_dim"], layers, heads
    yield "heads' values from the latent", rows, latent["value_dim"], latent["rank"], layers, heads
    yield "attention output", rows, width, heads * latent["value_dim"], layers, 1


def _feed_forward(model: dict[str, Any], batch: int) -> Iterator[tuple[str, int, int, int, int, int]]:
    experts, width = model.get("experts"), model["width"]
    dense = experts["dense_layers"] if experts else model["layers"]
    if dense:
        yield from _mlp(model, "MLP", batch, model["inner"], dense, 1)
    if not experts:
        return
    rest = model["layers"] - dense
    yield "expert choice", batch, experts["count"], width, rest, 1
    if experts["shared"]:
        yield from _mlp(model, "shared experts", batch, experts["shared"] * experts["inner"], rest, 1)
    # how many experts at least one of the tokens chooses, expected under even and independent choices
    met = experts["count"] * (1 - (1 - experts["chosen"] / experts["count"]) ** batch)
    groups = max(experts["chosen"], round(met))
    yield from _mlp(model, "experts", math.ceil(batch * experts["chosen"] / groups), experts["inner"], rest, groups)


def _mlp(
    model: dict[str, Any], name: str, rows: int, inner: int, count: int, groups: int
) -> Iterator[tuple[str, int, int, int, int, int]]:
    gated = model["gated"]
    up = "gate and up" if gated else "up"
    yield f"{name} {up}", rows, inner * (2 if gated else 1), model["width"], count, groups
    yield f"{name} down", rows, model["width"], inner, count, groups


def _kernels(model: dict[str, Any], batch: int) -> Iterator[tuple[str, int, int, int]]:
    """(name, rows, width, count) of the element-wise kernels."""
    norms = model["norms_per_layer"] * model["layers"] + 1
    yield f"norm {model['norm']}", batch, model["width"], norms
    experts, gate = model.get("experts"), " gated" if model["gated"] else ""
    dense = experts["dense_layers"] if experts else model["layers"]
    if dense:
        yield f"activation{gate}", batch, model["inner"], dense
    if experts:
        rest = model["layers"] - dense
        yield f"experts' activation{gate}", batch * experts["chosen"], experts["inner"], rest
        if experts["shared"]:
            yield f"shared experts' activation{gate}", batch, experts["shared"] * experts["inner"], rest


def _elementwise(name: str, rows: int, width: int, count: int, size: int) -> Part:
    """A norm reads state, addition and its vectors and writes sum and norm, 5 FLOP an element; an activation 8."""
    elements = rows * width
    if name.startswith("norm"):
        vectors = 2 if name.endswith("layernorm") else 1
        return Part("norm", Need(5 * elements, (4 * elements + vectors * width) * size), count, None)
    moved = 3 if name.endswith(" gated") else 2
    return Part(name.removesuffix(" gated"), Need(8 * elements, moved * elements * size), count, None)

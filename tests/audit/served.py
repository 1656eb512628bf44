"""The served models: parts, steps and contexts, and the sweeps up the slope, from the raw samples."""

from collections.abc import Iterator
from typing import Any

import counted
import timed
from counted import Need
from expected import floors, is_at, of_limits, roof, serves, slope_of
from timed import Json, Session, median
from tops import beyond, share

MOST_BATCH = 1 << 16


def models(session: Session, tops: dict[str, Json]) -> dict[tuple[str, str, str], Json]:
    """Every model by name, dtype of weights and dtype of cache."""
    steps, caches = session.of("gpu", "step"), session.of("gpu", "attention")
    made = {}
    for name in sorted({record["spec"]["operator"] for record in (steps | caches).values()}):
        geometry, weights, cached = _spoken_of(name, steps, caches)
        for dtype in sorted(weights or cached):
            for kv_dtype in sorted(cached or weights):
                made[name, dtype, kv_dtype] = _model(session, tops, name, geometry, dtype, kv_dtype)
    return made


def _spoken_of(name: str, steps: dict[str, Json], caches: dict[str, Json]) -> tuple[Json, set[str], set[str]]:
    own = [r["spec"] for r in (steps | caches).values() if r["spec"]["operator"] == name]
    kinds = [{r["spec"]["dtype"] for r in some.values() if r["spec"]["operator"] == name} for some in (steps, caches)]
    return own[0]["geometry"], *kinds


def _model(session: Session, tops: dict[str, Json], name: str, geometry: Json, dtype: str, kv_dtype: str) -> Json:
    full = {"latent": None, "experts": None, "window": 0, "window_layers": 0} | geometry
    taken = {
        (r["spec"]["sequence"], r["spec"]["batch"]): r["series"][0]
        for r in session.of("gpu", "attention").values()
        if (r["spec"]["operator"], r["spec"]["dtype"]) == (name, kv_dtype)
    }
    stepped = {
        r["spec"]["batch"]: {series["name"]: series for series in r["series"]}
        for r in session.of("gpu", "step").values()
        if (r["spec"]["operator"], r["spec"]["dtype"]) == (name, dtype)
    }
    parts: dict[tuple[str, int, int | None], Json] = {}
    for (length, batch), series in taken.items():
        need = counted.step_attention(full, batch, length, kv_dtype)
        arithmetic = counted.COMPUTED_IN.get(kv_dtype, kv_dtype)
        parts["attention", batch, length] = _placed(session, tops, need, series, arithmetic, warm=False)
    for batch in {batch for _, batch in taken} | set(stepped):
        for part in counted.step_parts(full, batch, dtype):
            series = stepped.get(batch, {}).get(part.name)
            placed = _placed(session, tops, part.need, series, part.arithmetic, warm=part.arithmetic is None)
            parts[part.name, batch, None] = placed | {"count": part.count}
    memory, weights = session.device("gpu").get("memory_bytes"), counted.weight_bytes(full, dtype)
    lengths = sorted({length for length, _ in taken})
    return {
        "weight_bytes": weights,
        "parts": parts,
        "steps": {
            (length, batch): _step(full, parts, length, batch) | _room(full, weights, length, batch, kv_dtype, memory)
            for length in lengths
            for batch in sorted({batch for _, batch in taken} | set(stepped))
        },
        "contexts": {length: _context(full, tops, weights, length, dtype, kv_dtype, memory) for length in lengths},
        "compute_bound_batch": turns(full, tops, None, dtype, kv_dtype),
    }


def _placed(
    session: Session, tops: dict[str, Json], need: Need, series: Json | None, arithmetic: str | None, warm: bool
) -> Json:
    """A part against its roof; launched by a graph among many others."""
    tier = serves("gpu", need.bytes, warm, tops, session.device("gpu"))
    empty = floors(session).get(("gpu", "graph", "graph"))
    compute = f"gpu-compute-{arithmetic}" if arithmetic else None
    bound = roof(need, tier, compute, slope_of("gpu", tier, tops), empty["median_s"] if empty else None, tops)
    middle = median(series) if series and not timed.was_wrong(series) else None
    shortest = bound[1] if bound else None
    of_limit = of_limits(session, "gpu", arithmetic, series, need, middle, tier)
    return {
        "flop": need.flop,
        "bytes": need.bytes,
        "intensity": need.flop / need.bytes,
        "median_s": middle,
        "achieved_flop_per_s": need.flop / middle if middle else None,
        "attainable_s": shortest,
        "attainable_flop_per_s": need.flop / shortest if shortest else None,
        "fraction_of_attainable": share(shortest, middle),
        "bound_by": bound[0] if bound else None,
        "at_roof": is_at(bound, middle),
        "of_physical_limit": of_limit,
        "impossible": beyond(of_limit),
        "tier": tier,
        "verified": bool(series and timed.was_right(series)),
    }


def _counted(model: Json, parts: dict[Any, Json], sequence: int, batch: int) -> Iterator[tuple[str, Json, int]]:
    for length, layers in counted.lengths(model, sequence):
        if ("attention", batch, length) in parts:
            yield "attention", parts["attention", batch, length], layers
    for (name, of, length), part in parts.items():
        if of == batch and length is None:
            yield name, part, part["count"]


def _step(model: Json, parts: dict[Any, Json], sequence: int, batch: int) -> Json:
    """All parts, each times its occurrences."""
    all_parts = list(_counted(model, parts, sequence, batch))
    whole = all(part["median_s"] is not None for _, part, _ in all_parts)
    took = sum(part["median_s"] * count for _, part, count in all_parts) if whole else None
    least = sum(part["attainable_s"] * count for _, part, count in all_parts)
    bounds: dict[str, float] = {}
    for _, part, count in all_parts:
        bounds[part["bound_by"]] = bounds.get(part["bound_by"], 0.0) + part["attainable_s"] * count
    attention = [part["median_s"] * count for name, part, count in all_parts if whole and name == "attention"]
    return {
        "measured_s": took,
        "attainable_s": least,
        "tokens_per_s": batch / took if took else None,
        "attainable_tokens_per_s": batch / least,
        "fraction_of_attainable": share(least, took),
        "attention_share": sum(attention) / took if took else None,
        "bound_by": max(bounds, key=lambda name: bounds[name]),
    }


def _room(model: Json, weights: int, sequence: int, batch: int, kv_dtype: str, memory: int | None) -> Json:
    asked = weights + batch * counted.cache_bytes(model, sequence, kv_dtype)
    return {"memory_bytes_asked": asked, "fits": None if memory is None else asked <= memory}


def _context(
    model: Json, tops: dict[str, Json], weights: int, sequence: int, dtype: str, kv_dtype: str, memory: int | None
) -> Json:
    each = counted.cache_bytes(model, sequence, kv_dtype)
    return {
        "cache_bytes_per_sequence": each,
        "sequences_that_fit": None if memory is None else max(0, memory - weights) // each,
        "compute_bound_batch": turns(model, tops, sequence, dtype, kv_dtype),
    }


def turns(model: Json, tops: dict[str, Json], sequence: int | None, dtype: str, kv_dtype: str) -> int | None:
    """The batch from which computing takes as long as moving, by the roof: found by halving between powers of two."""
    arithmetic, slope = counted.COMPUTED_IN.get(kv_dtype, kv_dtype), tops.get("gpu-memory-read")
    rates = {name: tops.get(f"gpu-compute-{name}") for name in (dtype, arithmetic)}
    if slope is None or None in rates.values():
        return None

    def computes(batch: int) -> bool:
        needs = [(p.need, p.count, dtype) for p in counted.step_parts(model, batch, dtype) if p.arithmetic]
        for length, layers in counted.lengths(model, sequence) if sequence else ():
            needs.append((counted.step_attention(model, batch, length, kv_dtype), layers, arithmetic))
        flop_s = sum(count * need.flop / rates[name]["burst"] for need, count, name in needs)  # type: ignore[index]
        return bool(flop_s >= sum(count * need.bytes for need, count, _ in needs) / slope["burst"])

    high = 1
    while high <= MOST_BATCH and not computes(high):
        high *= 2
    if high > MOST_BATCH:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if computes(middle) else (middle, high)
    return high


def sweeps(session: Session, tops: dict[str, Json]) -> dict[str, dict[int, Json]]:
    """Each sweep by its file: {batch: point}."""
    made = {}
    for file, record in session.of("gpu", "sweep").items():
        spec = record["spec"]
        made[file] = {
            (batch := int(series["name"][1:])): _placed(
                session,
                tops,
                counted.step_product(batch, spec["n"], spec["k"], spec["dtype"]),
                series,
                spec["dtype"],
                warm=False,
            )
            for series in record["series"]
        }
    return made

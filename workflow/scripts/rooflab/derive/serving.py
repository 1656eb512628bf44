"""The answer about the model someone is about to serve: where each part of its decode step lands, and what they sum to.

Nothing is interpolated: a step has a measured time only where every part of it was measured at that S and batch.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rooflab.derive.ceilings import fraction
from rooflab.derive.evidence import Records, facts, measured
from rooflab.derive.serving_points import (
    Roof,
    Setting,
    attention_points,
    cache_arithmetic,
    other_points,
    roof,
    stored_seconds,
    sweep_points,
    weighty_works,
)
from rooflab.plan.models import as_shipped, source_of
from rooflab.plan.operators import sequences
from rooflab.theory import step as model_theory
from rooflab.theory import storage
from rooflab.theory.dtypes import dtype
from rooflab.theory.geometry import Decoder, decoder
from rooflab.theory.step import LEFT_OUT

Record = dict[str, Any]

MOST_BATCH = 1 << 16  # no batch beyond this is looked at


def models(
    records: Records, ceilings: list[Record], floors: list[Record], asked: Iterable[Record] = ()
) -> list[Record]:
    """One entry per model, dtype of weights and dtype of cache that the session's records speak of; a model that is `asked`
    for ({"name", "geometry", "contexts"}) is spoken of where its sizes were measured, under whatever name."""
    over = roof(records, ceilings, floors)
    memory = (facts(records, "gpu") or {}).get("memory_bytes")
    return [_model(setting, records, over, memory) for setting in _settings(records, asked)]


def sweeps(records: Records, ceilings: list[Record], floors: list[Record]) -> list[Record]:
    """The measured curves up the slope, with their largest gap below min(slope, ceiling)."""
    over, made = roof(records, ceilings, floors), []
    for file, record in measured(records, "gpu", "sweep").items():
        points = sweep_points(record, over)
        judged = [p for p in points if p["fraction_of_attainable"] is not None]
        worst = min(judged, key=lambda p: float(p["fraction_of_attainable"]), default=None)
        gap = {key: worst[key] for key in ("batch", "intensity", "fraction_of_attainable")} if worst else None
        head = {"dtype": record["spec"]["dtype"], "n": record["spec"]["n"], "k": record["spec"]["k"], "file": file}
        made.append(head | {"points": points, "largest_gap": gap})
    return made


def _settings(records: Records, asked: Iterable[Record]) -> list[Setting]:
    """Every combination of weights' and cache's dtype that both were measured in, by name."""
    specs = {stage: [r["spec"] for r in measured(records, "gpu", stage).values()] for stage in ("step", "attention")}
    kept: dict[str, tuple[Decoder, tuple[int, ...]]] = {}
    for spec in [*specs["step"], *specs["attention"]]:
        kept.setdefault(spec["operator"], (as_shipped(spec["operator"], _decoder(spec)), ()))
    kept |= {each["name"]: (decoder(each["geometry"]), tuple(each["contexts"])) for each in asked}
    made = []
    for name, (model, contexts) in sorted(kept.items()):
        found = {stage: {s["dtype"] for s in own if s["geometry"] == model.timed()} for stage, own in specs.items()}
        weights, caches = found["step"] or found["attention"], found["attention"] or found["step"]
        made += [Setting(name, model, mine, cached, contexts) for mine in sorted(weights) for cached in sorted(caches)]
    return made


def _decoder(spec: Record) -> Decoder:
    return decoder({**spec["geometry"], **spec.get("stored", {})})


def _specs(records: Records, stage: str, setting: Setting, dtype_name: str) -> list[Record]:
    found = [record["spec"] for record in records.values() if record["stage"] == stage]
    return [spec for spec in found if setting.holds(spec) and spec["dtype"] == dtype_name]


def _contexts(setting: Setting, specs: Iterable[Record]) -> list[int]:
    """The contexts with a row: those that are asked for and the model has, and those the measured caches were taken for."""
    taken = [context for spec in specs for context in spec.get("contexts", [spec["sequence"]])]
    wanted = sequences(setting.model, list(setting.asked)) if setting.asked else []
    return sorted({*taken, *wanted})


def _model(setting: Setting, records: Records, over: Roof, memory: int | None) -> Record:
    model, cached = setting.model, _specs(records, "attention", setting, setting.kv_dtype)
    batches = sorted({spec["batch"] for spec in [*cached, *_specs(records, "step", setting, setting.dtype)]})
    contexts = _contexts(setting, cached)
    lengths = sorted({each.length for context in contexts for each in model_theory.attentions(model, context, 1)})
    attention = [p for batch in batches for p in attention_points(setting, records, over, lengths, batch)]
    others = [p for batch in batches for p in other_points(setting, records, over, batch)]
    steps = [_step(setting, attention, others, context, batch) for context in contexts for batch in batches]
    weight_bytes = storage.weight_bytes(model, dtype(setting.dtype).bytes)
    return {
        "name": setting.name,
        "source": source_of(setting.name, model),
        "geometry": model.as_dict(),
        "parameters": storage.parameters(model),
        "stored": storage.scheme(model),
        "dtype": setting.dtype,
        "kv_dtype": setting.kv_dtype,
        "weight_bytes": weight_bytes,
        "memory_bytes": memory,
        "contexts": [_context(setting, over, sequence, weight_bytes, memory) for sequence in contexts],
        "beyond_context": sorted(context for context in setting.asked if context not in contexts),
        "compute_bound_batch": _compute_bound_batch(setting, over, None),
        "operators": [*attention, *others],
        "steps": [_with_room(step, setting, over, weight_bytes, memory) for step in steps],
        "left_out": list(LEFT_OUT),
    }


def _context(setting: Setting, over: Roof, sequence: int, weight_bytes: int, memory: int | None) -> Record:
    """What a context of `sequence` tokens costs: cache per sequence, how many fit, and where the step turns."""
    per_sequence = _cache_bytes(setting, sequence)
    windowed = {each.length for each in model_theory.attentions(setting.model, sequence, 1)} - {sequence}
    return {
        "sequence": sequence,
        "window_tokens": min(windowed, default=None),
        "cache_bytes_per_sequence": per_sequence,
        "sequences_that_fit": None if memory is None else max(0, memory - weight_bytes) // per_sequence,
        "compute_bound_batch": _compute_bound_batch(setting, over, sequence),
    }


def _cache_bytes(setting: Setting, sequence: int) -> int:
    element_bytes = storage.kv_element_bytes(setting.model, dtype(setting.kv_dtype).bytes)
    return model_theory.cache_bytes(setting.model, sequence, element_bytes)


def _with_room(step: Record, setting: Setting, over: Roof, weight_bytes: int, memory: int | None) -> Record:
    """With the memory it takes, and, for a quantized checkpoint, its time by the roof as stored."""
    asked = weight_bytes + step["batch"] * _cache_bytes(setting, step["sequence"])
    is_quantized = setting.model.quantization is not None
    stored_s = stored_seconds(setting, over, step["sequence"], step["batch"]) if is_quantized else None
    fits = None if memory is None else asked <= memory
    return step | {"stored_attainable_s": stored_s, "memory_bytes_asked": asked, "fits": fits}


def _step(setting: Setting, attention: list[Record], others: list[Record], sequence: int, batch: int) -> Record:
    """All parts of one step summed: measured, and by the roof."""
    counted = [
        (point, each.count)
        for each in model_theory.attentions(setting.model, sequence, batch)
        for point in attention
        if (point["length"], point["batch"]) == (each.length, batch)
    ]
    counted += [(point, point["count"]) for point in others if point["batch"] == batch]
    missing = sorted({p["part"] for p, _ in counted if p["median_s"] is None})
    measured_s = None if missing else sum(p["median_s"] * count for p, count in counted)
    known = all(p["attainable_s"] is not None for p, _ in counted)
    attainable_s = sum(p["attainable_s"] * count for p, count in counted) if known else None
    return {
        "sequence": sequence,
        "batch": batch,
        "measured_s": measured_s,
        "attainable_s": attainable_s,
        "tokens_per_s": batch / measured_s if measured_s else None,
        "attainable_tokens_per_s": batch / attainable_s if attainable_s else None,
        "fraction_of_attainable": fraction(attainable_s, measured_s),
        "bound_by": _largest_bound(counted) if known else None,
        "attention_share": _attention_share(counted, measured_s),
        "missing": missing,
    }


def _largest_bound(counted: Iterable[tuple[Record, int]]) -> str | None:
    """The bound that takes the largest part of the attainable time."""
    seconds: Counter[str] = Counter()
    for point, count in counted:
        seconds[point["bound_by"]] += point["attainable_s"] * count
    return max(seconds, key=lambda bound: seconds[bound], default=None)


def _attention_share(counted: Iterable[tuple[Record, int]], measured_s: float | None) -> float | None:
    if not measured_s:
        return None
    return float(sum(p["median_s"] * count for p, count in counted if p["kind"] == "attention") / measured_s)


def _compute_bound_batch(setting: Setting, over: Roof, sequence: int | None) -> int | None:
    """The smallest batch at which the roof's computing takes as long as its moving: of the products alone, or with the
    attention at a context of `sequence`; None where no batch up to MOST_BATCH does, or a ceiling is missing."""
    rates = {name: over.flop_per_s(name) for name in (setting.dtype, cache_arithmetic(setting.kv_dtype))}
    known, bytes_per_s = {name: rate for name, rate in rates.items() if rate}, over.bytes_per_s()
    if bytes_per_s is None or len(known) < len(rates):
        return None

    def is_bound(batch: int) -> bool:
        works = list(weighty_works(setting, batch, sequence))
        computing = sum(count * work.flop / known[arithmetic] for work, count, arithmetic in works)
        return computing >= sum(count * work.bytes for work, count, _ in works) / bytes_per_s

    high = next((1 << power for power in range(MOST_BATCH.bit_length()) if is_bound(1 << power)), None)
    if high is None:
        return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_bound(middle) else (middle, high)
    return high

"""The answer about the model someone is about to serve: where each part of its decode step lands, and what they sum to.

Nothing is interpolated: a step has a measured time only where every part of it was measured at that S and batch.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from rooflab.derive.evidence import facts, measured
from rooflab.derive.roof import AT_ROOF, Roof, roof
from rooflab.derive.series import fraction
from rooflab.derive.serving_points import (
    Setting,
    attention_points,
    cache_arithmetic,
    other_points,
    stored_seconds,
    sweep_points,
    weighty_works,
)
from rooflab.plan.models import as_shipped, source_of
from rooflab.plan.operators import sequences
from rooflab.record.document_types import Context, Gap, Part, Served, Step, Sweep
from rooflab.record.roof_types import Ceiling, Floor
from rooflab.record.types import Json, Records
from rooflab.theory import step as theory
from rooflab.theory import storage
from rooflab.theory.dtypes import dtype
from rooflab.theory.geometry import Decoder, decoder
from rooflab.theory.step import LEFT_OUT

MOST_BATCH = 1 << 16  # no batch beyond this is looked at


def models(
    records: Records, ceilings: Sequence[Ceiling], floors: Sequence[Floor], asked: Iterable[Json] = ()
) -> list[Served]:
    """One entry per model, dtype of weights and dtype of cache that the session's records speak of; a model that is `asked`
    for ({"name", "geometry", "contexts"}) is spoken of where its sizes were measured, under whatever name."""
    over = roof(records, "gpu", ceilings, floors)
    memory = (facts(records, "gpu") or {}).get("memory_bytes")
    return [_model(setting, records, over, memory) for setting in _settings(records, asked)]


def sweeps(records: Records, ceilings: Sequence[Ceiling], floors: Sequence[Floor]) -> list[Sweep]:
    """The measured curves up the slope, with their largest gap below min(slope, ceiling)."""
    over, made = roof(records, "gpu", ceilings, floors), list[Sweep]()
    for file, record in measured(records, "gpu", "sweep").items():
        spec, points = record["spec"], sweep_points(record, records, over)
        gaps: list[Gap] = [
            {"batch": point["batch"], "intensity": point["intensity"], "fraction_of_attainable": share}
            for point in points
            if (share := point["fraction_of_attainable"]) is not None
        ]
        made.append(
            {
                "dtype": spec["dtype"],
                "n": spec["n"],
                "k": spec["k"],
                "file": file,
                "points": points,
                "largest_gap": min(gaps, key=lambda gap: gap["fraction_of_attainable"], default=None),
            }
        )
    return made


def _settings(records: Records, asked: Iterable[Json]) -> list[Setting]:
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


def _decoder(spec: Json) -> Decoder:
    return decoder({**spec["geometry"], **spec.get("stored", {})})


def _specs(records: Records, stage: str, setting: Setting, dtype_name: str) -> list[Json]:
    found = [record["spec"] for record in records.values() if record["stage"] == stage]
    return [spec for spec in found if setting.holds(spec) and spec["dtype"] == dtype_name]


def _contexts(setting: Setting, specs: Iterable[Json]) -> list[int]:
    """The contexts with a row: those that are asked for and the model has, and those the measured caches were taken for."""
    taken = [context for spec in specs for context in spec.get("contexts", [spec["sequence"]])]
    wanted = sequences(setting.model, list(setting.asked)) if setting.asked else []
    return sorted({*taken, *wanted})


def _model(setting: Setting, records: Records, over: Roof, memory: int | None) -> Served:
    model, cached = setting.model, _specs(records, "attention", setting, setting.kv_dtype)
    batches = sorted({spec["batch"] for spec in [*cached, *_specs(records, "step", setting, setting.dtype)]})
    contexts = _contexts(setting, cached)
    lengths = sorted({each.length for context in contexts for each in theory.attentions(model, context, 1)})
    attention = [p for batch in batches for p in attention_points(setting, records, over, lengths, batch)]
    others = [p for batch in batches for p in other_points(setting, records, over, batch)]
    parts, weight_bytes = [*attention, *others], storage.weight_bytes(model, dtype(setting.dtype).bytes)
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
        "operators": parts,
        "steps": [_step(setting, over, parts, s, b, weight_bytes, memory) for s in contexts for b in batches],
        "left_out": list(LEFT_OUT),
    }


def _context(setting: Setting, over: Roof, sequence: int, weight_bytes: int, memory: int | None) -> Context:
    """What a context of `sequence` tokens costs: cache per sequence, how many fit, and where the step turns."""
    per_sequence = _cache_bytes(setting, sequence)
    windowed = {each.length for each in theory.attentions(setting.model, sequence, 1)} - {sequence}
    return {
        "sequence": sequence,
        "window_tokens": min(windowed, default=None),
        "cache_bytes_per_sequence": per_sequence,
        "sequences_that_fit": None if memory is None else max(0, memory - weight_bytes) // per_sequence,
        "compute_bound_batch": _compute_bound_batch(setting, over, sequence),
    }


def _cache_bytes(setting: Setting, sequence: int) -> int:
    element_bytes = storage.kv_element_bytes(setting.model, dtype(setting.kv_dtype).bytes)
    return theory.cache_bytes(setting.model, sequence, element_bytes)


def _step(
    setting: Setting, over: Roof, parts: list[Part], sequence: int, batch: int, weight_bytes: int, memory: int | None
) -> Step:
    """All parts of one step summed: measured, by the roof, and, for a quantized checkpoint, by the roof as stored."""
    counted = _counted(setting, [part for part in parts if part["batch"] == batch], sequence, batch)
    missing = sorted({part["part"] for part, _ in counted if part["median_s"] is None})
    measured_s = None if missing else _summed(counted, "median_s")
    attainable_s = _summed(counted, "attainable_s")
    share = fraction(attainable_s, measured_s)
    is_quantized = setting.model.quantization is not None
    asked = weight_bytes + batch * _cache_bytes(setting, sequence)
    return {
        "sequence": sequence,
        "batch": batch,
        "measured_s": measured_s,
        "attainable_s": attainable_s,
        "tokens_per_s": batch / measured_s if measured_s else None,
        "attainable_tokens_per_s": batch / attainable_s if attainable_s else None,
        "fraction_of_attainable": share,
        "bound_by": _largest_bound(counted) if attainable_s is not None else None,
        "at_roof": None if share is None else share >= AT_ROOF,
        "attention_share": _attention_share(counted, measured_s),
        "missing": missing,
        "stored_attainable_s": stored_seconds(setting, over, sequence, batch) if is_quantized else None,
        "memory_bytes_asked": asked,
        "fits": None if memory is None else asked <= memory,
    }


def _counted(setting: Setting, parts: list[Part], sequence: int, batch: int) -> list[tuple[Part, int]]:
    """The parts of one step with how often each occurs: attention by its lengths of cache, then the others."""
    attention = [
        (part, each.count)
        for each in theory.attentions(setting.model, sequence, batch)
        for part in parts
        if part["length"] == each.length
    ]
    return attention + [(part, part["count"]) for part in parts if part["length"] is None and part["count"] is not None]


def _summed(counted: Iterable[tuple[Part, int]], field: Literal["median_s", "attainable_s"]) -> float | None:
    """Seconds of all parts; None where one is not known."""
    seconds = [None if (each := part[field]) is None else each * count for part, count in counted]
    return None if None in seconds else float(sum(filter(None, seconds)))


def _largest_bound(counted: Iterable[tuple[Part, int]]) -> str | None:
    """The bound that takes the largest part of the attainable time."""
    seconds: dict[str, float] = defaultdict(float)
    for part, count in counted:
        seconds[str(part["bound_by"])] += (part["attainable_s"] or 0.0) * count
    return max(seconds, key=lambda bound: seconds[bound], default=None)


def _attention_share(counted: Iterable[tuple[Part, int]], measured_s: float | None) -> float | None:
    spent = _summed([(part, count) for part, count in counted if part["kind"] == "attention"], "median_s")
    return fraction(spent, measured_s)


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

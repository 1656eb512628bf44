"""Each part of a model's decode step against its roof: what was measured, what is attainable, and what bounds it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rooflab.derive.chip import physics
from rooflab.derive.evidence import measured
from rooflab.derive.roof import Limit, Roof, Way, is_at
from rooflab.derive.series import fraction, median_s, refuted, verified
from rooflab.record.document_types import Part, PlacedPart, Walked
from rooflab.record.types import Json, Record, Records, Series
from rooflab.theory import step, storage
from rooflab.theory.dtypes import dtype, result_bytes
from rooflab.theory.geometry import Decoder
from rooflab.theory.work import Work


@dataclass(frozen=True)
class Setting:
    """One way to serve a model: its name and geometry, the dtype of weights and activations, that of the cache, and the
    contexts that are asked for beside those that were measured."""

    name: str
    model: Decoder
    dtype: str
    kv_dtype: str
    asked: tuple[int, ...] = ()

    def holds(self, spec: Json) -> bool:
        """Whether a record's spec is about these sizes, under whatever name."""
        return bool(spec["geometry"] == self.model.timed())


def attention_points(setting: Setting, records: Records, over: Roof, lengths: list[int], batch: int) -> list[Part]:
    """One layer's attention at each length of cache."""
    taken = {
        (record["spec"]["sequence"], record["spec"]["batch"]): (file, record)
        for file, record in measured(records, "gpu", "attention").items()
        if setting.holds(record["spec"]) and record["spec"]["dtype"] == setting.kv_dtype
    }
    made: list[Part] = []
    for length in lengths:
        work = step.attention_work(setting.model, batch, length, dtype(setting.kv_dtype).bytes)
        file, record = taken.get((length, batch), (None, None))
        series = record["series"][0] if record else None
        made.append(
            {
                "part": "attention",
                "kind": "attention",
                "batch": batch,
                "length": length,
                "count": None if setting.model.window else setting.model.layers,
                **_placed(work, series, file, records, over, cache_arithmetic(setting.kv_dtype)),
            }
        )
    return made


def other_points(setting: Setting, records: Records, over: Roof, batch: int) -> list[Part]:
    """Every product and element-wise kernel of a step at `batch`."""
    file, series = _step_series(setting, records, batch)
    made: list[Part] = []
    for part, work, arithmetic in _other_parts(setting, batch):
        found = series.get(part.part)
        made.append(
            {
                "part": part.part,
                "kind": "product" if arithmetic else "elementwise",
                "batch": batch,
                "length": None,
                "count": part.count,
                **_placed(work, found, file if found else None, records, over, arithmetic),
            }
        )
    return made


def weighty_works(setting: Setting, batch: int, sequence: int | None) -> Iterator[tuple[Work, int, str]]:
    """Work, count and arithmetic of what reads weights, and, at a context of `sequence`, of attention."""
    for part, work, arithmetic in _other_parts(setting, batch):
        if arithmetic is not None:
            yield work, part.count, arithmetic
    size, arithmetic = dtype(setting.kv_dtype).bytes, cache_arithmetic(setting.kv_dtype)
    for each in step.attentions(setting.model, sequence, batch) if sequence else ():
        yield step.attention_work(setting.model, batch, each.length, size), each.count, arithmetic


def stored_seconds(setting: Setting, over: Roof, sequence: int, batch: int) -> float | None:
    """What a step takes by the roof with weights and cache as the checkpoint stores them; None where a ceiling is missing.
    Products are computed in the checkpoint's format where it quantizes the activations too, else in the dtype of serving."""
    seconds = 0.0
    for part, work, arithmetic in stored_parts(setting, sequence, batch):
        limit = part_limit(work, over, arithmetic)
        if limit is None or (arithmetic and over.flop_per_s(arithmetic) is None):
            return None
        seconds += part.count * limit.seconds
    return seconds


def stored_parts(setting: Setting, sequence: int, batch: int) -> Iterator[tuple[Any, Work, str | None]]:
    """Every part of a step at a context of `sequence`, its work with weights and cache as stored, and what computes it."""
    size, model = dtype(setting.dtype).bytes, setting.model
    for part, work, arithmetic in _other_parts(setting, batch):
        if arithmetic is None:
            yield part, work, None
            continue
        weights = storage.product_bytes(model, part, size)
        moved = work.bytes - part.weight_elements() * size + round(weights)
        yield part, Work(work.flop, moved), _computed_in(model, part, weights, size) or arithmetic
    for each in step.attentions(model, sequence, batch):
        cached = storage.kv_element_bytes(model, dtype(setting.kv_dtype).bytes)
        yield each, step.attention_work(model, batch, each.length, cached), cache_arithmetic(setting.kv_dtype)
    for each in step.index(model, sequence, batch):
        yield each, step.index_work(model, batch, each.length), "fp8_e4m3"


def _computed_in(model: Decoder, part: step.Product, weights: float, size: int) -> str:
    """The format of a quantized product that multiplies in it; empty for a part that stays as it is."""
    is_kept = weights >= part.weight_elements() * size
    return model.quantization.arithmetic if model.quantization and not is_kept else ""


def cache_arithmetic(kv_dtype: str) -> str:
    """What multiplies elements of a cache in `kv_dtype`."""
    return dtype(kv_dtype).arithmetic


def sweep_points(record: Record, records: Records, over: Roof) -> list[Walked]:
    """The measured walk up the slope, one point per batch; weights come from main memory at each of them."""
    spec = record["spec"]
    size, made = dtype(spec["dtype"]).bytes, list[Walked]()
    for series in record["series"]:
        batch = int(series["name"].removeprefix("m"))
        product = step.Product("projection", batch, spec["n"], spec["k"], 1)
        work = product.work(size, result_bytes(spec["dtype"]))
        made.append({"batch": batch, **_placed(work, series, None, records, over, spec["dtype"])})
    return sorted(made, key=lambda point: point["batch"])


def _other_parts(setting: Setting, batch: int) -> Iterator[tuple[Any, Work, str | None]]:
    size = dtype(setting.dtype).bytes
    for product in step.products(setting.model, batch):
        yield product, product.work(size, result_bytes(setting.dtype)), setting.dtype
    between = dtype(dtype(setting.dtype).between).bytes
    for kernel in step.elementwise(setting.model, batch):
        yield kernel, kernel.work(between), None


def _step_series(setting: Setting, records: Records, batch: int) -> tuple[str | None, dict[str, Series]]:
    for file, record in measured(records, "gpu", "step").items():
        spec = record["spec"]
        if setting.holds(spec) and (spec["dtype"], spec["batch"]) == (setting.dtype, batch):
            return file, {series["name"]: series for series in record["series"]}
    return None, {}


def _way(arithmetic: str | None) -> Way:
    """A graph among many others; what computes reads weights or a cache that are cold, what does not, its neighbour's
    result."""
    return Way(arithmetic, "cold" if arithmetic else "warm", "graph", "graph")


def part_limit(work: Work, over: Roof, arithmetic: str | None) -> Limit | None:
    """What sets the shortest time of a part; None where no ceiling is known."""
    return over.place(work, _way(arithmetic), work.bytes).limit


def _placed(
    work: Work, series: Series | None, file: str | None, records: Records, over: Roof, arithmetic: str | None
) -> PlacedPart:
    """A part under its roof; a result that is wrong is not measured."""
    place = over.place(work, _way(arithmetic), work.bytes)
    middle = median_s(series) if series is not None and not refuted(series) else None
    attainable_s = place.limit.seconds if place.limit else None
    of_limit = _of_physical_limit(work, middle, series, records, arithmetic, place.tier)
    return {
        "flop": work.flop,
        "bytes": work.bytes,
        "intensity": work.intensity,
        "median_s": middle,
        "achieved_flop_per_s": work.flop / middle if middle else None,
        "attainable_s": attainable_s,
        "attainable_flop_per_s": work.flop / attainable_s if attainable_s else None,
        "fraction_of_attainable": fraction(attainable_s, middle),
        "bound_by": place.limit.bound if place.limit else None,
        "at_roof": is_at(place.limit, middle),
        "tier": place.tier,
        "of_physical_limit": of_limit,
        "impossible": physics.is_impossible(of_limit),
        "implementation": series["implementation"] if series else None,
        "verified": bool(series and verified(series)),
        "file": file,
    }


def _of_physical_limit(
    work: Work, seconds: float | None, series: Series | None, records: Records, arithmetic: str | None, tier: str
) -> float | None:
    """The part's rates over what the chip can do: computing in its arithmetic, and moving over the bus."""
    if seconds is None:
        return None
    most = physics.flop_per_s(records, "gpu", arithmetic, series) if arithmetic else None
    moved = physics.share(work.bytes / seconds, physics.bytes_per_s(records, tier))
    return physics.highest(physics.share(work.flop / seconds, most), moved)

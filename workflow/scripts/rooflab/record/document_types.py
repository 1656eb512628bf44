"""The shapes of roofline.json as a whole: served models, holes, checks and answers around the roofline. Fields: `workflow/schemas/`."""

from typing import Any, TypedDict

from rooflab.record.roof_types import Ceiling, Floor, Needed, Point, Ridge
from rooflab.record.types import Json, Reason, Told


class PlacedPart(Needed):
    """One occurrence of a part under its roof; what was not measured is null."""

    median_s: float | None
    achieved_flop_per_s: float | None
    attainable_s: float | None
    attainable_flop_per_s: float | None
    fraction_of_attainable: float | None
    bound_by: str | None
    at_roof: bool | None
    tier: str
    of_physical_limit: float | None
    impossible: bool
    implementation: str | None
    verified: bool
    file: str | None


class Part(PlacedPart):
    """One part of a model's decode step."""

    part: str
    kind: str
    batch: int
    length: int | None
    count: int | None


class Walked(PlacedPart):
    """One batch of a sweep up the slope."""

    batch: int


class Step(TypedDict):
    """One decode step of a served model: its parts summed, measured and by the roof."""

    sequence: int
    batch: int
    measured_s: float | None
    attainable_s: float | None
    tokens_per_s: float | None
    attainable_tokens_per_s: float | None
    at_roof: bool | None
    fraction_of_attainable: float | None
    bound_by: str | None
    attention_share: float | None
    missing: list[str]
    stored_attainable_s: float | None
    memory_bytes_asked: int
    fits: bool | None


class Context(TypedDict):
    """What a context of so many tokens costs."""

    sequence: int
    window_tokens: int | None
    cache_bytes_per_sequence: int
    sequences_that_fit: int | None
    compute_bound_batch: int | None


class Served(TypedDict):
    """A served model in one dtype of weights and one of cache."""

    name: str
    source: str | None
    geometry: Json
    parameters: int
    stored: Json | None
    dtype: str
    kv_dtype: str
    weight_bytes: int
    beyond_context: list[int]
    memory_bytes: int | None
    compute_bound_batch: int | None
    contexts: list[Context]
    operators: list[Part]
    steps: list[Step]
    left_out: list[str]


class Gap(TypedDict):
    """Where a sweep lies furthest below its roof."""

    batch: int
    intensity: float
    fraction_of_attainable: float


class Sweep(TypedDict):
    """One product over many batches."""

    dtype: str
    n: int
    k: int
    file: str
    points: list[Walked]
    largest_gap: Gap | None


class Hole(TypedDict):
    """What is planned and not known."""

    file: str
    stage: str
    name: str
    side: str
    status: str
    reason: Reason | None
    remedy: str | None


class Check(TypedDict):
    """One condition: pass, fail or not applicable, with its numbers."""

    name: str
    status: str
    value: Any
    limit: float | None
    advice: list[Told]
    reason: list[Reason]


class Source(TypedDict):
    """A record that the figures come from."""

    file: str
    sha256: str


class Answers(TypedDict):
    """The figures of the three paragraphs."""

    gemm: Json
    decode: Json
    cpu: Json


class Roofline(TypedDict):
    """Everything the picture and the prose may say."""

    schema: str
    schema_version: int
    session: str
    main_side: str
    generated_from: list[Source]
    devices: dict[str, Json | None]
    ceilings: list[Ceiling]
    floors: list[Floor]
    points: list[Point]
    ridge_points: list[Ridge]
    models: list[Served]
    sweeps: list[Sweep]
    holes: list[Hole]
    checks: list[Check]
    answers: Answers
    notes: list[Told]

"""The shapes of what travels between the rooms: records, and what the derivation makes of them.

Each is a JSON object whose fields and meaning stand in `workflow/schemas/`; a test holds these against the schemas.
SI base units. Durations are in seconds, rates in FLOP/s or bytes/s, sizes in bytes.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

Json = dict[str, Any]


class Told(TypedDict):
    """Something to be said, as a code of the catalogue of texts and the values its placeholders take."""

    code: str
    values: dict[str, Any]


Reason = Told | str  # what the derivation says, or a record's or the vendor table's own words


class Planned(TypedDict):
    """One planned measurement: the file it is published as, and which it is."""

    file: str
    stage: str
    side: str
    name: str


class Chip(TypedDict):
    """What the chip said around a series: clocks in Hz, power in W, temperature in °C, throttle reasons."""

    before: Json
    during: Json
    after: Json


class Clock(TypedDict):
    """The SM clock inside the timed blocks, Hz, median over the blocks whose two stamps ran on one SM; null with its reason."""

    sm_hz: float | None
    sm_hz_low: float | None
    sm_hz_high: float | None
    pairs: int
    where: str | None
    reason: str | None


class Track(TypedDict):
    """A long run block by block, a value for each sample: its begin in seconds from the run's, the clock inside it, the
    chip's temperature in °C and its energy counter in J after it."""

    start_s: list[float]
    sm_hz: NotRequired[list[float | None]]
    temperature_c: NotRequired[list[float | None]]
    energy_j: NotRequired[list[float | None]]


class Series(TypedDict):
    """One way in which an operator was timed; `samples_s` in the order they were taken, of so many launches each."""

    name: str
    implementation: str
    launch: str
    timing: str
    cache: str | None
    warmups: int
    iterations_per_sample: int
    samples_s: list[float]
    chip: Chip
    relative_error: float | None
    tolerance: float | None
    clock: NotRequired[Clock]
    parts_s: NotRequired[list[float] | None]
    track: NotRequired[Track]


class Record(TypedDict):
    """A measurement: what the clock and the device said, nothing derived."""

    schema: str
    schema_version: int
    stage: str
    side: str
    name: str
    key: str
    attempt: int
    spec: Json
    status: str
    reason: str | None
    remedy: str | None
    operator: str | None
    dtype: str | None
    shape: dict[str, int]
    series: list[Series]
    details: Json
    device: Json
    environment: Json
    started_at: str
    seconds: float
    sha256: str


Records = Mapping[str, Record]  # by the file under the session's folder


class ClockSplit(TypedDict):
    """The clock inside the timed blocks over the one that the vendor's figure assumes; null with the code of its reason."""

    measured_hz: float | None
    vendor_hz: float | None
    factor: float | None
    reason: str | None


class UseSplit(TypedDict):
    """The share of what the units can issue at the measured clock; null with the code of its reason."""

    of_issue_rate: float | None
    reason: str | None


class Clocked(TypedDict):
    """What the stamps and gauges say of a compute ceiling and of its sustained run."""

    clock_hz: float | None
    clock: ClockSplit | None
    use: UseSplit | None
    sustained_clock_hz: float | None
    sustained_temperature_c: float | None
    sustained_power_w: float | None


class Swept(TypedDict):
    """A slope taken over buffer sizes: L2."""

    reach_bytes: int | None
    sweep: list[list[float]] | None
    plateau: list[float] | None
    plateau_bytes: list[int] | None


class Ceiling(Clocked, Swept):
    """What a chip was seen to do at best: a compute ceiling (FLOP/s) or a memory slope (bytes/s)."""

    id: str
    side: str
    kind: str
    label: str
    dtype: str | None
    variant: str | None
    unit: str | None
    accumulator: str | None
    tier: str | None
    pattern: str | None
    burst: float
    burst_spread: list[float]
    sustained: float | None
    unit_of_value: str
    vendor: float | None
    fraction_of_vendor: float | None
    sustained_fraction_of_vendor: float | None
    power_capped: bool | None
    sm_clock_hz: float | None
    of_physical_limit: float | None
    impossible: bool
    implementation: str
    series: str | None
    samples: int
    n: int | None
    file: str


class Floor(TypedDict):
    """The time of launching nothing, one way of launching."""

    id: str
    side: str
    launch: str
    timing: str
    median_s: float
    p10_s: float
    p90_s: float
    file: str


class Timed(TypedDict):
    """One series of an operator: how it was run, and what the clock said of one launch."""

    implementation: str
    launch: str
    timing: str
    cache: str | None
    median_s: float
    p10_s: float
    p90_s: float
    min_s: float
    samples: int
    verified: bool
    relative_error: float | None


class Needed(TypedDict):
    """What an operator needs by theory."""

    flop: int
    bytes: int
    intensity: float


class Placed(TypedDict):
    """Where a point stands under its roof."""

    achieved_flop_per_s: float
    achieved_bytes_per_s: float
    attainable_flop_per_s: float | None
    bound_by: str | None
    at_roof: bool | None
    limit: str | None
    launch_floor_s: float | None
    launch_floor_p10_s: float | None
    launch_floor_p90_s: float | None
    host_bound: bool
    tier: str
    memory_ceiling: str | None
    fraction_of_attainable: float | None
    fraction_of_ceiling: float | None
    fraction_of_fp16_peak: float | None
    fraction_of_vendor: float | None
    above_roof: bool
    of_physical_limit: float | None
    impossible: bool


class Named(TypedDict):
    """Which operator a point is, and by which convention its bytes are counted."""

    id: str
    side: str
    operator: str
    name: str
    dtype: str
    variant: str
    sequence: int | None
    n: int | None
    convention: str
    intensity_with_writes: float | None
    working_set_bytes: int
    lab_point: bool
    file: str


class Point(Named, Needed, Timed, Placed):
    """One operator on the roofline."""


class Ridge(TypedDict):
    """Where a compute ceiling meets a memory slope."""

    ceiling: str
    slope: str
    intensity: float
    flop_per_s: float


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

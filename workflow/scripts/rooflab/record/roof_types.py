"""The shapes of the roofline itself: ceilings, floors, ridge points and the points below them. Fields: `workflow/schemas/`."""

from typing import TypedDict


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


class Ridge(TypedDict):
    """Where a compute ceiling meets a memory slope."""

    ceiling: str
    slope: str
    intensity: float
    flop_per_s: float


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

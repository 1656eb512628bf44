"""The shapes of what travels between the rooms: planned measurements, records, and what is to be said.

Each is a JSON object whose fields and meaning stand in `workflow/schemas/`; a test holds it against them. What the derivation
makes of records: `roof_types`, `document_types`.
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

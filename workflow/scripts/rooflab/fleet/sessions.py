"""One session as a fleet sees it: what card it is, when it was measured, and its figures, small enough for thousands.

Reads `roofline.json` as the model writes it. A figure keeps the name of the record that holds its samples; the record
itself is opened only where a comparison asks for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rooflab.derive.chip.sustained import window
from rooflab.derive.document import ROOFLINE_VERSION
from rooflab.record import ledger
from rooflab.record.records import RecordError, read_record
from rooflab.record.types import Json
from rooflab.theory.quantiles import median
from rooflab.theory.recorded import seconds_per_launch

KEPT_OF_CEILING = (
    "id", "kind", "label", "dtype", "variant", "pattern", "tier", "burst", "sustained", "unit_of_value", "file",
)  # fmt: skip
KEPT_OF_POINT = ("id", "name", "dtype", "sequence", "implementation", "launch", "lab_point", "median_s", "intensity",
                 "achieved_flop_per_s")  # fmt: skip
FEW_SAMPLES = 100  # a series of fewer is taken whole; of a longer one the hundredth at either end is left out


class Broken(ValueError):
    """A session that cannot be compared, and why."""


@dataclass(frozen=True)
class Figure:
    """One measured figure of a card. `value` in `unit`: a rate (FLOP/s, bytes/s), or the seconds of a decode step.

    `likely` is the 10th to the 90th percentile as speeds, slow end first; None where the model gives none.
    """

    id: str
    kind: str  # burst, sustained, bandwidth, decode
    label: str
    unit: str  # flop_per_s, bytes_per_s, s
    value: float
    likely: tuple[float, float] | None
    file: str
    implementation: str

    @property
    def speed(self) -> float:
        """More is better, whatever the unit."""
        return 1 / self.value if self.unit == "s" else self.value


@dataclass(frozen=True, eq=False)
class Session:
    """A session's card and its figures by their id; `device` is the summary of the side the session is about."""

    name: str
    folder: Path
    side: str
    device: Json
    measured_at: str
    figures: dict[str, Figure]
    ceilings: list[Json]
    decode: list[Json]
    price_usd_per_hour: float | None
    paid: Json

    @property
    def model(self) -> str:
        mig = self.device.get("mig")
        return f"{self.device['name']} MIG {mig}" if mig else str(self.device["name"])

    @property
    def uuid(self) -> str | None:
        known = self.device.get("uuid")
        return str(known) if known else None

    @property
    def order(self) -> tuple[str, str]:
        """Sessions of one model in the order they were measured."""
        return self.measured_at, self.name

    @cached_property
    def device_record(self) -> Json | None:
        """The record in which the device was described; None where it is not there or cannot be trusted."""
        for path in sorted((self.folder / self.side).glob("device.*.json")):
            try:
                return read_record(path)
            except RecordError:
                continue
        return None


def session(folder: Path, roofline: Mapping[str, Any], price_usd_per_hour: float | None) -> Session:
    """A session from its roofline. Raises Broken where that is not one, or says nothing of its device."""
    if roofline.get("schema") != "roofline" or roofline.get("schema_version") != ROOFLINE_VERSION:
        raise Broken(
            f"roofline.json has format {roofline.get('schema_version')}, expected {ROOFLINE_VERSION}: snakemake report"
        )
    try:
        side = roofline["main_side"]
        device = roofline["devices"][side]
        if device is None or not device.get("name"):
            raise Broken("no record describes its device: snakemake --cores 1, on its machine")
        ceilings = [each for each in roofline["ceilings"] if each["side"] == side]
        points = [each for each in roofline["points"] if each["side"] == side]
        figures = [*_ceiling_figures(ceilings), *_decode_figures(points)]
        tops = [{key: each.get(key) for key in KEPT_OF_CEILING} for each in ceilings]
        steps = [{key: each[key] for key in KEPT_OF_POINT} for each in points if each["operator"] == "decode_attention"]
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise Broken(
            f"roofline.json is not what the model writes ({type(error).__name__}: {error}): remove it, then snakemake report"
        ) from error
    when = device.get("measured_at") or _first_start(folder, side)
    return Session(
        folder.name,
        folder,
        side,
        device,
        when,
        {f.id: f for f in figures},
        tops,
        steps,
        price_usd_per_hour,
        _paid(folder),
    )


def _ceiling_figures(ceilings: list[Json]) -> Iterator[Figure]:
    for each in ceilings:
        low, high = each["burst_spread"]
        compute = each["kind"] == "compute"
        kind = "burst" if compute else "bandwidth"
        how = (each["file"], each["implementation"])
        yield Figure(
            f"{each['id']} {kind}", kind, each["label"], each["unit_of_value"], each["burst"], (low, high), *how
        )
        if compute and each["sustained"] is not None:
            yield Figure(
                f"{each['id']} sustained",
                "sustained",
                each["label"],
                each["unit_of_value"],
                each["sustained"],
                None,
                *how,
            )


def _decode_figures(points: list[Json]) -> Iterator[Figure]:
    for each in points:
        if each["operator"] == "decode_attention" and _tells_of_the_card(each):
            series = each["id"].removeprefix(f"{each['side']}-decode-{each['name']}-")
            likely = (1 / each["p90_s"], 1 / each["p10_s"])
            yield Figure(
                each["id"], "decode", f"{each['name']} {series}", "s", each["median_s"], likely, each["file"], series
            )


def _tells_of_the_card(point: Json) -> bool:
    """Whether a step's time is the card's: a step that waits for Python to launch it tells of the host, whose launching
    differs from program to program by more than cards do."""
    return point["side"] == "cpu" or point["timing"] == "graph" or point["bound_by"] != "launch"


def _first_start(folder: Path, side: str) -> str:
    starts = []
    for path in (folder / side).glob("device.*.json"):
        try:
            starts.append(str(read_record(path)["started_at"]))
        except RecordError:
            continue
    return min(starts, default="")


def _paid(folder: Path) -> Json:
    """Wall seconds of all runs of a session, and dollars at the price in force then."""
    known = ledger.summary(folder / "ledger.jsonl")
    return {"seconds": known["paid_s"], "usd": known["usd"]}


def price(folder: Path, given: Mapping[str, float]) -> float | None:
    """Dollars per hour of a session: the config's for it, else the one in force when it was measured; None unknown."""
    if folder.name in given:
        return float(given[folder.name])
    events = ledger.read(folder / "ledger.jsonl")
    events = [each for each in events if each["event"] == "run start"] or events
    known = [event["price_usd_per_hour"] for event in events if event.get("price_usd_per_hour")]
    return float(known[-1]) if known else None


def paid_together(folders: Iterable[Path]) -> Json:
    """Seconds and dollars over the ledgers of all sessions; a run over several cards, which is in the ledger of each, once.

    {"seconds", "usd": of the runs whose price is known, null where none is, "runs_without_price"}.
    """
    named: dict[str, ledger.Stay] = {}
    runs: list[ledger.Stay] = []
    for run in (run for folder in folders for run in ledger.stays(ledger.read(folder / "ledger.jsonl"))[0]):
        if run.name not in named:
            runs.append(run)
            named |= {run.name: run} if run.name else {}
            continue
        known = named[run.name]
        known.begin, known.last = min(known.begin, run.begin), max(known.last, run.last)
        prices = [each for each in (known.price_usd_per_hour, run.price_usd_per_hour) if each is not None]
        known.price_usd_per_hour = max(prices, default=None)
    priced = [run for run in runs if run.price_usd_per_hour is not None]
    seconds = sum(run.seconds for run in runs)
    return {"seconds": seconds, "usd": ledger.usd(priced), "runs_without_price": len(runs) - len(priced)}


def record_of(session_: Session, figure: Figure) -> Json | None:
    """The record that holds the figure's samples; None where it is not there or cannot be trusted."""
    try:
        return read_record(session_.folder / figure.file)
    except RecordError:
        return None


def series_of(record: Json, figure: Figure) -> Json | None:
    """The series the figure is the median of."""
    made = record["series"]
    if figure.kind == "decode":
        made = [each for each in made if each["name"].replace(" ", "_") == figure.implementation]
    else:
        prefix = {"burst": "burst", "sustained": "sustained"}.get(figure.kind, "")
        named = [each for each in made if each["name"].startswith(prefix)]
        made = [each for each in named if each["implementation"] == figure.implementation] or named or made
    sizes = record["details"].get("bytes_per_series", {})  # of a sweep: the fastest per byte speaks
    return min(made, key=lambda each: median(seconds_per_launch(each)) / sizes.get(each["name"], 1), default=None)


def speed_range(series: Json, figure: Figure) -> tuple[float, float]:
    """The slowest and the fastest speed among the samples behind a figure, in its unit."""
    seconds = sorted(_settled(seconds_per_launch(series), figure))
    middle = median(seconds)
    dropped = len(seconds) // FEW_SAMPLES
    slow, fast = seconds[len(seconds) - 1 - dropped], seconds[dropped]
    return figure.speed * middle / slow, figure.speed * middle / fast


def _settled(seconds: list[float], figure: Figure) -> list[float]:
    """A sustained figure is taken over the whole cycles of its load after the chip has settled."""
    first, end = window(seconds) if figure.kind == "sustained" else (0, len(seconds))
    return seconds[first:end]

"""The figures of paragraph 2: decode attention, what bounds it, and its share of the peak beside the textbook's."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rooflab.derive.floors import empty_launches
from rooflab.derive.roof import compute_ceiling, slope
from rooflab.derive.series import extremes, fraction
from rooflab.record.names import memory_sized
from rooflab.record.roof_types import Ceiling, Floor, Point
from rooflab.record.types import Json, Records

TEXTBOOK_FRACTION = (0.003, 0.01)  # decode's share of the fp16 Tensor Core peak as the lab tells it: 0.3 to 1 %
COPY_PATTERN = {"gpu": "d2d", "cpu": "triad"}  # the lab's slope of each side: read and write together
POINT_KEYS = (
    "id", "median_s", "p10_s", "p90_s", "achieved_flop_per_s", "achieved_bytes_per_s", "intensity", "bound_by", "tier",
    "memory_ceiling", "limit", "above_roof", "working_set_bytes", "implementation", "launch", "timing", "cache",
    "fraction_of_attainable", "fraction_of_ceiling", "at_roof", "host_bound", "launch_floor_s", "impossible",
)  # fmt: skip
RUNG_KEYS = (
    "id", "implementation", "launch", "timing", "cache", "median_s", "p10_s", "p90_s", "bound_by", "at_roof",
    "host_bound", "verified",
)  # fmt: skip


def decode_answer(
    records: Records, ceilings: Sequence[Ceiling], floors: Sequence[Floor], points: Sequence[Point], side: str
) -> Json:
    """Paragraph 2: each lab point's step, slope and share of the peak that the textbook speaks of.

    `large` holds the fastest way of each cache that is sized by a memory tier instead of an S, by its name.
    """
    peak = compute_ceiling(ceilings, side, "fp16" if side == "gpu" else "fp32")
    copy = slope(ceilings, side, COPY_PATTERN[side])
    figure = "fraction_of_peak" if peak else "achieved_flop_per_s"
    dtypes: dict[str, Any] = {}
    for point in lab_decode(points, side):
        own = dtypes.setdefault(point["dtype"], {"sequences": {}})
        own["sequences"][str(point["sequence"])] = _step(point, peak, copy)
    for name, own in dtypes.items():
        programs = [empty_launches(records[p["file"]]) for p in lab_decode(points, side) if p["dtype"] == name]
        in_turns = None not in programs and all(each == programs[0] for each in programs)
        steps = list(own["sequences"].values())
        own["latency_rises_with_sequence"] = all(a["median_s"] < b["median_s"] for a, b in pairwise(steps))
        own["falls_within_spread"] = _falls_within_spread(steps) if in_turns else None
        own["ladder"] = _ladder(points, steps[-1])
    return {
        "side": side,
        "peak": peak["id"] if peak else None,
        "peak_flop_per_s": peak["burst"] if peak else None,
        "textbook_low": TEXTBOOK_FRACTION[0],
        "textbook_high": TEXTBOOK_FRACTION[1],
        "launch_floor_s": sync_floor(floors, side),
        **_floors_used(lab_decode(points, side)),
        "copy_bytes_per_s": copy,
        "dtypes": dtypes,
        "large": {
            point["name"]: {"dtype": point["dtype"]} | _step(point, peak, copy) for point in _large(points, side)
        },
        "required": extremes(
            {
                f"dtypes.{name}.sequences.{s}.{figure}": step[figure]
                for name, own in dtypes.items()
                for s, step in own["sequences"].items()
            }
        ),
    }


def lab_decode(points: Sequence[Point], side: str) -> list[Point]:
    """The decode points that the lab speaks of on one side, in order of dtype and S."""
    lab = [p for p in points if (p["side"], p["operator"], p["lab_point"]) == (side, "decode_attention", True)]
    return sorted(lab, key=lambda point: (point["dtype"], point["sequence"]))


def sync_floor(floors: Sequence[Floor], side: str) -> float | None:
    """An empty launch from Python, synchronised on both sides, seconds."""
    found = [f["median_s"] for f in floors if (f["side"], f["launch"], f["timing"]) == (side, "python", "sync_each")]
    return found[0] if found else None


def _floors_used(points: Sequence[Point]) -> Json:
    """The smallest and the largest launch floor that the lab's points were held against: each program takes its own."""
    known = [floor for point in points if (floor := point["launch_floor_s"]) is not None]
    return {"launch_floor_low_s": min(known, default=None), "launch_floor_high_s": max(known, default=None)}


def _falls_within_spread(steps: Sequence[Json]) -> bool:
    """Whether 10th to 90th percentile overlap wherever a longer cache took less; of programs apart that tells nothing, for
    launching differs between them."""
    return all(b["p90_s"] >= a["p10_s"] for a, b in pairwise(steps))


def _step(point: Point, peak: Ceiling | None, copy: float | None) -> Json:
    share = fraction(point["achieved_flop_per_s"], peak["burst"] if peak else None)
    return _quoted(point, POINT_KEYS) | {
        "fraction_of_peak": share,
        "textbook": _textbook(share),
        "fraction_of_copy": fraction(point["achieved_bytes_per_s"], copy),
    }


def _quoted(point: Point, keys: Sequence[str]) -> Json:
    fields: Mapping[str, Any] = point
    return {key: fields[key] for key in keys}


def _textbook(share: float | None) -> str | None:
    """Where a share of the peak lies: "below", "inside" or "above" the textbook's range."""
    if share is None:
        return None
    low, high = TEXTBOOK_FRACTION
    return "below" if share < low else "above" if share > high else "inside"


def _large(points: Sequence[Point], side: str) -> list[Point]:
    """The fastest way of each cache that is named after a memory tier."""
    decode = [p for p in points if (p["side"], p["operator"]) == (side, "decode_attention")]
    fastest: dict[str, Point] = {}
    for point in sorted((p for p in decode if memory_sized(p["name"])), key=lambda p: p["median_s"]):
        fastest.setdefault(point["name"], point)
    return list(fastest.values())


def _ladder(points: Sequence[Point], lab: Json) -> list[Json]:
    """The other ways the longest step was taken, slowest first, each with its time over the lab point's."""
    own = next(point for point in points if point["id"] == lab["id"])
    rungs = [p for p in points if p["file"] == own["file"] and p["id"] != own["id"]]
    return [
        _quoted(rung, RUNG_KEYS) | {"time_over_lab": rung["median_s"] / own["median_s"]}
        for rung in sorted(rungs, key=lambda p: -p["median_s"])
    ]

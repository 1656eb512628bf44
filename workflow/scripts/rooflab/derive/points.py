"""The operators on the roofline: what each needs by theory, what the clock said, and how much of its roof that is."""

from collections.abc import Iterator, Sequence

from rooflab.derive.chip import physics
from rooflab.derive.chip.peaks import vendor_flop_per_s
from rooflab.derive.evidence import measured
from rooflab.derive.floors import EMPTY, own_floors
from rooflab.derive.gemms import LAB_DTYPES, lab_records, variant_of
from rooflab.derive.roof import Limit, Place, Way, is_above_roof, is_at, roof
from rooflab.derive.series import fraction, median_s, named, refuted, times, verified
from rooflab.record.names import MINIGPT
from rooflab.record.roof_types import Ceiling, Floor, Named, Placed, Point, Timed
from rooflab.record.types import Record, Records, Series
from rooflab.theory import recorded
from rooflab.theory.work import Work

Run = tuple[Named, Series, Work]  # which operator it is, how it was timed, what it needs


def all_points(records: Records, ceilings: Sequence[Ceiling], floors: Sequence[Floor]) -> list[Point]:
    """One GEMM per dtype, one decode point per series of each (dtype, S); by side, operator, dtype and S."""
    sides = ("gpu", "cpu")
    made = [each for side in sides for each in [*_products(records, side), *_decode_steps(records, side)]]
    placed = [_point(each, records, ceilings, floors) for each in made]
    return sorted(placed, key=lambda p: (p["side"], p["operator"], p["dtype"], p["sequence"] or 0, p["id"]))


def _products(records: Records, side: str) -> Iterator[Run]:
    for file, record in lab_records(records, side).values():
        series = named(record, "lab")
        if series is None:
            continue
        name, n = variant_of(record), record["shape"]["n"]
        whole = recorded.product(record, "reads_and_write")
        head: Named = {
            "id": f"{side}-gemm-{name}-n{n}",
            "side": side,
            "operator": "gemm",
            "name": record["name"],
            "dtype": str(record["dtype"]),
            "variant": name,
            "sequence": None,
            "n": n,
            "convention": "reads of A and B",
            "intensity_with_writes": whole.intensity,
            "working_set_bytes": whole.bytes,
            "lab_point": (side == "cpu" or name in LAB_DTYPES) and not refuted(series),
            "file": file,
        }
        yield head, series, recorded.product(record)


def _decode_steps(records: Records, side: str) -> Iterator[Run]:
    for file, record in measured(records, side, "decode").items():
        if record["spec"].get("operator", MINIGPT) != MINIGPT:
            continue
        chosen = _lab_series(record) if record["shape"]["batch"] == 1 else None
        work, name = recorded.decode(record), str(record["dtype"])
        for series in record["series"]:
            if series["implementation"] == EMPTY:
                continue
            head: Named = {
                "id": f"{side}-decode-{record['name']}-{series['name'].replace(' ', '_')}",
                "side": side,
                "operator": "decode_attention",
                "name": record["name"],
                "dtype": name,
                "variant": name,
                "sequence": record["shape"]["sequence"],
                "n": None,
                "convention": "K and V read once",
                "intensity_with_writes": None,
                "working_set_bytes": work.bytes,
                "lab_point": series is chosen,
                "file": file,
            }
            yield head, series, work


def _lab_series(record: Record) -> Series | None:
    """The fastest way launched from Python with a synchronisation around every step, the cache warm as the lab has it,
    unless its result was wrong."""
    ways = [
        series
        for series in record["series"]
        if (series["launch"], series["timing"], series["cache"]) == ("python", "sync_each", "warm")
        and not refuted(series)
    ]
    return min(ways, key=median_s, default=None)


def _point(run: Run, records: Records, ceilings: Sequence[Ceiling], floors: Sequence[Floor]) -> Point:
    """A run with its roof: tier, binding limit and every fraction."""
    head, series, work = run
    return {
        **head,
        "flop": work.flop,
        "bytes": work.bytes,
        "intensity": work.intensity,
        **_timed(series),
        **_placed(head, series, work, records, ceilings, floors),
    }


def _timed(series: Series) -> Timed:
    seconds = recorded.seconds_per_launch(series)
    return {
        "implementation": series["implementation"],
        "launch": series["launch"],
        "timing": series["timing"],
        "cache": series["cache"],
        **times(series),
        "min_s": min(seconds),
        "samples": len(seconds),
        "verified": verified(series),
        "relative_error": series["relative_error"],
    }


def _limit(head: Named, place: Place) -> Limit | None:
    """What binds a point; a product without an independent ceiling of its arithmetic has no roof, whatever memory allows."""
    return None if head["operator"] == "gemm" and place.compute is None else place.limit


def _placed(
    head: Named, series: Series, work: Work, records: Records, ceilings: Sequence[Ceiling], floors: Sequence[Floor]
) -> Placed:
    side, known = head["side"], times(series)
    over = roof(records, side, ceilings, own_floors(records[head["file"]], floors))
    way = Way(head["variant"], series["cache"], series["launch"], series["timing"])
    place = over.place(work, way, head["working_set_bytes"])
    limit, achieved = _limit(head, place), work.flop / known["median_s"]
    attainable = work.flop / limit.seconds if limit else None
    of_limit = physics.highest(
        physics.share(achieved, physics.flop_per_s(records, side, head["variant"], series)),
        physics.share(work.bytes / known["median_s"], physics.bytes_per_s(records, place.tier)),
    )
    spread = (known["p90_s"] - known["p10_s"]) / known["median_s"]
    return {
        "achieved_flop_per_s": achieved,
        "achieved_bytes_per_s": work.bytes / known["median_s"],
        "attainable_flop_per_s": attainable,
        "bound_by": limit.bound if limit else None,
        "at_roof": is_at(limit, known["median_s"]),
        "limit": limit.source if limit else None,
        "launch_floor_s": place.floor["median_s"] if place.floor else None,
        "launch_floor_p10_s": place.floor["p10_s"] if place.floor else None,
        "launch_floor_p90_s": place.floor["p90_s"] if place.floor else None,
        "host_bound": side == "gpu" and series["launch"] == "python" and bool(limit and limit.bound == "launch"),
        "tier": place.tier,
        "memory_ceiling": place.memory["id"] if place.memory else None,
        "fraction_of_attainable": fraction(achieved, attainable),
        "fraction_of_ceiling": fraction(achieved, place.compute["burst"] if place.compute else None),
        "fraction_of_fp16_peak": fraction(achieved, over.flop_per_s("fp16") if side == "gpu" else None),
        "fraction_of_vendor": fraction(achieved, vendor_flop_per_s(records, side, head["variant"])),
        "above_roof": is_above_roof(known["median_s"], spread, limit) or physics.is_impossible(of_limit),
        "of_physical_limit": of_limit,
        "impossible": physics.is_impossible(of_limit),
    }

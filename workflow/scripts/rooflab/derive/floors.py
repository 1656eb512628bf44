"""Launch floors: the shortest step each way of launching allows, by the time of launching nothing."""

from collections.abc import Iterable

from rooflab.derive.evidence import measured
from rooflab.derive.series import times
from rooflab.record.roof_types import Floor
from rooflab.record.types import Record, Records, Series

EMPTY = "empty kernel"


def launch_floors(records: Records) -> list[Floor]:
    """The median time of launching nothing, each way, seconds; by id."""
    made = []
    for side in ("gpu", "cpu"):
        for file, record in measured(records, side, "launch_floor").items():
            made += [_floor(side, file, series) for series in record["series"]]
    return sorted(made, key=lambda floor: floor["id"])


def own_floors(record: Record, floors: Iterable[Floor]) -> list[Floor]:
    """The launch floors with the values that a decode program took of its own launches, where it took them: launching
    depends on the state of the host, which differs from program to program."""
    own = {(s["launch"], s["timing"]): s for s in record["series"] if s["implementation"] == EMPTY}
    return [
        {**floor, **times(own[way])} if (way := (floor["launch"], floor["timing"])) in own else floor
        for floor in floors
    ]


def empty_launches(record: Record) -> list[float] | None:
    """The samples of launching nothing that a decode program took beside its steps; records that hold the same ones were
    measured in turns by one program. None where it took none."""
    return next((each["samples_s"] for each in record["series"] if each["implementation"] == EMPTY), None)


def _floor(side: str, file: str, series: Series) -> Floor:
    return {
        "id": f"{side}-launch-{series['name'].replace(' ', '_')}",
        "side": side,
        "launch": series["launch"],
        "timing": series["timing"],
        **times(series),
        "file": file,
    }

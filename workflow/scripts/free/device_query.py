"""`device_query.json`: the card, driver and host of this session, and what the vendor says that exact part can do."""

from collections.abc import Iterable

from free.inputs import command_line, loaded, read_plan
from rooflab.derive.chip.peaks import vendor_of
from rooflab.derive.evidence import description, measured, select
from rooflab.record.publish import write_json
from rooflab.record.types import Json, Planned, Records


def device_query(session: str, records: Records, plan: Iterable[Planned]) -> Json:
    """GPU and host as their device records describe them; null without such a record.

    `uuids` lists every card that measured, for a session may go on with another card of the same model.
    """
    used = select(records, plan)
    return {
        "schema": "device_query",
        "schema_version": 1,
        "session": session,
        "gpu": _gpu(used),
        "cpu": description(used, "cpu"),
    }


def _gpu(records: Records) -> Json | None:
    known, peaks = description(records, "gpu"), vendor_of(records)
    if known is None or peaks is None:
        return None
    (source,) = measured(records, "gpu", "device").values()
    uuids = {r["device"].get("uuid") for r in records.values() if r["side"] == "gpu"}
    return known | {
        "uuids": sorted(uuid for uuid in uuids if uuid),
        "environment": source["environment"],
        "vendor": peaks.to_dict(),
    }


def main() -> None:
    given = command_line(__doc__).parse_args()
    session = given.session_dir.resolve().name
    write_json(given.out, device_query(session, loaded(given.session_dir, given.records), read_plan(given.planned)))


if __name__ == "__main__":
    main()

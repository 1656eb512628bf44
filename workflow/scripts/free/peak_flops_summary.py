"""Block A's file, `peak_flops.json`: what the GEMM of each dtype reached, beside the vendor's peak. In FLOP/s."""

from collections.abc import Iterable, Mapping
from typing import Any

from free.roofline import command_line, loaded, read_plan
from rooflab.derive.ceilings import (
    all_ceilings,
    fraction,
    gemm_flop_per_s,
    plain,
    variant_of,
    vendor_flop_per_s,
    verified,
)
from rooflab.derive.evidence import holes, main_side, measured, select
from rooflab.derive.points import lab_records
from rooflab.derive.roof import compute_ceiling
from rooflab.record.names import format_of_product
from rooflab.record.publish import write_json
from rooflab.theory.dtypes import variant

Record = dict[str, Any]


def peak_flops(session: str, records: Mapping[str, Record], plan: Iterable[Record]) -> Record:
    """Per dtype of the main side: lab, burst and sustained of the plain lab product, and the fastest burst."""
    planned = list(plan)
    used = select(records, planned)
    side = main_side(used, planned)
    ceilings = all_ceilings(used)
    dtypes = {
        name: _measured_dtype(used, side, name, file, record, ceilings)
        for name, (file, record) in lab_records(used, side).items()
    }
    for hole in holes(used, planned):
        name = format_of_product(hole["name"])
        if (hole["side"], hole["stage"]) == (side, "gemm") and name not in dtypes:
            dtypes[name] = {key: hole[key] for key in ("status", "reason", "remedy", "file")}
    return {
        "schema": "peak_flops",
        "schema_version": 1,
        "session": session,
        "side": side,
        "dtypes": dict(sorted(dtypes.items())),
    }


def _measured_dtype(
    records: Mapping[str, Record], side: str, name: str, file: str, record: Record, ceilings: list[Record]
) -> Record:
    """One dtype. `investigations` is what the stage looked into where the rate fell short of the vendor's peak."""
    vendor = vendor_flop_per_s(records, side, name)
    ceiling = compute_ceiling(ceilings, side, name)
    lab = plain(record, "lab")
    made: Record = {"status": "measured", "reason": None, "n": record["shape"]["n"], "file": file}
    for kind in ("lab", "burst", "sustained"):
        series = plain(record, kind)
        rate = gemm_flop_per_s(record, series) if series else None
        made |= {f"{kind}_flop_per_s": rate, f"{kind}_fraction_of_vendor": fraction(rate, vendor)}
    return made | {
        "vendor_flop_per_s": vendor,
        "fastest_burst_flop_per_s": ceiling["burst"] if ceiling else None,
        "fastest_burst_n": ceiling["n"] if ceiling else None,
        "accumulator": variant(name).accumulator if side == "gpu" else None,
        "implementation": lab["implementation"] if lab else None,
        "relative_error": lab["relative_error"] if lab else None,
        "tolerance": lab["tolerance"] if lab else None,
        "verified": verified(lab) if lab else False,
        "investigations": record["details"].get("investigations", []),
        "sizes": sorted(r["shape"]["n"] for r in measured(records, side, "gemm").values() if variant_of(r) == name),
    }


def main() -> None:
    given = command_line(__doc__).parse_args()
    session = given.session_dir.resolve().name
    write_json(given.out, peak_flops(session, loaded(given.session_dir, given.records), read_plan(given.planned)))


if __name__ == "__main__":
    main()

"""Block A's file, `peak_flops.json`: what the GEMM of each dtype reached, beside the vendor's peak. In FLOP/s."""

from collections.abc import Iterable, Sequence

from free.inputs import command_line, loaded, read_plan
from rooflab.derive.ceilings import all_ceilings
from rooflab.derive.chip.peaks import vendor_flop_per_s
from rooflab.derive.evidence import holes, main_side, measured, select
from rooflab.derive.gemms import gemm_flop_per_s, lab_records, variant_of
from rooflab.derive.roof import compute_ceiling
from rooflab.derive.series import fraction, named, verified
from rooflab.record.names import format_of
from rooflab.record.publish import write_json
from rooflab.record.roof_types import Ceiling
from rooflab.record.types import Json, Planned, Record, Records
from rooflab.theory.dtypes import variant


def peak_flops(session: str, records: Records, plan: Iterable[Planned]) -> Json:
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
        name = format_of(hole["name"])
        if (hole["side"], hole["stage"]) == (side, "gemm") and name not in dtypes:
            dtypes[name] = {
                "status": hole["status"],
                "reason": hole["reason"],
                "remedy": hole["remedy"],
                "file": hole["file"],
            }
    return {
        "schema": "peak_flops",
        "schema_version": 2,
        "session": session,
        "side": side,
        "dtypes": dict(sorted(dtypes.items())),
    }


def _measured_dtype(
    records: Records, side: str, name: str, file: str, record: Record, ceilings: Sequence[Ceiling]
) -> Json:
    """One dtype. `investigations` is what the stage looked into where the rate fell short of the vendor's peak."""
    vendor = vendor_flop_per_s(records, side, name)
    ceiling = compute_ceiling(ceilings, side, name)
    lab = named(record, "lab")
    made: Json = {"status": "measured", "reason": None, "n": record["shape"]["n"], "file": file}
    for kind in ("lab", "burst"):
        series = named(record, kind)
        made[f"{kind}_flop_per_s"] = gemm_flop_per_s(record, series) if series else None
    return made | {
        "vendor_flop_per_s": vendor,
        "burst_fraction_of_vendor": fraction(made["burst_flop_per_s"], vendor),
        **_of_ceiling(ceiling),
        "accumulator": variant(name).accumulator if side == "gpu" else None,
        "implementation": lab["implementation"] if lab else None,
        "relative_error": lab["relative_error"] if lab else None,
        "tolerance": lab["tolerance"] if lab else None,
        "verified": verified(lab) if lab else False,
        "investigations": record["details"].get("investigations", []),
        "sizes": sorted(r["shape"]["n"] for r in measured(records, side, "gemm").values() if variant_of(r) == name),
    }


def _of_ceiling(ceiling: Ceiling | None) -> Json:
    """What the fastest load of any size and algorithm says, and the gap to the vendor's figure taken apart."""
    if ceiling is None:
        return {f"fastest_burst_{key}": None for key in ("flop_per_s", "fraction_of_vendor", "n", "series")} | {
            "sustained_flop_per_s": None, "sustained_fraction_of_vendor": None, "clock": None, "use": None,
        }  # fmt: skip
    return {
        "fastest_burst_flop_per_s": ceiling["burst"],
        "fastest_burst_fraction_of_vendor": ceiling["fraction_of_vendor"],
        "fastest_burst_n": ceiling["n"],
        "fastest_burst_series": ceiling["series"],
        "sustained_flop_per_s": ceiling["sustained"],
        "sustained_fraction_of_vendor": ceiling["sustained_fraction_of_vendor"],
        "clock": ceiling["clock"],
        "use": ceiling["use"],
    }


def main() -> None:
    given = command_line(__doc__).parse_args()
    session = given.session_dir.resolve().name
    write_json(given.out, peak_flops(session, loaded(given.session_dir, given.records), read_plan(given.planned)))


if __name__ == "__main__":
    main()

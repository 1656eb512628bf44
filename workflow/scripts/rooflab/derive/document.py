"""The derivation: from the records of a session to `roofline.json`, the only input of the picture and the prose."""

from collections.abc import Iterable, Sequence

from rooflab.derive.answers import answers
from rooflab.derive.ceilings import all_ceilings, uneven_loads, without_ceiling
from rooflab.derive.checks import measured_checks
from rooflab.derive.drift import drifts
from rooflab.derive.evidence import facts, holes, main_side, measured, notes, outlived, select
from rooflab.derive.floors import launch_floors
from rooflab.derive.points import all_points
from rooflab.derive.roof import MAIN_TIER
from rooflab.derive.serving import models, sweeps
from rooflab.record.document_types import PlacedPart, Roofline, Served, Sweep
from rooflab.record.roof_types import Ceiling, Ridge
from rooflab.record.types import Json, Planned, Records
from rooflab.theory import work

# Format history. 1: first format; 2: reasons, notes and advice as codes with values, without what was paid.
ROOFLINE_VERSION = 2
SUMMARY = {
    "gpu": (
        "name",
        "uuid",
        "compute_capability",
        "sm_count",
        "memory_bytes",
        "l2_bytes",
        "mig",
        "power_limit_w",
        "driver_version",
        "cuda_driver_version",
    ),
    "cpu": ("name", "cores_physical", "threads", "simd", "clock_hz_max", "llc_bytes", "dram_bytes"),
}


def roofline(
    session: str,
    records: Records,
    plan: Sequence[Planned],
    gpu_sessions: Sequence[str] = (),
    cpu_ceilings: Sequence[Ceiling] = (),
    asked: Sequence[Json] = (),
) -> Roofline:
    """Everything the picture and the prose may say of a session, by its records and plan; SI base units throughout.

    Any subset of records will do, even none: what is absent stands under `holes`. `gpu_sessions`: names of the GPU
    sessions beside it. `cpu_ceilings`: a CPU roofline given instead of records. `asked`: the models of the config,
    [{"name", "geometry", "contexts"}].
    """
    used = select(records, plan)
    side = main_side(used, plan)
    ceilings = sorted([*all_ceilings(used), *cpu_ceilings], key=lambda ceiling: ceiling["id"])
    floors = launch_floors(used)
    points = all_points(used, ceilings, floors)
    served, walked = models(used, ceilings, floors, asked), sweeps(used, ceilings, floors)
    return {
        "schema": "roofline",
        "schema_version": ROOFLINE_VERSION,
        "session": session,
        "main_side": side,
        "generated_from": [{"file": file, "sha256": record["sha256"]} for file, record in used.items()],
        "devices": {each: _device(used, each) for each in ("gpu", "cpu")},
        "ceilings": ceilings,
        "floors": floors,
        "points": points,
        "ridge_points": ridge_points(ceilings),
        "models": served,
        "sweeps": walked,
        "holes": holes(used, plan),
        "checks": measured_checks(used, ceilings, points, _parts(served, walked), side),
        "answers": answers(used, ceilings, floors, points, side, gpu_sessions),
        "notes": [
            *outlived(records, used),
            *notes(used, plan),
            *drifts(used),
            *without_ceiling(used),
            *uneven_loads(used),
        ],
    }


def ridge_points(ceilings: Iterable[Ceiling]) -> list[Ridge]:
    """Where each compute ceiling meets the slope of its side, reads from main memory, FLOP/byte."""
    known = list(ceilings)
    return [
        {
            "ceiling": top["id"],
            "slope": slope["id"],
            "intensity": work.ridge_point(top["burst"], slope["burst"]),
            "flop_per_s": top["burst"],
        }
        for top in known
        for slope in known
        if top["kind"] == "compute" and top["side"] == slope["side"]
        if (slope["pattern"], slope["tier"]) == ("read", MAIN_TIER[slope["side"]])
    ]


def _parts(served: Iterable[Served], walked: Iterable[Sweep]) -> dict[str, PlacedPart]:
    """Every part of the served models and every point of the sweeps, by a name that tells it."""
    made: dict[str, PlacedPart] = {}
    for model in served:
        for part in model["operators"]:
            tokens = f" S {part['length']}" if part["length"] else ""
            dtype = model["kv_dtype"] if part["kind"] == "attention" else model["dtype"]
            made[f"{model['name']} {part['part']} {dtype}{tokens} batch {part['batch']}"] = part
    for sweep in walked:
        made |= {f"{sweep['file']} batch {point['batch']}": point for point in sweep["points"]}
    return made


def _device(records: Records, side: str) -> Json | None:
    known = facts(records, side)
    if known is None:
        return None
    [found] = measured(records, side, "device").values()
    return {name: known.get(name) for name in SUMMARY[side]} | {"measured_at": found["started_at"]}

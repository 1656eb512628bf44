"""The free model: turns the records of a session into `roofline.json`, the only input of the plot and the prose."""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rooflab.derive.answers import answers
from rooflab.derive.ceilings import all_ceilings, given_ceilings, launch_floors, uneven_loads
from rooflab.derive.checks import measured_checks
from rooflab.derive.evidence import facts, holes, main_side, measured, notes, select
from rooflab.derive.points import all_points
from rooflab.derive.serving import models, sweeps
from rooflab.record import ledger
from rooflab.record.publish import write_json
from rooflab.record.records import RecordError, check_schema, read_record
from rooflab.theory import work

Record = dict[str, Any]

ROOFLINE_VERSION = 1
SUMMARY = {
    "gpu": ("name", "uuid", "compute_capability", "sm_count", "memory_bytes", "l2_bytes", "mig", "power_limit_w"),
    "cpu": ("name", "cores_physical", "threads", "simd", "clock_hz_max", "llc_bytes", "dram_bytes"),
}


def roofline(
    session: str,
    records: Mapping[str, Record],
    plan: Sequence[Record],
    paid: Mapping[str, Any] | None = None,
    gpu_sessions: Sequence[str] = (),
    cpu_ceilings: Sequence[Record] = (),
    asked: Sequence[Record] = (),
) -> Record:
    """The whole model. `records` by their file under the session's folder; `plan`: [{"file", "stage", "side", "name"}];
    `asked`: the models of the config, [{"name", "geometry", "contexts"}].

    Any subset of records will do, even none: what is absent stands under `holes`. SI base units throughout.
    """
    used = select(records, plan)
    side = main_side(used, plan)
    ceilings = sorted([*all_ceilings(used), *cpu_ceilings], key=lambda ceiling: str(ceiling["id"]))
    floors = launch_floors(used)
    points = all_points(used, ceilings, floors)
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
        "models": models(used, ceilings, floors, asked),
        "sweeps": sweeps(used, ceilings, floors),
        "holes": holes(used, plan),
        "checks": measured_checks(used, points, side),
        "answers": answers(used, ceilings, floors, points, side, gpu_sessions),
        "notes": [*notes(used, plan), *uneven_loads(used)],
        "paid": {"seconds": paid["paid_s"], "usd": paid["usd"]} if paid else {"seconds": 0.0, "usd": None},
    }


def ridge_points(ceilings: Iterable[Mapping[str, Any]]) -> list[Record]:
    """Where each compute ceiling meets each memory slope of its side, FLOP/byte."""
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
        if top["kind"] == "compute" and slope["kind"] == "memory" and top["side"] == slope["side"]
    ]


def load(session_dir: Path, paths: Iterable[Path]) -> dict[str, Record]:
    """The verified records by their file under the session's folder. Raises RecordError for a damaged one."""
    return {path.relative_to(session_dir).as_posix(): read_record(path) for path in sorted(paths)}


def loaded(session_dir: Path, paths: Iterable[Path]) -> dict[str, Record]:
    """The same for a program: a damaged record ends it with one line."""
    try:
        return load(session_dir, paths)
    except RecordError as error:
        sys.exit(str(error))


def gpu_sessions_beside(session_dir: Path) -> list[str]:
    """Names of the other sessions in the same results folder that hold records of a GPU."""
    others = (folder for folder in session_dir.parent.iterdir() if folder.name != session_dir.name)
    return sorted(folder.name for folder in others if (folder / "gpu").is_dir())


def read_plan(path: Path) -> list[Record]:
    """The plan: a JSON list of {"file", "stage", "side", "name"}. Raises ValueError for anything else."""
    plan = json.loads(path.read_text(encoding="utf-8"))
    wanted = {"file", "stage", "side", "name"}
    if not isinstance(plan, list) or any(not isinstance(item, dict) or not wanted <= item.keys() for item in plan):
        raise ValueError(f"{path}: not a plan: expected a JSON list of objects with {', '.join(sorted(wanted))}")
    return plan


def read_cpu_roofline(path: Path) -> list[Record]:
    """The ceilings of a CPU roofline measured elsewhere. Raises ValueError for a file that is none."""
    return given_ceilings(json.loads(path.read_text(encoding="utf-8")), path.name)


def command_line(description: str | None) -> argparse.ArgumentParser:
    """The command line that every free program of the model shares."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--session-dir", type=Path, required=True, help="results/<session>")
    parser.add_argument("--records", type=Path, nargs="*", default=[], help="measurement records of the session")
    parser.add_argument("--planned", type=Path, required=True, help="JSON list of planned measurements")
    parser.add_argument("--out", type=Path, required=True)
    return parser


def _device(records: Mapping[str, Record], side: str) -> Record | None:
    known = facts(records, side)
    if known is None:
        return None
    [found] = measured(records, side, "device").values()
    return {name: known.get(name) for name in SUMMARY[side]} | {"measured_at": found["started_at"]}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--cpu-roofline", default="", help="JSON of a CPU roofline to use instead of records")
    parser.add_argument("--models", default="[]", help="JSON list of the models of the config")
    given = parser.parse_args()
    session_dir = given.session_dir
    made = roofline(
        session_dir.resolve().name,
        loaded(session_dir, given.records),
        read_plan(given.planned),
        ledger.summary(session_dir / "ledger.jsonl"),
        gpu_sessions_beside(session_dir),
        read_cpu_roofline(Path(given.cpu_roofline)) if given.cpu_roofline else [],
        json.loads(given.models),
    )
    check_schema("roofline", made, str(given.out))
    write_json(given.out, made)


if __name__ == "__main__":
    main()

"""`manifest.json`: what it takes to trust or repeat the session, nothing private, and the stop conditions."""

import json
import platform
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from free.inputs import command_line, read_plan
from rooflab.derive.checks_of_files import interpretation_answers, manifest_complete, plot_complete
from rooflab.derive.evidence import environments, facts, holes, notes, select
from rooflab.record import ledger, sums
from rooflab.record.document_types import Check
from rooflab.record.publish import write_json
from rooflab.record.records import RecordError, read_sealed
from rooflab.record.terminated import closing_record
from rooflab.record.types import Json, Planned, Record, Records

CHECK_ORDER = (
    "gemm_within_30_percent",
    "decode_sequences",
    "plot_complete",
    "interpretation_answers",
    "manifest_complete",
    "points_below_roof",
    "physically_possible",
)
REQUIRED = (
    "session",
    "devices",
    "environment.python",
    "environment.git",
    "measurements",
    "results",
    "paid.stages",
)


def manifest(
    session: str,
    records: Records,
    plan: Iterable[Planned],
    paid: Mapping[str, Any],
    results: list[Json],
    terminated: Json | None = None,
) -> Json:
    """The manifest without its checks. `environment` quotes the records; this machine stands under `rendered_by`.

    `terminated` quotes the record that the instance is terminated, null while there is none.
    """
    planned = list(plan)
    used = select(records, planned)
    return {
        "schema": "manifest",
        "schema_version": 2,
        "session": session,
        "devices": {side: known for side in ("gpu", "cpu") if (known := _device(used, side))},
        "environment": _nested(environments(used.values())),
        "measurements": [_measurement(file, record) for file, record in used.items()],
        "results": results,
        "paid": dict(paid),
        "terminated": terminated,
        "holes": holes(used, planned),
        "notes": notes(used, planned),
        "rendered_by": rendered_by(),
    }


def checks(made: Json, roofline: Json, svg: str | None, prose: str | None, figures: str | None) -> list[Check]:
    """The five stop conditions of the lab in its order, then whether any point beats its roof."""
    known = [
        *roofline["checks"],
        plot_complete(roofline, svg),
        interpretation_answers(roofline, prose, figures),
        manifest_complete(made, REQUIRED),
    ]
    return sorted(known, key=lambda check: CHECK_ORDER.index(check["name"]))


def result_files(session_dir: Path, paths: Iterable[Path]) -> list[Json]:
    """SHA-256 of each declared input; of the ledger, which grows, that of the first bytes that decide what was paid."""
    named = {path.relative_to(session_dir).as_posix(): path for path in paths}
    hashed: list[Json] = [{"file": file, "sha256": sums.sha256_of(path)} for file, path in sorted(named.items())]
    book = session_dir / sums.GROWING
    if book.exists():
        counted = ledger.counted_bytes(book)
        hashed.append({"file": book.name, "sha256": sums.sha256_of(book, counted), "bytes": counted})
    return hashed


def keep_what_says_the_same(path: Path, made: Json) -> bool:
    """Whether the manifest that lies there differs by nothing but the machine it was rendered on: then it stays, as of now."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(known, dict) or known | {"rendered_by": None} != json.loads(json.dumps(made)) | {
        "rendered_by": None
    }:
        return False
    path.touch()
    return True


def rendered_by() -> Json:
    """The machine that wrote the free files: it need not be the one that measured."""
    return {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "numpy": version("numpy"),
    }


def _device(records: Records, side: str) -> Json | None:
    known = facts(records, side)
    if known is None:
        return None
    uuids = {r["device"].get("uuid") for r in records.values() if r["side"] == side}
    return known | {"uuids": sorted(uuid for uuid in uuids if uuid)}


def _measurement(file: str, record: Record) -> Json:
    kept = ("stage", "side", "name", "status", "reason", "attempt", "spec", "started_at", "seconds", "sha256")
    fields: Mapping[str, Any] = record
    return {"file": file} | {key: fields[key] for key in kept}


def _nested(flat: Mapping[str, list[Any]]) -> Json:
    """Dotted names as nested mappings."""
    tree: Json = {}
    for name, values in flat.items():
        *groups, leaf = name.split(".")
        place = tree
        for group in groups:
            place = place.setdefault(group, {})
        place[leaf] = values
    return tree


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _closing(path: Path) -> Json | None:
    try:
        return closing_record(path)
    except RecordError as error:
        sys.exit(str(error))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--made", type=Path, nargs="*", default=[], help="free files of the session, to be hashed")
    given = parser.parse_args()
    folder = given.session_dir
    made = manifest(
        folder.resolve().name,
        # held against their schema when roofline.json was made of them
        {path.relative_to(folder).as_posix(): cast(Record, read_sealed(path)) for path in sorted(given.records)},
        read_plan(given.planned),
        ledger.summary(folder / sums.GROWING),
        result_files(folder, [*given.records, *given.made]),
        _closing(folder / "terminated.json"),
    )
    roofline = json.loads((folder / "roofline.json").read_text(encoding="utf-8"))
    texts = (_text(folder / name) for name in ("roofline.svg", "interpretation.md", "figures.csv"))
    made["checks"] = checks(made, roofline, *texts)
    if not keep_what_says_the_same(given.out, made):
        write_json(given.out, made)
    sums.write(folder)


if __name__ == "__main__":
    main()

"""Every session in results/ side by side: chart, page and document. A session that cannot be compared is listed as such."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from free.inputs import load
from rooflab.derive.document import roofline
from rooflab.draw import save
from rooflab.fleet.chart import draw
from rooflab.fleet.compare import findings
from rooflab.fleet.page import document, page, terminal
from rooflab.fleet.sessions import Broken, Session
from rooflab.fleet.sessions import price as price_of
from rooflab.fleet.sessions import session as fleet_session
from rooflab.plan import session
from rooflab.record.publish import write_bytes, write_json, write_text
from rooflab.record.records import RecordError, check_schema
from rooflab.record.types import Json

SEAL_BYTES = 100  # a record ends with its hash


def compared(results: Path, prices: Mapping[str, float], threshold: float) -> Json:
    """The comparison of every session under `results`; never raises for what a session holds."""
    sound: list[Session] = []
    broken: dict[str, str] = {}
    for name in sorted(session.names(results)):
        folder = results / name
        try:
            sound.append(fleet_session(folder, model_of(folder), price_of(folder, prices)))
        except (Broken, RecordError, OSError, ValueError, KeyError, TypeError) as error:
            broken[name] = str(error) or type(error).__name__
    return document(sound, broken, findings(sound, threshold), threshold)


def model_of(folder: Path) -> Mapping[str, Any]:
    """The session's roofline.json where it is there and of these records, else made from the records, in memory.

    Raises RecordError for a damaged record.
    """
    path = folder / "roofline.json"
    if path.exists():
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            known = None
        if isinstance(known, dict) and is_current(folder, known, path.stat().st_mtime):
            return known
    return roofline(folder.name, load(folder, session.record_files(folder)), [])


def is_current(folder: Path, known: Json, made_at: float) -> bool:
    """Whether a roofline is of the records that lie there: each it names is there and whole, and none is newer.

    Looks at the end of each file alone, where its hash is: a fleet has too many records to read them all.
    """
    used = {item["file"]: item["sha256"] for item in known.get("generated_from", ())}
    if not all(_ends_with(folder / file, sha256) for file, sha256 in used.items()):
        return False
    paths = {path.relative_to(folder).as_posix(): path for path in session.record_files(folder)}
    return all(path.stat().st_mtime <= made_at for file, path in paths.items() if file not in used)


def _ends_with(path: Path, sha256: str) -> bool:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - SEAL_BYTES))
            return sha256.encode() in file.read()
    except OSError:
        return False


def command_line(description: str | None) -> argparse.ArgumentParser:
    """What both programs of the comparison are told."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--prices", type=json.loads, default={}, help='JSON: {"session": dollars per hour}')
    parser.add_argument("--threshold", type=float, required=True, help="fraction of speed lost from which on it counts")
    return parser


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="compare.json, .md, .png and .svg beside it")
    parser.add_argument("--dpi", type=int, default=300)
    given = parser.parse_args()
    made = compared(given.results, given.prices, given.threshold)
    check_schema("compare", made, str(given.out))
    write_json(given.out, made, indent=None)
    write_text(given.out.with_suffix(".md"), page(made))
    figure = draw(made)
    write_bytes(given.out.with_suffix(".png"), save.png(figure, given.dpi))
    write_bytes(given.out.with_suffix(".svg"), save.svg(figure))
    print("\n".join(terminal(made)), flush=True)


if __name__ == "__main__":
    main()

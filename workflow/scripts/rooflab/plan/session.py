"""A session on disk: its name, its files, and which of them are trusted."""

import json
import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from rooflab.plan import measurements
from rooflab.plan import points as planning
from rooflab.plan.points import Point, Spec
from rooflab.record import attempts, identity, records
from rooflab.record.names import SERVED, SESSION, SIDES, first_attempt
from rooflab.record.say import say
from rooflab.record.types import Json
from rooflab.reference import checkpoint, minigpt


def names(results: Path) -> set[str]:
    """The sessions that hold at least one measurement. A folder of another kind of name is left out, and that is told."""
    folders = results.iterdir() if results.is_dir() else ()
    found = {each.name for each in folders if any((each / side).is_dir() for side in SIDES)}
    odd = {name for name in found if not re.fullmatch(SESSION, name)}
    _tell_once(*sorted(odd))
    return found - odd


def gpu_names(results: Path, but: str) -> list[str]:
    """The sessions other than `but` that hold records of a GPU."""
    return sorted(name for name in names(results) - {but} if (results / name / "gpu").is_dir())


@cache
def _tell_once(*odd: str) -> None:
    for name in odd:
        say(
            f"results/{name}: left out, not a session's name (small letters, digits, - and .): rename it",
            sys.stderr,
        )


def spec_text(spec: Spec) -> str:
    """The spec as the text that its key digests."""
    return records.canonical_json(spec)


def planned_files(session_dir: Path, points: list[Point]) -> list[Path]:
    """One file per point: the one that exists, or, where the last attempt failed, the next attempt; the last one where it has
    failed often enough for reasons of its own, which is told."""
    return [_planned(session_dir, each) for each in points]


def _planned(session_dir: Path, planned: Point) -> Path:
    taken = planning.attempts(session_dir, planned)
    if not taken:
        return session_dir / planned.file()
    if not _failed(taken[-1]):
        return taken[-1]
    failures = [records.read_sealed(each) for each in taken if _failed(each)]
    if attempts.spent(failures):
        _tell_left_out(taken[-1], failures[-1]["reason"])
        return taken[-1]
    return session_dir / planned.file(len(taken) + 1)


@cache
def _tell_left_out(last: Path, reason: str) -> None:
    told = f"{last}: left out after {attempts.MOST} failures of its own ({reason}). To try it again: {attempts.again(last)}"
    say(told, sys.stderr)


def device_of(session_dir: Path) -> str:
    """The name of the GPU that a session's own record tells, else the session's."""
    for path in sorted((session_dir / "gpu").glob("device.*.json")):
        try:
            return str(json.loads(path.read_text(encoding="utf-8"))["device"]["name"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return session_dir.name


def held_models(session_dir: Path, config: dict[str, Any]) -> list[str]:
    """The models of the config of which a session holds a record, under whatever name it was measured."""

    def holds(entry: dict[str, Any]) -> bool:
        points = measurements.session_points(config | {"operators": [entry]}, with_gpu=True)
        return any(planning.attempts(session_dir, each) for each in points if each.stage in SERVED)

    return [entry["name"] for entry in config["operators"] if holds(entry)]


def prices(results: Path, config: dict[str, Any]) -> dict[str, float]:
    """Dollars per hour by session: the config's mapping, or its one number for the session it names, else for the only one
    with a GPU; none where that is not told."""
    given = config["price_usd_per_hour"]
    if given is None or isinstance(given, dict):
        return given or {}
    known = names(results)
    named = [each for each in (config["session"], config["device"]) if each in known][:1]
    with_gpu = [each for each in sorted(known) if (results / each / "gpu").is_dir()]
    return dict.fromkeys(named or (with_gpu if len(with_gpu) == 1 else []), float(given))


def _failed(path: Path) -> bool:
    """Whether a record says `failed`; one that cannot be trusted counts as present, and stops the free rules by name."""
    try:
        if (
            b'"failed"' not in path.read_bytes()
        ):  # a fleet has thousands of records: read whole only where it may be one
            return False
        return bool(records.read_sealed(path)["status"] == "failed")
    except (OSError, records.RecordError):
        return False


def unusable_weights(checkpoint_file: str | None, files: list[Path], points: Iterable[Point]) -> str | None:
    """Why the user's checkpoint cannot serve the decode steps that are to be measured, by its header; None where it can, or
    where none is to be."""
    own = {point.file(): point.spec["geometry"] for point in points if "sha256" in point.spec.get("weights", {})}
    wanted = [first_attempt("/".join(each.parts[-3:])) for each in files if not each.exists()]
    try:
        for geometry in [own[each] for each in wanted if each in own][:1] if checkpoint_file else ():
            checkpoint.check(Path(str(checkpoint_file)), minigpt.geometry_of(**geometry))
    except ValueError as error:
        return str(error)
    return None


def closed_folder(files: list[Path]) -> Path | None:
    """The folder that stands in the way of making one of the files that do not exist yet: it cannot be written."""
    for path in (each for each in files if not each.exists()):
        nearest = next(folder for folder in path.parents if folder.exists())
        if not os.access(nearest, os.W_OK):
            return nearest
    return None


def record_files(session_dir: Path) -> list[Path]:
    """Every measurement record of a session, whatever parameters it was taken under."""
    return sorted(path for side in SIDES for path in (session_dir / side).rglob("*.json"))


def distrusted(session_dir: Path) -> list[str]:
    """Why this session must not be drawn, one line per record: damaged, newer than this program, of another device.

    Looked into where a record is newer than what was drawn last; the others were read and found sound then.
    """
    paths = record_files(session_dir)
    if not _news(session_dir / "roofline.json", paths):
        return []
    told: list[str] = []
    sound: dict[Path, Json] = {}
    for path in paths:
        try:
            sound[path] = records.read_sealed(path)
        except records.RecordError as error:
            told.append(str(error))
    for side in SIDES:
        told += identity.strangers(side, {path: each for path, each in sound.items() if each["side"] == side})
    return told


def _news(drawn: Path, paths: list[Path]) -> bool:
    """Whether a record changed after the drawing: by its time, or by the time of its inode, which no tool sets back."""
    if not drawn.exists():
        return True
    before = drawn.stat()
    return any(now.st_mtime >= before.st_mtime or now.st_ctime > before.st_ctime for now in map(Path.stat, paths))

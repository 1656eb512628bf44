"""Is this the machine the session was begun on? Compared before a second is spent."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from rooflab.record.records import distrust
from rooflab.record.types import Json

MEMORY_TOLERANCE = 0.02
POWER_LIMIT_TOLERANCE = 0.01  # a limit set in percent or by the mains' state comes back a few milliwatts off
EXACT = {"gpu": ("name", "sm_count", "mig"), "cpu": ("name", "cores_physical", "threads")}


class WrongMachine(Exception):
    """The live device is not the one that the session's records came from."""


def check_named(asked: str, live: str) -> None:
    """Raises WrongMachine if the config names a device (`asked`, empty when it names none) and this machine's is another."""
    if asked and asked != live:
        raise WrongMachine(
            f"device={asked} was asked for, and this machine's GPU is {live}. To measure this one: snakemake --cores 1 --config device=auto"
        )


def check(session_dir: Path, side: str, live: dict[str, Any]) -> None:
    """Raises WrongMachine if any record of this side was taken on another kind of device. Another card of the model passes.

    Failed attempts and files that are no records say nothing of the session's device. Whether a record is intact is not
    asked here, in every program that measures, but by the free rules, once.
    """
    for path in _files(session_dir, side):
        known = _claimed(path)
        differences = _differences(side, known, live) if known else []
        if differences:
            raise WrongMachine(
                f"this machine is not the one of the session {session_dir.name} ({'; '.join(differences)}; compared with "
                f"{path.name}). To measure this machine: snakemake --cores 1 --config session={session_dir.name}-2"
            )


def _files(session_dir: Path, side: str) -> list[Path]:
    return sorted((session_dir / side).rglob("*.json"))


def _claimed(path: Path) -> dict[str, Any] | None:
    """The device that a record says it was taken on; None for a failed attempt and for what is no record."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return None if record["status"] == "failed" else dict(record["device"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def strangers(side: str, known: dict[Path, Json]) -> list[str]:
    """One line for each record that was taken on another device than most of its side of the session, with its repair."""
    known = {path: record for path, record in known.items() if record["status"] != "failed"}
    kinds = Counter(_kind(side, record) for record in known.values())
    told = []
    for path, record in known.items():
        usual = next(r["device"] for r in known.values() if _kind(side, r) == kinds.most_common(1)[0][0])
        differences = _differences(side, usual, record["device"])
        if differences:
            told.append(str(distrust(path, f"not of this session's device ({'; '.join(differences)})")))
    return told


def _kind(side: str, record: Json) -> tuple[Any, ...]:
    return tuple(record["device"].get(each) for each in (*EXACT[side], "power_limit_w"))


def _differences(side: str, known: dict[str, Any], live: dict[str, Any]) -> list[str]:
    found = [f"{k}: {known.get(k)} there, {live.get(k)} here" for k in EXACT[side] if known.get(k) != live.get(k)]
    if side == "gpu" and _apart(known.get("power_limit_w"), live.get("power_limit_w"), POWER_LIMIT_TOLERANCE):
        found.append(f"power_limit_w: {known.get('power_limit_w')} there, {live.get('power_limit_w')} here")
    before, here = known.get("memory_bytes"), live.get("memory_bytes")
    if before and here and _apart(before, here, MEMORY_TOLERANCE):
        found.append(f"memory: {before / 2**30:.1f} GiB there, {here / 2**30:.1f} GiB here")
    return found


def _apart(one: float | None, other: float | None, tolerance: float) -> bool:
    """Whether two figures differ by more than the tolerance, as a share; a figure that is missing differs from any other."""
    if not one or not other:
        return one != other
    return abs(other / one - 1) > tolerance


def drift(session_dir: Path, side: str, live: dict[str, Any]) -> list[str]:
    """What changed since the side's earlier records, within the tolerance: a line for the record."""
    limits = {known.get("power_limit_w") for path in _files(session_dir, side) if (known := _claimed(path))}
    here = live.get("power_limit_w")
    others = sorted(limit for limit in limits if limit and here and limit != here)
    if not others:
        return []
    return [f"the GPU's power limit was {', '.join(f'{each:g}' for each in others)} W before, {here:g} W here"]

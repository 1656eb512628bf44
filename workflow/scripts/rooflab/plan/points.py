"""A planned measurement: what it is, how its file is called, and which files hold its attempts.

The file's name is the cache key: everything that changes the number is in the spec, the key is the spec's digest.
"""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rooflab.record import names
from rooflab.record.records import LABELS, canonical, key_of

Spec = dict[str, Any]


@dataclass(frozen=True)
class Point:
    """One planned measurement: its stage, its name without key, its spec and the folder it lies in."""

    stage: str
    side: str
    name: str
    spec: Spec

    @cached_property
    def key(self) -> str:
        return key_of(self.spec)

    def file(self, attempt: int = 1) -> str:
        """Path under the session's folder; later attempts after a failed one carry their number."""
        return names.measurement(self.side, self.stage, self.name, self.key, attempt)


def planned(stage: str, side: str, name: str, protocol: int, **parameters: Any) -> Point:
    """A planned measurement with its normalised spec; `protocol` counts the ways in which its stage has been measured."""
    return Point(stage, side, name, canonical({"stage": stage, "side": side, "protocol": protocol} | parameters))


def scalars(section: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a config's section that enter every spec of it as they are; lists make several measurements."""
    return {name: value for name, value in section.items() if not isinstance(value, list | dict)}


def attempts(session_dir: Path, planned: Point) -> list[Path]:
    """The files of a point that exist, first attempt first: its own, and those of the same sizes under another name or key."""
    found = []
    number = 1
    while (path := session_dir / planned.file(number)).exists():
        found.append(path)
        number += 1
    if planned.stage not in LABELS or (found and planned.stage == "decode"):
        return found
    folder = session_dir / planned.side / planned.stage
    held = tuple(sorted(each.name for each in folder.glob("*.json"))) if folder.is_dir() else ()
    others = _by_key(folder, held).get(planned.key, [])
    return sorted({*found, *others}, key=lambda path: (names.attempt_of(path), path.name))


@cache
def _by_key(folder: Path, held: tuple[str, ...]) -> dict[str, list[Path]]:
    """The records of a folder by what decides their number; one that cannot be read is none, and is told of elsewhere."""
    found: dict[str, list[Path]] = {}
    for name in held:
        try:
            spec = json.loads((folder / name).read_bytes())["spec"]
            found.setdefault(key_of(spec), []).append(folder / name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found

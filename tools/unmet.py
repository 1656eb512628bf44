"""Names the locked packages that this environment lacks or holds outside the range that the project needs.

Run by the environment's own Python: {"wanted": requirements, "locked": pins} on standard input, a list of names out.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name


def version_of(name: str) -> str | None:
    """Installed version, None where the package is absent."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def applies(requirement: Requirement, extra: str) -> bool:
    """Whether the requirement's marker holds in this Python."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def outside_range(wanted: list[str]) -> set[str]:
    """Walks from the project's requirements through what is installed to what is missing or of a wrong version."""
    unmet: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [(text, "") for text in wanted]
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if (text, extra) in seen or not applies(requirement, extra):
            continue
        seen.add((text, extra))
        version = version_of(requirement.name)
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            unmet.add(canonicalize_name(requirement.name))
            continue
        needs = metadata.requires(requirement.name) or []
        waiting += [(need, inner) for need in needs for inner in ("", *requirement.extras)]
    return unmet


def absent(locked: list[str]) -> set[str]:
    """Pins for this platform whose package is not installed at all."""
    pinned = [Requirement(text) for text in locked]
    return {canonicalize_name(pin.name) for pin in pinned if applies(pin, "") and version_of(pin.name) is None}


if __name__ == "__main__":
    question = json.load(sys.stdin)
    print(json.dumps(sorted(outside_range(question["wanted"]) | absent(question["locked"]))))

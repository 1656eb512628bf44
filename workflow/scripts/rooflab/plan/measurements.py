"""What a session consists of: config -> the list of measurements, each with the file that holds it.

The file's name is the cache key: everything that changes the number is in the spec, the key is the spec's digest.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from rooflab.plan import operators
from rooflab.record.records import LABELLED, canonical, key_of
from rooflab.reference.minigpt import GENERATOR_VERSION

# Raised by hand when the way a stage measures changes its numbers: every file of that stage is then pending.
PROTOCOL = {"device": 1, "launch_floor": 1, "bandwidth": 1, "gemm": 2, "fma": 1, "decode": 1}
PROTOCOL |= operators.PROTOCOL

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
        folder = "" if self.stage in ("device", "launch_floor") else f"{self.stage}/"
        suffix = f".{attempt}" if attempt > 1 else ""
        return f"{self.side}/{folder}{self.name}.{self.key}{suffix}.json"


def point(stage: str, side: str, name: str, **parameters: Any) -> Point:
    """A planned measurement with its normalised spec."""
    spec = {"stage": stage, "side": side, "protocol": PROTOCOL[stage]} | parameters
    return Point(stage, side, name, canonical(spec))


def session_points(config: dict[str, Any], with_gpu: bool) -> list[Point]:
    """Every measurement of a session, in the order it is taken: the GPU's (paid by the hour) first, then the host's."""
    common = (_device, _launch_floor, _bandwidth, _gemm)
    gpu = [p for stage in (*common, _fma, _decode) for p in stage(config, "gpu")]
    gpu += [point(stage, "gpu", name, **parameters) for stage, name, parameters in operators.planned(config)]
    cpu = [p for stage in (*common, _decode) for p in stage(config, "cpu")]
    return (gpu if with_gpu else []) + cpu


def _section(config: dict[str, Any], side: str, stage: str) -> dict[str, Any]:
    section: dict[str, Any] = (config["cpu"] if side == "cpu" else config)[stage]
    return section


def _scalars(section: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in section.items() if not isinstance(v, list | dict)}


def _device(config: dict[str, Any], side: str) -> Iterator[Point]:
    yield point("device", side, "device")


def _launch_floor(config: dict[str, Any], side: str) -> Iterator[Point]:
    yield point("launch_floor", side, "launch_floor", **_section(config, side, "launch_floor"))


def _given(config: dict[str, Any], side: str) -> bool:
    return side == "cpu" and config["cpu"]["roofline_file"] is not None


def _bandwidth(config: dict[str, Any], side: str) -> Iterator[Point]:
    section = _section(config, side, "bandwidth")
    for pattern in [] if _given(config, side) else section["patterns"]:
        parameters = section["l2"] if pattern == "l2" else _scalars(section)
        yield point("bandwidth", side, pattern, pattern=pattern, **parameters)


def _gemm(config: dict[str, Any], side: str) -> Iterator[Point]:
    section = _section(config, side, "gemm")
    lab = [(dtype, n) for dtype in section["dtypes"] for n in section["sizes"]]
    others = [(dtype, n) for dtype in section.get("other_dtypes", []) for n in section.get("other_sizes", [])]
    for dtype, n in [] if _given(config, side) else dict.fromkeys([*lab, *others]):
        yield point("gemm", side, f"{dtype}-n{n}", dtype=dtype, n=n, **_scalars(section))


def _fma(config: dict[str, Any], side: str) -> Iterator[Point]:
    for dtype in config["fma"]["dtypes"]:
        yield point("fma", side, f"fma-{dtype}", dtype=dtype, **_scalars(config["fma"]))


def _decode(config: dict[str, Any], side: str) -> Iterator[Point]:
    section, model = _section(config, side, "decode"), config["minigpt"]
    geometry = {k: model[k] for k in ("layers", "heads", "kv_heads", "head_dim", "vocabulary", "context")}
    weights: Spec = {"seed": model["seed"], "generator": GENERATOR_VERSION}
    if model["weights_sha256"] is not None:
        weights = {"sha256": model["weights_sha256"]}
    for dtype in section["dtypes"]:
        for sequence in section["sequence_lengths"]:
            yield point(
                "decode", side, f"minigpt-{dtype}-S{sequence}", operator="minigpt", dtype=dtype, sequence=sequence,
                batch=1, geometry=geometry, weights=weights, **_scalars(section),
            )  # fmt: skip
    far = section.get("hbm", {"dtypes": []})
    for dtype in far["dtypes"]:
        yield point(
            "decode", side, f"minigpt-{dtype}-hbm", operator="minigpt", dtype=dtype, geometry=geometry, **_scalars(far)
        )


def first_attempt(file: str) -> str:
    """The file of a point's first attempt: `name.key.2.json` -> `name.key.json`. A key may be all digits."""
    return re.sub(r"(\.[0-9a-f]{8})\.\d+\.json$", r"\1.json", file)


def attempts(session_dir: Path, planned: Point) -> list[Path]:
    """The files of a point that exist, first attempt first: its own, and those of the same sizes under another name."""
    found = []
    number = 1
    while (path := session_dir / planned.file(number)).exists():
        found.append(path)
        number += 1
    if planned.stage not in LABELLED:
        return found
    folder = session_dir / planned.side / planned.stage
    names = tuple(sorted(each.name for each in folder.glob("*.json"))) if folder.is_dir() else ()
    others = _by_key(folder, names).get(planned.key, [])
    return sorted({*found, *others}, key=lambda path: (_number(path), path.name))


def _number(path: Path) -> int:
    """Which attempt a file is: `name.key.2.json` is the second."""
    parts = path.name.split(".")
    return int(parts[2]) if len(parts) > 3 else 1


@cache
def _by_key(folder: Path, names: tuple[str, ...]) -> dict[str, list[Path]]:
    """The records of a folder by what decides their number; one that cannot be read is none, and is told of elsewhere."""
    found: dict[str, list[Path]] = {}
    for name in names:
        try:
            spec = json.loads((folder / name).read_bytes())["spec"]
            found.setdefault(key_of(spec), []).append(folder / name)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
    return found

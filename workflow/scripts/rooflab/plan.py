"""What a session consists of: config -> the list of measurements, each with the file that holds it.

The file's name is the cache key: everything that changes the number is in the spec, the key is the spec's digest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflab.minigpt import GENERATOR_VERSION
from rooflab.records import canonical, digest

# Raised by hand when the way a stage measures changes its numbers: every file of that stage is then pending.
PROTOCOL = {"device": 1, "launch_floor": 1, "bandwidth": 1, "gemm": 1, "decode": 1}

Spec = dict[str, Any]
START_UP_S = {"gpu": 1.3, "cpu": 0.6}  # a fresh Python: NumPy 0.3 s, CuPy 0.25 s, context 0.25 s, cuBLAS 0.1 s


@dataclass(frozen=True)
class Point:
    """One planned measurement: its stage, its name without key, its spec and the folder it lies in."""

    stage: str
    side: str
    name: str
    spec: Spec

    @property
    def key(self) -> str:
        return digest(self.spec)[:8]

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
    gpu = [p for stage in (_device, _launch_floor, _bandwidth, _gemm, _decode) for p in stage(config, "gpu")]
    cpu = [p for stage in (_device, _launch_floor, _bandwidth, _gemm, _decode) for p in stage(config, "cpu")]
    return (gpu if with_gpu else []) + cpu


def _section(config: dict[str, Any], side: str, stage: str) -> dict[str, Any]:
    section: dict[str, Any] = (config["cpu"] if side == "cpu" else config)[stage]
    return section


def _scalars(section: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in section.items() if not isinstance(v, list)}


def _device(config: dict[str, Any], side: str) -> Iterator[Point]:
    yield point("device", side, "device")


def _launch_floor(config: dict[str, Any], side: str) -> Iterator[Point]:
    yield point("launch_floor", side, "launch_floor", **_section(config, side, "launch_floor"))


def _given(config: dict[str, Any], side: str) -> bool:
    return side == "cpu" and config["cpu"]["roofline_file"] is not None


def _bandwidth(config: dict[str, Any], side: str) -> Iterator[Point]:
    section = _section(config, side, "bandwidth")
    for pattern in [] if _given(config, side) else section["patterns"]:
        yield point("bandwidth", side, pattern, pattern=pattern, **_scalars(section))


def _gemm(config: dict[str, Any], side: str) -> Iterator[Point]:
    section = _section(config, side, "gemm")
    for dtype in [] if _given(config, side) else section["dtypes"]:
        for n in section["sizes"]:
            yield point("gemm", side, f"{dtype}-n{n}", dtype=dtype, n=n, **_scalars(section))


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


def protocol_s(planned: Point) -> float:
    """Seconds one measurement takes by its own protocol (blocks, gaps, sustained load), start-up of its program included."""
    spec = planned.spec
    work = 0.3
    if planned.stage == "gemm":
        blocks = spec["burst_blocks"] * (spec["burst_block_s"] + spec["burst_gap_s"])
        work = blocks + spec["sustained_s"] + 0.4 + 0.06 * spec.get("algorithms", 0)
    elif planned.stage == "decode":
        step_s = 130e-6 if planned.side == "gpu" else 4e-7 * spec["sequence"]
        work = 0.4 + spec["iterations"] * step_s
    elif planned.stage == "bandwidth":
        work = 0.8 if planned.side == "gpu" else 0.3 * (spec["samples"] + spec["warmups"]) + 1.5
    return START_UP_S[planned.side] + work


def attempts(session_dir: Path, planned: Point) -> list[Path]:
    """The files of a point that exist, first attempt first."""
    found = []
    number = 1
    while (path := session_dir / planned.file(number)).exists():
        found.append(path)
        number += 1
    return found

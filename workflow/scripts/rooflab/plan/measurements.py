"""What a session consists of: config -> the list of measurements, each with the file that holds it.

The file's name is the cache key: everything that changes the number is in the spec, the key is the spec's digest.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rooflab.plan import operators
from rooflab.plan.pace import Pace, paced
from rooflab.plan.points import Point, Spec, planned, scalars
from rooflab.record import names
from rooflab.record.records import canonical
from rooflab.reference.minigpt import GENERATOR_VERSION

# Raised by hand when the way a stage measures changes its numbers: every file of that stage is then pending.
PROTOCOL = {"device": 1, "launch_floor": 1, "bandwidth": 1, "gemm": 3, "fma": 1, "decode": 2}
PROTOCOL |= operators.PROTOCOL
CPU_PROTOCOL = {"gemm": 2, "decode": 1}  # where the host's way of measuring did not change with the GPU's


def point(stage: str, side: str, name: str, **parameters: Any) -> Point:
    """A planned measurement of the lab's own stages."""
    protocol = PROTOCOL | (CPU_PROTOCOL if side == "cpu" else {})
    return planned(stage, side, name, protocol[stage], **parameters)


def session_points(config: dict[str, Any], with_gpu: bool, pace: Pace | None = None) -> list[Point]:
    """Every measurement of a session, in the order it is taken: the GPU's (paid by the hour) first, then the host's.

    `pace` tells what the session's card does by its vendor, where that is known; a thorough session is taken as asked.
    """
    common = (_device, _launch_floor, _bandwidth, _gemm)
    gpu = [p for stage in (*common, _fma, _decode) for p in stage(config, "gpu")]
    if pace is not None and config["effort"] == "default":
        gpu = [_paced(each, pace) for each in gpu]
    gpu += operators.points(config)
    cpu = [p for stage in (*common, _decode) for p in stage(config, "cpu")]
    return (gpu if with_gpu else []) + cpu


def _paced(asked: Point, pace: Pace) -> Point:
    if asked.stage != "gemm":
        return asked
    return replace(asked, spec=canonical(paced(asked.spec, pace(asked.spec["dtype"]))))


def _section(config: dict[str, Any], side: str, stage: str) -> dict[str, Any]:
    section: dict[str, Any] = (config["cpu"] if side == "cpu" else config)[stage]
    return section


def _device(config: dict[str, Any], side: str) -> Iterator[Point]:
    yield point("device", side, "device")


def _launch_floor(config: dict[str, Any], side: str) -> Iterator[Point]:
    yield point("launch_floor", side, "launch_floor", **_section(config, side, "launch_floor"))


def _given(config: dict[str, Any], side: str) -> bool:
    return side == "cpu" and config["cpu"]["roofline_file"] is not None


def _bandwidth(config: dict[str, Any], side: str) -> Iterator[Point]:
    section = _section(config, side, "bandwidth")
    for pattern in [] if _given(config, side) else section["patterns"]:
        parameters = section["l2"] if pattern == "l2" else scalars(section)
        yield point("bandwidth", side, pattern, pattern=pattern, **parameters)


def _gemm(config: dict[str, Any], side: str) -> Iterator[Point]:
    section = _section(config, side, "gemm")
    lab = [(dtype, n) for dtype in section["dtypes"] for n in section["sizes"]]
    others = [(dtype, n) for dtype in section.get("other_dtypes", []) for n in section.get("other_sizes", [])]
    products = [] if _given(config, side) else list(dict.fromkeys([*lab, *others]))
    largest = {dtype: max(n for each, n in products if each == dtype) for dtype, _ in products}
    for dtype, n in products:
        once = {} if n == largest[dtype] else {"sustained_s": 0.0}  # seconds of load are taken once for each format
        yield point("gemm", side, names.product(dtype, n), dtype=dtype, n=n, **scalars(section) | once)


def _fma(config: dict[str, Any], side: str) -> Iterator[Point]:
    for dtype in config["fma"]["dtypes"]:
        yield point("fma", side, f"fma-{dtype}", dtype=dtype, **scalars(config["fma"]))


def _decode(config: dict[str, Any], side: str) -> Iterator[Point]:
    section, model = _section(config, side, "decode"), config["minigpt"]
    geometry = {k: model[k] for k in ("layers", "heads", "kv_heads", "head_dim", "vocabulary", "context")}
    weights: Spec = {"seed": model["seed"], "generator": GENERATOR_VERSION}
    if model["weights_sha256"] is not None:
        weights = {"sha256": model["weights_sha256"]}
    for dtype in section["dtypes"]:
        for sequence in section["sequence_lengths"]:
            yield point(
                "decode", side, names.lab_step(dtype, sequence), operator=names.MINIGPT, dtype=dtype, sequence=sequence,
                batch=1, geometry=geometry, weights=weights, **scalars(section),
            )  # fmt: skip
    far = section.get("hbm", {"dtypes": []})
    for dtype in far["dtypes"]:
        yield point(
            "decode",
            side,
            names.lab_step(dtype, None),
            operator=names.MINIGPT,
            dtype=dtype,
            geometry=geometry,
            **scalars(far),
        )

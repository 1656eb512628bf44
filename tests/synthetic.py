"""Measurement records of machines that nobody has to rent: what an H200 and a small CPU would have written.

The H200 figures are those of a real card, rounded; samples are spread by 1 % around them without any randomness.
"""

import json
from pathlib import Path
from typing import Any

from rooflab.record.records import digest, seal

Record = dict[str, Any]

FOLDERS = {"device": "", "launch_floor": "", "bandwidth": "bandwidth", "gemm": "gemm", "fma": "fma", "decode": "decode"}
H200 = {
    "name": "NVIDIA H200",
    "uuid": "GPU-00000000-0000-0000-0000-000000000001",
    "sm_count": 132,
    "memory_bytes": 150_754_820_096,
    "mig": False,
    "power_limit_w": 700.0,
}
H200_FACTS = {
    **H200,
    "compute_capability": "9.0",
    "sm_clock_hz": 1.98e9,
    "memory_clock_hz": 3.201e9,
    "memory_bus_bits": 6016,
    "l2_bytes": 62_914_560,
    "ecc_enabled": True,
}
CPU = {"name": "Example CPU 8-Core", "cores_physical": 8, "threads": 16}
CPU_FACTS = {
    **CPU,
    "model": "Example CPU 8-Core",
    "clock_hz_max": 3.5e9,
    "simd": "AVX2",
    "fp32_lanes": 8,
    "fma_units": 2,
    "caches_bytes": {"L1d": 32768, "L2": 1048576, "L3": 33554432},
    "llc_bytes": 33554432,
    "dram_bytes": 68719476736,
    "peak": {"cores": 8, "clock_hz": None, "fp32_lanes": 8, "fma_units": 2, "reason": "no maximum clock"},
}
ENVIRONMENT = {
    "python": "3.11.9",
    "system": "Linux x86_64",
    "kernel": "6.1.0",
    "packages": {"numpy": "2.1.2", "snakemake": "9.11.0"},
    "variables": {},
    "git": {"commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False},
    "program": "measure.py",
}
GPU_ENVIRONMENT = {**ENVIRONMENT, "cuda_runtime": "12.9", "cublas": "12.9", "driver": "580.159.04"}

# dtype -> TFLOPS of the lab's 100 launches, burst, sustained, burst at 8192, relative error
H200_GEMM = {
    "fp32": (51.0, 51.2, 51.2, 51.3, 1.1e-6),
    "fp16": (700.0, 760.0, 649.0, 761.0, 2.1e-4),
    "bf16": (720.0, 790.0, 678.0, 788.0, 1.7e-3),
    "fp8_e4m3": (1400.0, 1490.0, 1290.0, 1547.0, 2.0e-3),
}
H200_GB_PER_S = {"d2d": 4289.0, "read": 4713.0, "write": 4711.0, "triad": 4425.0}
# dtype -> S -> microseconds per step: CuPy chain and fused, synchronised each; fused, replayed in a graph
H200_DECODE_US = {
    "fp32": {128: (106.56, 12.71, 2.69), 256: (110.64, 14.19, 3.97), 512: (108.85, 14.03, 4.19), 1024: (106.48, 14.9, 5.06)},
    "fp16": {128: (115.56, 11.87, 2.39), 256: (124.42, 12.7, 3.06), 512: (121.47, 14.05, 4.33), 1024: (143.08, 16.06, 4.65)},
    "bf16": {128: (247.56, 13.59, 2.39), 256: (129.14, 14.29, 3.06), 512: (128.47, 14.38, 4.2), 1024: (132.68, 14.83, 4.54)},
}  # fmt: skip
CPU_TFLOPS = {"fp32": 0.80, "fp64": 0.40}
CPU_GB_PER_S = {"read": 38.0, "triad": 30.0}
CPU_DECODE_US = {128: 60.0, 256: 85.0, 512: 130.0, 1024: 230.0}
CPU_FLOOR_US = 0.2
BUFFER_BYTES = {"gpu": 2**32, "cpu": 2**27}
# what `h200_session` and `cpu_session` put in place of the figures above; dtypes and patterns left out are not measured
FIGURES = {"gemm", "gb_per_s", "decode_us", "facts", "burst_reasons", "sustained_reasons", "investigations", "hbm_us"}
CPU_FIGURES = {"cpu_tflops", "cpu_gb_per_s", "cpu_decode_us"}
HBM_BATCH = 1024  # sequences of 1024 tokens: 2 GiB of K and V in fp16


def series(name: str, implementation: str, median_s: float, **changes: Any) -> Record:
    """One series whose samples lie within 1 % of `median_s` per launch."""
    made: Record = {
        "name": name,
        "implementation": implementation,
        "launch": "python",
        "timing": "blocks",
        "cache": None,
        "warmups": 3,
        "iterations_per_sample": 100,
        "chip": chip("cpu"),
        "relative_error": None,
        "tolerance": None,
    } | changes
    per_sample = median_s * made["iterations_per_sample"]
    return {"samples_s": [per_sample * (1 + 0.005 * step) for step in (0, -2, 2, -1, 1)], **made}


def chip(side: str, *reasons: str) -> Record:
    """The state of a chip whose clocks are held down for `reasons` under load; a CPU says nothing."""
    if side == "cpu":
        return {"before": {}, "during": {}, "after": {}}
    idle = {"sm_clock_hz": 1.98e9, "power_w": 120.0, "temperature_c": 35, "throttle_reasons": []}
    load = {"sm_clock_hz": 1.45e9 if reasons else 1.98e9, "power_w": 690.0, "temperature_c": 60}
    return {"before": idle, "during": {**load, "throttle_reasons": list(reasons)}, "after": idle}


def record(stage: str, side: str, name: str, **changes: Any) -> Record:
    """A sealed measurement record; `changes` replace whole fields."""
    fields: Record = {
        "spec": {"stage": stage, "side": side, "protocol": 1, "name": name},
        "status": "measured",
        "reason": None,
        "remedy": None,
        "operator": None,
        "dtype": None,
        "shape": {},
        "series": [],
        "details": {},
        "attempt": 1,
        "device": H200 if side == "gpu" else CPU,
        "environment": GPU_ENVIRONMENT if side == "gpu" else ENVIRONMENT,
        "started_at": "2026-01-01T00:00:00Z",
        "seconds": 1.5,
    } | changes
    head = {"schema": "measurement", "schema_version": 1, "stage": stage, "side": side, "name": name}
    return seal({**head, "key": digest(fields["spec"])[:8], **fields})


def device(side: str, **facts: Any) -> Record:
    """The device record; `facts` replace what the device says of itself."""
    identity, known = (H200, H200_FACTS) if side == "gpu" else (CPU, CPU_FACTS)
    own = {name: facts.get(name, value) for name, value in identity.items()}
    return record("device", side, "device", device=own, details=known | facts)


def bandwidth(side: str, pattern: str, gb_per_s: float) -> Record:
    arrays = {"d2d": (1, 1), "read": (1, 0), "write": (0, 1), "triad": (2, 1), "l2": (1, 0)}[pattern]
    nbytes = 2**24 if pattern == "l2" else BUFFER_BYTES[side]
    shape = {"bytes_per_array": nbytes, "reads": arrays[0], "writes": arrays[1]}
    seconds = sum(arrays) * nbytes / (gb_per_s * 1e9)
    timed = series("burst", pattern, seconds, iterations_per_sample=1, chip=chip(side))
    return record("bandwidth", side, pattern, operator=pattern, dtype="fp32", shape=shape, series=[timed])


def gemm(
    side: str, dtype: str, n: int, lab: float, burst: float, sustained: float, error: float, **changes: Any
) -> Record:
    """One GEMM record from its three rates in TFLOPS. `changes` may hold burst_reasons and sustained_reasons."""
    library = "cupy.matmul" if side == "gpu" else "numpy.matmul"
    burst_reasons, sustained_reasons = (
        changes.pop("burst_reasons", ()),
        changes.pop("sustained_reasons", ("SwPowerCap",)),
    )

    def timed(name: str, tflops: float, **more: Any) -> Record:
        seconds = 2 * n**3 / (tflops * 1e12)
        return series(name, library, seconds, relative_error=error, tolerance=10 * error, **more)

    cool, capped = chip(side, *burst_reasons), chip(side, *sustained_reasons)
    made = [timed("lab", lab, chip=cool), timed("burst", burst, chip=cool), timed("sustained", sustained, chip=capped)]
    shape = {"m": n, "n": n, "k": n}
    fields = {"operator": "gemm", "dtype": dtype, "shape": shape, "series": made} | changes
    return record("gemm", side, f"{dtype}-n{n}", **fields)


def decode(side: str, dtype: str, sequence: int, made: list[Record]) -> Record:
    shape = {"batch": 1, "query_heads": 8, "kv_heads": 8, "sequence": sequence, "head_dim": 64}
    name = f"minigpt-{dtype}-S{sequence}"
    return record("decode", side, name, operator="decode_attention", dtype=dtype, shape=shape, series=made)


def hbm_decode(microseconds: float) -> Record:
    """A batch whose K and V lie far beyond L2, fp16, one step in `microseconds`."""
    made = [decode_series("fused", "fused", microseconds)]
    shape = {"batch": HBM_BATCH, "query_heads": 8, "kv_heads": 8, "sequence": 1024, "head_dim": 64}
    return record(
        "decode", "gpu", "minigpt-fp16-hbm", operator="decode_attention", dtype="fp16", shape=shape, series=made
    )


def decode_series(name: str, implementation: str, microseconds: float, **changes: Any) -> Record:
    how = {
        "timing": "sync_each",
        "cache": "warm",
        "iterations_per_sample": 1,
        "relative_error": 1e-6,
        "tolerance": 1e-3,
    }
    return series(name, implementation, microseconds * 1e-6, **(how | changes))


def floor(side: str, name: str, microseconds: float, **changes: Any) -> Record:
    return series(name, "empty kernel" if side == "gpu" else "empty call", microseconds * 1e-6, **changes)


def cpu_records(**figures: Any) -> list[Record]:
    """What the host CPU of either session wrote; `figures`: see CPU_FIGURES."""
    empty = [floor("cpu", "sync_each", CPU_FLOOR_US, timing="sync_each", iterations_per_sample=1)]
    gb_per_s, tflops = figures.get("cpu_gb_per_s", CPU_GB_PER_S), figures.get("cpu_tflops", CPU_TFLOPS)
    decode_us = figures.get("cpu_decode_us", CPU_DECODE_US)
    return [
        device("cpu"),
        record("launch_floor", "cpu", "launch_floor", operator="empty_launch", series=empty),
        *(bandwidth("cpu", pattern, rate) for pattern, rate in gb_per_s.items()),
        *(gemm("cpu", name, 2048, 0.95 * rate, rate, 0.97 * rate, 1e-6) for name, rate in tflops.items()),
        *(decode("cpu", "fp32", s, [decode_series("numpy", "numpy", us)]) for s, us in decode_us.items()),
    ]


def gpu_records(**figures: Any) -> list[Record]:
    """What an H200 wrote; `figures`: see FIGURES."""
    graph = {"launch": "graph", "timing": "graph"}
    empty = [
        floor("gpu", "sync_each", 9.3, timing="sync_each", iterations_per_sample=1),
        floor("gpu", "back_to_back", 4.5),
        floor("gpu", "graph", 0.51, **graph),
    ]
    made = [
        device("gpu", **figures.get("facts", {})),
        record("launch_floor", "gpu", "launch_floor", operator="empty_launch", series=empty),
        *(bandwidth("gpu", pattern, rate) for pattern, rate in figures.get("gb_per_s", H200_GB_PER_S).items()),
    ]
    chips = {key: figures[key] for key in ("burst_reasons", "sustained_reasons") if key in figures}
    details = {"investigations": figures.get("investigations", [])}
    for dtype, (lab, burst, sustained, large, error) in figures.get("gemm", H200_GEMM).items():
        made.append(gemm("gpu", dtype, 4096, lab, burst, sustained, error, details=details, **chips))
        made.append(gemm("gpu", dtype, 8192, lab, large, sustained, error, **chips))
    if "hbm_us" in figures:
        made.append(hbm_decode(figures["hbm_us"]))
    for dtype, steps in figures.get("decode_us", H200_DECODE_US).items():
        for sequence, (chain, fused, replayed) in steps.items():
            ways = [
                decode_series("cupy_chain", "cupy_chain", chain),
                decode_series("fused", "fused", fused),
                decode_series("fused graph", "fused", replayed, **{**graph, "iterations_per_sample": 100}),
            ]
            made.append(decode("gpu", dtype, sequence, ways))
    return made


def cpu_session(**figures: Any) -> list[Record]:
    """A session on a machine without a GPU; `figures`: see CPU_FIGURES."""
    assert set(figures) <= CPU_FIGURES, figures
    return cpu_records(**figures)


def h200_session(**changes: Any) -> list[Record]:
    """An H200 and its host. `changes`: without=(names), failed=(names), unsupported=(names), extra=[records], FIGURES."""
    unknown = set(changes) - {"without", "failed", "unsupported", "extra"} - FIGURES - CPU_FIGURES
    assert not unknown, unknown
    made = [r for r in gpu_records(**changes) + cpu_records(**changes) if r["name"] not in changes.get("without", ())]
    for status in ("failed", "unsupported"):
        made = [emptied(r, status) if r["name"] in changes.get(status, ()) else r for r in made]
    return made + list(changes.get("extra", ()))


def emptied(old: Record, status: str) -> Record:
    """The record of a measurement that did not succeed."""
    remedy = "free the card's memory and run again" if status == "failed" else None
    return seal(old | {"status": status, "reason": f"{old['name']} is {status}", "remedy": remedy, "series": []})


def relative_path(made: Record) -> str:
    """Where the record stands in its session."""
    attempt = f".{made['attempt']}" if made["attempt"] > 1 else ""
    file = f"{made['name']}.{made['key']}{attempt}.json"
    return "/".join(part for part in (made["side"], FOLDERS[made["stage"]], file) if part)


def planned(made: list[Record]) -> list[Record]:
    """The plan that the records fulfil."""
    return [{"file": relative_path(r), "stage": r["stage"], "side": r["side"], "name": r["name"]} for r in made]


def with_files(made: list[Record]) -> dict[str, Record]:
    """The records by their file, as the model takes them."""
    return {relative_path(r): r for r in made}


def write_session(folder: Path, made: list[Record]) -> list[Path]:
    """Writes the records where a session keeps them; returns their paths."""
    paths = [folder / relative_path(r) for r in made]
    for path, one in zip(paths, made, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(one), encoding="utf-8")
    return paths

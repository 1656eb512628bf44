"""Every number the interpretation may say, gathered from ceilings and points, so that the prose computes nothing.

Each answer lists under `required` the dotted paths of the figures its paragraph must hold.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rooflab.ceilings import fraction, gemm_flop_per_s, plain
from rooflab.evidence import Records
from rooflab.points import lab_records
from rooflab.regimes import FAST_TIER, compute_ceiling

Item = Mapping[str, Any]
Answer = dict[str, Any]

TEXTBOOK_FRACTION = (0.003, 0.01)  # decode's share of the fp16 Tensor Core peak as the lab tells it: 0.3 to 1 %
POINT_KEYS = (
    "id", "median_s", "p10_s", "p90_s", "achieved_flop_per_s", "achieved_bytes_per_s", "intensity", "bound_by", "tier",
    "memory_ceiling", "limit", "working_set_bytes", "implementation", "fraction_of_attainable", "fraction_of_ceiling",
)  # fmt: skip


def answers(
    records: Records,
    ceilings: Sequence[Item],
    floors: Sequence[Item],
    points: Sequence[Item],
    main_side: str,
    gpu_sessions: Sequence[str],
) -> dict[str, Answer]:
    """The figures of the three paragraphs. `gpu_sessions`: names of the sessions with a GPU beside a CPU session."""
    return {
        "gemm": gemm_answer(records, ceilings, points, main_side),
        "decode": decode_answer(ceilings, floors, points, main_side),
        "cpu": cpu_answer(ceilings, floors, points, main_side, gpu_sessions),
    }


def resolve(value: Any, path: str) -> Any:
    """The entry of nested mappings that a dotted path names; None where there is none."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def gemm_answer(records: Records, ceilings: Sequence[Item], points: Sequence[Item], side: str) -> Answer:
    """Paragraph 1: each lab point against its own ceiling, its burst and sustained rate against the vendor's."""
    lab = {point["dtype"]: point for point in points if point["side"] == side and point["operator"] == "gemm"}
    sources = lab_records(records, side)
    dtypes = {name: _gemm_dtype(point, sources[name][1], ceilings) for name, point in sorted(lab.items())}
    return {"side": side, "dtypes": dtypes, "required": [f"dtypes.{name}.fraction_of_ceiling" for name in dtypes]}


def decode_answer(ceilings: Sequence[Item], floors: Sequence[Item], points: Sequence[Item], side: str) -> Answer:
    """Paragraph 2: each lab point's step, slope and share of the peak that the textbook speaks of."""
    peak = compute_ceiling(ceilings, side, "fp16" if side == "gpu" else "fp32")
    dtypes: dict[str, Any] = {}
    for point in _lab_decode(points, side):
        own = dtypes.setdefault(point["dtype"], {"sequences": {}})
        own["sequences"][str(point["sequence"])] = _decode_step(point, peak)
    for own in dtypes.values():
        steps = [step["median_s"] for step in own["sequences"].values()]
        own["latency_rises_with_sequence"] = all(a < b for a, b in zip(steps, steps[1:], strict=False))
    return {
        "side": side,
        "peak": peak["id"] if peak else None,
        "peak_flop_per_s": peak["burst"] if peak else None,
        "textbook_low": TEXTBOOK_FRACTION[0],
        "textbook_high": TEXTBOOK_FRACTION[1],
        "launch_floor_s": _sync_floor(floors, side),
        "dtypes": dtypes,
        "required": [
            f"dtypes.{name}.sequences.{s}.fraction_of_peak" for name in dtypes for s in dtypes[name]["sequences"]
        ],
    }


def cpu_answer(
    ceilings: Sequence[Item],
    floors: Sequence[Item],
    points: Sequence[Item],
    main_side: str,
    gpu_sessions: Sequence[str],
) -> Answer:
    """Paragraph 3: GPU over CPU on the same operator (dtype and S), beside the ratio of the memory bandwidths."""
    pairs = _pairs(points)
    read = _bandwidth_ratio(ceilings, "read", "read")
    copy = _bandwidth_ratio(ceilings, "d2d", "triad")
    ratios = [pair["ratio"] for pair in pairs.values()]
    required = [f"sequences.{s}.ratio" for s in pairs] + (["bandwidth_ratio_read"] if pairs and read else [])
    return {
        "available": bool(pairs),
        "reason": None if pairs else _no_comparison(points, main_side, gpu_sessions),
        "gpu_sessions": list(gpu_sessions),
        "dtype": "fp32",
        "sequences": pairs,
        "ratio_low": min(ratios, default=None),
        "ratio_high": max(ratios, default=None),
        "bandwidth_ratio_read": read,
        "bandwidth_ratio_copy": copy,
        "launch_floor_s": _sync_floor(floors, "gpu"),
        "required": required,
    } | _verdict(pairs, read)


def _gemm_dtype(point: Item, record: Mapping[str, Any], ceilings: Sequence[Item]) -> Answer:
    ceiling = compute_ceiling(ceilings, point["side"], point["dtype"])
    vendor = ceiling["vendor"] if ceiling else None
    burst, sustained = (_rate(record, name) for name in ("burst", "sustained"))
    return {
        "point": point["id"],
        "ceiling": ceiling["id"] if ceiling else None,
        "n": point["n"],
        "achieved_flop_per_s": point["achieved_flop_per_s"],
        "ceiling_flop_per_s": ceiling["burst"] if ceiling else None,
        "fraction_of_ceiling": point["fraction_of_ceiling"],
        "bound_by": point["bound_by"],
        "intensity": point["intensity"],
        "burst_flop_per_s": burst,
        "sustained_flop_per_s": sustained,
        "vendor_flop_per_s": vendor,
        "burst_fraction_of_vendor": fraction(burst, vendor),
        "sustained_fraction_of_vendor": fraction(sustained, vendor),
        "power_capped": ceiling["power_capped"] if ceiling else None,
        "verified": point["verified"],
    }


def _rate(record: Mapping[str, Any], name: str) -> float | None:
    series = plain(dict(record), name)
    return gemm_flop_per_s(dict(record), series) if series else None


def _lab_decode(points: Sequence[Item], side: str) -> list[Item]:
    lab = [p for p in points if (p["side"], p["operator"], p["lab_point"]) == (side, "decode_attention", True)]
    return sorted(lab, key=lambda point: (point["dtype"], point["sequence"]))


def _decode_step(point: Item, peak: Item | None) -> Answer:
    share = fraction(point["achieved_flop_per_s"], peak["burst"] if peak else None)
    return {key: point[key] for key in POINT_KEYS} | {"fraction_of_peak": share, "textbook": _textbook(share)}


def _textbook(share: float | None) -> str | None:
    """Where a share of the peak lies: "below", "inside" or "above" the textbook's range."""
    if share is None:
        return None
    low, high = TEXTBOOK_FRACTION
    return "below" if share < low else "above" if share > high else "inside"


def _sync_floor(floors: Sequence[Item], side: str) -> float | None:
    found = [f["median_s"] for f in floors if (f["side"], f["launch"], f["timing"]) == (side, "python", "sync_each")]
    return found[0] if found else None


def _pairs(points: Sequence[Item]) -> dict[str, Answer]:
    """Both sides of every S that both measured in fp32, and GPU over CPU in achieved FLOP/s."""
    sides = [{p["sequence"]: p for p in _lab_decode(points, side) if p["dtype"] == "fp32"} for side in ("gpu", "cpu")]
    gpu, cpu = sides
    return {
        str(s): {
            "gpu": gpu[s]["id"],
            "cpu": cpu[s]["id"],
            "gpu_median_s": gpu[s]["median_s"],
            "cpu_median_s": cpu[s]["median_s"],
            "gpu_achieved_flop_per_s": gpu[s]["achieved_flop_per_s"],
            "cpu_achieved_flop_per_s": cpu[s]["achieved_flop_per_s"],
            "gpu_bound_by": gpu[s]["bound_by"],
            "cpu_bound_by": cpu[s]["bound_by"],
            "gpu_tier": gpu[s]["tier"],
            "cpu_tier": cpu[s]["tier"],
            "ratio": gpu[s]["achieved_flop_per_s"] / cpu[s]["achieved_flop_per_s"],
        }
        for s in sorted(gpu.keys() & cpu.keys())
    }


def _bandwidth_ratio(ceilings: Sequence[Item], gpu_pattern: str, cpu_pattern: str) -> float | None:
    found = {(c["side"], c["pattern"]): c["burst"] for c in ceilings if c["kind"] == "memory"}
    return fraction(found.get(("gpu", gpu_pattern)), found.get(("cpu", cpu_pattern)))


def _verdict(pairs: Mapping[str, Answer], read: float | None) -> Answer:
    """Which ratio is larger at the longest S, and why the operator's differs from the bandwidths'."""
    if not pairs or read is None:
        return {"larger": None, "likely_reasons": []}
    longest = list(pairs.values())[-1]
    reasons = [
        code
        for code, holds in (
            ("gpu_launch_bound", longest["gpu_bound_by"] == "launch"),
            ("gpu_reads_from_l2", longest["gpu_tier"] == FAST_TIER["gpu"]),
            ("cpu_reads_from_cache", longest["cpu_tier"] == FAST_TIER["cpu"]),
            ("cpu_launch_bound", longest["cpu_bound_by"] == "launch"),
        )
        if holds
    ]
    return {"larger": "operator" if longest["ratio"] > read else "bandwidth", "likely_reasons": reasons}


def _no_comparison(points: Sequence[Item], main_side: str, gpu_sessions: Sequence[str]) -> str:
    if main_side == "cpu" and not gpu_sessions:
        return "this session measured a CPU only, and no GPU session lies beside it"
    if main_side == "cpu":
        return f"this session measured a CPU only; GPU sessions beside it: {', '.join(gpu_sessions)}"
    lacking = [side for side in ("gpu", "cpu") if not any(p["dtype"] == "fp32" for p in _lab_decode(points, side))]
    if lacking:
        return f"no fp32 decode attention measured on: {', '.join(lacking)}"
    return "the two sides share no sequence length in fp32"

"""The figures of paragraph 3: GPU over CPU on the same operator, beside the ratio of their memory bandwidths."""

from collections.abc import Mapping, Sequence

from rooflab.derive.answers_decode import lab_decode, sync_floor
from rooflab.derive.roof import slope
from rooflab.derive.series import fraction
from rooflab.derive.told import told
from rooflab.record.roof_types import Ceiling, Floor, Point
from rooflab.record.types import Json, Told

TEXTBOOK_RATIO = 100.0  # HBM over DRAM bandwidth as the lab expects it
NEAR_RATIO = 1.25  # two ratios closer than this are called near
FAR_RATIO = 2.0  # and further apart than this far


def cpu_answer(
    ceilings: Sequence[Ceiling],
    floors: Sequence[Floor],
    points: Sequence[Point],
    main_side: str,
    gpu_sessions: Sequence[str],
) -> Json:
    """Paragraph 3: GPU over CPU on the same operator (dtype and S), beside the ratio of the memory bandwidths."""
    pairs = _pairs(points, ceilings)
    read = _bandwidth_ratio(ceilings, "read", "read")
    copy = _bandwidth_ratio(ceilings, "d2d", "triad")
    ratios = [pair["ratio"] for pair in pairs.values()]
    required = [f"sequences.{s}.ratio" for s in list(pairs)[-1:]] + (["bandwidth_ratio_read"] if pairs and read else [])
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
        "textbook_ratio": TEXTBOOK_RATIO,
        "launch_floor_s": sync_floor(floors, "gpu"),
        "required": required,
    } | _verdict(pairs, read)


def _pairs(points: Sequence[Point], ceilings: Sequence[Ceiling]) -> dict[str, Json]:
    """Both sides of every S that both measured in fp32, and GPU over CPU in achieved FLOP/s."""
    gpu, cpu = ({p["sequence"] or 0: p for p in lab_decode(points, s) if p["dtype"] == "fp32"} for s in ("gpu", "cpu"))
    return {
        str(s): {
            "gpu": gpu[s]["id"],
            "cpu": cpu[s]["id"],
            "gpu_median_s": gpu[s]["median_s"],
            "cpu_median_s": cpu[s]["median_s"],
            "gpu_achieved_flop_per_s": gpu[s]["achieved_flop_per_s"],
            "cpu_achieved_flop_per_s": cpu[s]["achieved_flop_per_s"],
            "gpu_bound_by": _bound(gpu[s]),
            "cpu_bound_by": _bound(cpu[s]),
            "gpu_tier": gpu[s]["tier"],
            "cpu_tier": cpu[s]["tier"],
            "gpu_at_roof": gpu[s]["at_roof"],
            "cpu_at_roof": cpu[s]["at_roof"],
            "gpu_fraction_of_attainable": gpu[s]["fraction_of_attainable"],
            "cpu_fraction_of_attainable": cpu[s]["fraction_of_attainable"],
            "gpu_fraction_of_main_memory": _of_main_memory(gpu[s], ceilings),
            "cpu_fraction_of_main_memory": _of_main_memory(cpu[s], ceilings),
            "ratio": gpu[s]["achieved_flop_per_s"] / cpu[s]["achieved_flop_per_s"],
        }
        for s in sorted(gpu.keys() & cpu.keys())
    }


def _of_main_memory(point: Point, ceilings: Sequence[Ceiling]) -> float | None:
    """Bytes moved each second over the slope of reads from main memory: beyond 1, a cache served some of them."""
    return fraction(point["achieved_bytes_per_s"], slope(ceilings, point["side"], "read"))


def _bound(point: Point) -> str | None:
    """What bounds a point; nothing that it was seen to beat."""
    return None if point["above_roof"] else point["bound_by"]


def _bandwidth_ratio(ceilings: Sequence[Ceiling], gpu_pattern: str, cpu_pattern: str) -> float | None:
    return fraction(slope(ceilings, "gpu", gpu_pattern), slope(ceilings, "cpu", cpu_pattern))


def _verdict(pairs: Mapping[str, Json], read: float | None) -> Json:
    """How the operator's ratio at the longest S stands to the bandwidths', and which tags push it that way."""
    if not pairs or read is None:
        return {"larger": None, "ratio_over_bandwidth_ratio": None, "agreement": None, "likely_reasons": []}
    longest = list(pairs.values())[-1]
    relative = longest["ratio"] / read
    return {
        "larger": "operator" if relative > 1 else "bandwidth",
        "ratio_over_bandwidth_ratio": relative,
        "agreement": _agreement(relative),
        "likely_reasons": _reasons(longest, relative > 1),
    }


def _agreement(relative: float) -> str:
    """How far the operator's ratio lies from the bandwidths': near, above, below, far above or far below."""
    distance = max(relative, 1 / relative)
    if distance <= NEAR_RATIO:
        return "near"
    return f"{'far ' if distance > FAR_RATIO else ''}{'above' if relative > 1 else 'below'}"


def _reasons(pair: Json, operator_larger: bool) -> list[str]:
    """What moved the operator's ratio the way it went, as far as the numbers of the two points allow it: a launch that it is
    at, a cache where more moved than main memory can, a reference that lies far below its own roof."""
    raises = {
        "gpu_reads_from_l2": _from_cache(pair, "gpu"),
        "cpu_launch_bound": pair["cpu_at_roof"] and pair["cpu_bound_by"] == "launch",
        "cpu_below_its_roof": pair["cpu_at_roof"] is False,
    }
    lowers = {
        "gpu_launch_bound": pair["gpu_at_roof"] and pair["gpu_bound_by"] == "launch",
        "gpu_below_its_roof": pair["gpu_at_roof"] is False,
        "cpu_reads_from_cache": _from_cache(pair, "cpu"),
    }
    return [code for code, holds in (raises if operator_larger else lowers).items() if holds]


def _from_cache(pair: Json, side: str) -> bool:
    share = pair[f"{side}_fraction_of_main_memory"]
    return share is not None and share > 1


def _no_comparison(points: Sequence[Point], main_side: str, gpu_sessions: Sequence[str]) -> Told:
    if main_side == "cpu" and not gpu_sessions:
        return told("cpu_alone")
    if main_side == "cpu":
        return told("cpu_beside", names=list(gpu_sessions))
    lacking = [side for side in ("gpu", "cpu") if not any(p["dtype"] == "fp32" for p in lab_decode(points, side))]
    return told("no_fp32", sides=lacking) if lacking else told("no_common_length")

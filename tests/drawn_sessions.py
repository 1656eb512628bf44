"""`roofline.json` documents for the tests of picture and report: what the model would say of machines nobody rented.

Every number is derived from a few rates, so that a point lies where its ceiling, slope or launch floor puts it.
"""

import copy
import random
from typing import Any

from rooflab.derive.document import roofline as model
from synthetic import cpu_session, h200_session, planned, with_files

Record = dict[str, Any]

BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "int8": 1}
LENGTHS = (128, 256, 512, 1024)
H200 = {"fp32": (51.9e12, 50.2e12, 66.9e12), "fp16": (799e12, 690e12, 989e12), "bf16": (796e12, 675e12, 989e12),
        "fp8_e4m3": (1.42e15, 1.21e15, 1.979e15)}  # fmt: skip
VARIANTS = {"fp64": (52e12, 50e12, 66.9e12), "fp32_fma": (58e12, 55e12, None), "tf32": (380e12, 330e12, 494e12),
            "fp16_acc16": (812e12, 700e12, None), "fp8_e4m3_full": (1.19e15, 1.02e15, None),
            "int8": (1.5e15, 1.3e15, 1.979e15)}  # fmt: skip


VARIANT_LABELS = {"fp32_fma": "fp32 multiply-adds in registers", "fp16_acc16": "fp16, fp16 accumulation",
                  "fp8_e4m3_full": "fp8 e4m3, full accumulation"}  # fmt: skip


def base(variant: str) -> str:
    """The dtype of a variant: fp16 of fp16_acc16."""
    return next((d for d in sorted(BYTES, key=len, reverse=True) if variant.startswith(d)), "fp32")


def ceiling(side: str, variant: str, burst: float, sustained: float | None, vendor: float | None) -> Record:
    unit = "CPU" if side == "cpu" else "CUDA core" if variant.startswith(("fp32", "fp64")) else "Tensor Core"
    return {
        "id": f"{side}-compute-{variant}", "side": side, "kind": "compute", "variant": variant, "dtype": base(variant),
        "tier": None, "pattern": None, "reach_bytes": None, "label": VARIANT_LABELS.get(variant, f"{variant.replace('_', ' ')} {unit}"),
        "unit": unit, "accumulator": "fp32", "burst": burst, "burst_spread": [burst * 0.99, burst * 1.01],
        "sustained": sustained, "unit_of_value": "flop_per_s", "vendor": vendor,
        "fraction_of_vendor": burst / vendor if vendor else None,
        "sustained_fraction_of_vendor": sustained / vendor if sustained and vendor else None,
        "power_capped": base(variant) == "bf16" if side == "gpu" else None, "implementation": "matmul", "n": 4096,
        "sm_clock_hz": 1.755e9 if side == "gpu" else None, "file": f"{side}/gemm/{variant}-n4096.00000000.json",
    }  # fmt: skip


def slope(side: str, pattern: str, tier: str, burst: float, reach: int | None = None) -> Record:
    names = {"d2d": "copy (read + write)", "l2": "read"}
    return ceiling(side, "fp32", burst, None, None) | {
        "id": f"{side}-memory-{pattern}", "kind": "memory", "dtype": None, "variant": None, "tier": tier,
        "pattern": pattern, "label": f"{tier} {names.get(pattern, pattern)}", "unit": None, "reach_bytes": reach,
        "unit_of_value": "bytes_per_s", "power_capped": None, "sm_clock_hz": None,
    }  # fmt: skip


def point(side: str, identifier: str, name: str, variant: str, flop: float, intensity: float, seconds: float,
          peak: float, **more: Any) -> Record:  # fmt: skip
    rate = flop / seconds
    return {
        "id": f"{side}-{identifier}", "side": side, "operator": "gemm", "name": name, "dtype": base(variant),
        "variant": variant, "n": None, "sequence": None, "implementation": "cupy.matmul", "launch": "python",
        "timing": "blocks", "cache": "warm", "lab_point": True, "flop": flop, "bytes": flop / intensity,
        "intensity": intensity, "convention": "reads", "intensity_with_writes": None, "median_s": seconds,
        "p10_s": seconds, "p90_s": seconds, "min_s": seconds, "samples": 1000, "achieved_flop_per_s": rate,
        "achieved_bytes_per_s": rate / intensity, "tier": None, "attainable_flop_per_s": peak, "bound_by": "compute",
        "at_roof": True,
        "working_set_bytes": flop / intensity, "fraction_of_attainable": rate / peak,
        "fraction_of_ceiling": rate / peak, "fraction_of_fp16_peak": None, "fraction_of_vendor": None,
        "verified": True, "relative_error": 1e-4, "above_roof": False, "impossible": False, "launch_floor_s": None, "host_bound": False,
        "file": f"{side}/{name}.00000000.json",
    } | more  # fmt: skip


def gemm(side: str, variant: str, n: int, peak: float, fraction: float) -> Record:
    name, flop = f"{variant}-n{n}", 2 * n**3
    return point(side, f"gemm-{name}", name, variant, flop, n / BYTES[base(variant)], flop / (peak * fraction), peak,
                 n=n)  # fmt: skip


def decode(side: str, dtype: str, s: int, way: str, seconds: float, peak: float, peak16: float | None,
           **more: Any) -> Record:  # fmt: skip
    flop, intensity = 4 * s * 512, 2 / BYTES[dtype]
    name = more.pop("name", f"minigpt-{dtype}-S{s}")
    facts: Record = {
        "operator": "decode_attention", "sequence": s, "implementation": way.split()[0], "timing": "sync_each",
        "tier": "L2", "bound_by": "launch", "host_bound": side == "gpu" and seconds < 1e-4, "lab_point": way in ("fused", "numpy"),
        "fraction_of_fp16_peak": flop / seconds / peak16 if peak16 else None,
    }  # fmt: skip
    return point(side, f"decode-{name}-{way.replace(' ', '_')}", name, dtype, flop, intensity, seconds, peak,
                 **(facts | more))  # fmt: skip


GRAPH, BLOCKS = {"launch": "graph", "timing": "graph"}, {"timing": "blocks"}
ONE = {"launch": "graph", "timing": "sync_each"}
WAYS: dict[str, tuple[Record, float, float]] = {  # how, microseconds at the smallest S, and more for each next S
    "cupy_chain": ({}, 95.0, 4.0),
    "cupy_chain back to back": (BLOCKS, 52.0, 2.0),
    "cupy_chain cold": ({"cache": "cold"}, 101.0, 5.0),
    "cupy_chain back to back cold": (BLOCKS | {"cache": "cold"}, 58.0, 2.0),
    "fused": ({}, 11.8, 0.5),
    "fused back to back": (BLOCKS, 4.6, 0.2),
    "fused graph of one": (ONE, 7.4, 0.4),
    "fused graph": (GRAPH | {"bound_by": "L2"}, 1.9, 0.3),
    "fused cold": ({"cache": "cold"}, 14.6, 0.7),
    "fused back to back cold": (BLOCKS | {"cache": "cold"}, 5.1, 0.4),
    "fused graph of one cold": (ONE | {"cache": "cold"}, 9.1, 0.6),
    "fused graph cold": (GRAPH | {"cache": "cold", "bound_by": "HBM"}, 3.4, 0.6),
}


def minigpt(
    dtypes: tuple[str, ...], peaks: dict, lengths: tuple[int, ...] = LENGTHS, ways: tuple = tuple(WAYS)
) -> list[Record]:
    """Decode attention over S in each dtype, every way of computing and launching it."""
    peak16 = peaks["fp16"][0] if "fp16" in peaks else None
    made = []
    for dtype in dtypes:
        for step, s in enumerate(lengths):
            for way in ways:
                how, first, more = WAYS[way]
                seconds = (first + step * more) * 1e-6
                made.append(decode("gpu", dtype, s, way, seconds, peaks.get(dtype, (1e15,))[0], peak16,
                                   **how))  # fmt: skip
    return made


def memory_sized(dtypes: tuple[str, ...], peaks: dict, bytes_per_s: float = 4.35e12) -> list[Record]:
    """Decode attention over 2 GiB of K and V, at 94 % of what the memory gives."""
    made = []
    for dtype in dtypes:
        s = 2**31 // (2 * 512 * BYTES[dtype])
        made.append(decode("gpu", dtype, s, "fused", 2**31 / (bytes_per_s * 0.94), bytes_per_s * 2 / BYTES[dtype],
                           peaks["fp16"][0], name=f"minigpt-{dtype}-hbm", tier="HBM", bound_by="HBM"))  # fmt: skip
    return made


def ridges(ceilings: list[Record]) -> list[Record]:
    pairs = [(c, m) for c in ceilings if c["kind"] == "compute" for m in ceilings
             if m["kind"] == "memory" and m["side"] == c["side"]]  # fmt: skip
    return [{"ceiling": c["id"], "slope": m["id"], "intensity": c["burst"] / m["burst"], "flop_per_s": c["burst"]}
            for c, m in pairs]  # fmt: skip


def answers(side: str, ceilings: list, points: list) -> Record:
    """What the picture asks of the answers: what is expected, the fp16 peak, the GPU's ratio to the CPU."""
    peak = next((c["burst"] for c in ceilings if c["id"] == f"{side}-compute-fp16"), None)
    pairs = {str(g["sequence"]): {"gpu": g["id"], "cpu": c["id"], "ratio": g["achieved_flop_per_s"] / c["achieved_flop_per_s"]}
             for g in points for c in points
             if g["operator"] == c["operator"] == "decode_attention" and (g["side"], c["side"]) == ("gpu", "cpu")
             and g["lab_point"] and g["dtype"] == c["dtype"] and g["sequence"] == c["sequence"]}  # fmt: skip
    reads = {c["side"]: c["burst"] for c in ceilings if c["pattern"] == "read"}
    ratio = reads["gpu"] / reads["cpu"] if len(reads) == 2 else None
    return {
        "gemm": {"side": side, "expected_low": 0.7, "expected_high": 0.9, "dtypes": {}, "required": []},
        "decode": {"side": side, "peak_flop_per_s": peak, "textbook_low": 0.003, "textbook_high": 0.01, "required": []},
        "cpu": {"sequences": pairs, "bandwidth_ratio_read": ratio, "required": []},
    }  # fmt: skip


def document(session: str, side: str, ceilings: list, floors: list, points: list, **more: Any) -> Record:
    cpu = {"name": "AMD EPYC 9654", "measured_at": "2026-01-01T00:00:00Z"}
    gpu = {"name": "NVIDIA H200", "measured_at": "2026-01-01T00:00:00Z"} if side == "gpu" else None
    return {
        "schema": "roofline", "schema_version": 1, "session": session, "main_side": side, "generated_from": [],
        "devices": {"gpu": gpu, "cpu": cpu}, "ceilings": ceilings, "floors": floors, "points": points,
        "ridge_points": ridges(ceilings), "holes": [], "checks": [], "notes": [],
        "answers": answers(side, ceilings, points), "paid": {"seconds": 600, "usd": None},
    } | more  # fmt: skip


def memory() -> list[Record]:
    return [slope("gpu", "d2d", "HBM", 4.05e12), slope("gpu", "read", "HBM", 4.35e12),
            slope("gpu", "write", "HBM", 4.4e12), slope("gpu", "triad", "HBM", 3.95e12),
            slope("gpu", "l2", "L2", 9.9e12, 2**24)]  # fmt: skip


def floors() -> list[Record]:
    return [{"id": f"gpu-launch-{name}", "side": "gpu", "launch": way, "timing": timing, "median_s": s, "file": "x.json"}
            for name, way, timing, s in (("sync_each", "python", "sync_each", 9.3e-6),
                                         ("back_to_back", "python", "blocks", 4.1e-6),
                                         ("graph_of_one", "graph", "sync_each", 6.4e-6),
                                         ("graph", "graph", "graph", 0.55e-6))]  # fmt: skip


def cpu_decode() -> list[Record]:
    return [decode("cpu", "fp32", s, "numpy", 30e-6 * s / 128, 1e12, None, tier="DRAM", bound_by="DRAM")
            for s in LENGTHS]  # fmt: skip


def gpu_roofline() -> Record:
    """An H200 with everything: ten compute ceilings, HBM and L2, twelve ways of decode in four dtypes, memory's size."""
    peaks, formats = H200 | VARIANTS, ("fp32", "fp16", "bf16", "fp8_e4m3")
    ceilings = [ceiling("gpu", name, *rates) for name, rates in peaks.items()] + memory()
    ceilings += [slope("cpu", "triad", "DRAM", 2.1e11)]
    points = [gemm("gpu", name, 4096, peaks[name][0], 0.985) for name in peaks if name != "fp32_fma"]
    points += minigpt(formats, peaks) + memory_sized(formats, peaks) + cpu_decode()
    hole = {"file": "gpu/gemm/int4.json", "stage": "gemm", "name": "int4-n4096", "side": "gpu", "status": "unsupported",
            "reason": "cuBLAS has no such product here", "remedy": None}  # fmt: skip
    return document("nvidia-h200", "gpu", ceilings, floors(), points, holes=[hole],
                    notes=["Noise above 10 %: fp32-S128."])  # fmt: skip


def t4() -> Record:
    """A card without bf16 and fp8: what is missing is a hole, not a crash."""
    peaks = {"fp32": (4.1e12, 3.8e12, 8.1e12), "fp16": (24e12, 21e12, 65e12)}
    ceilings = [ceiling("gpu", name, *rates) for name, rates in peaks.items()]
    ceilings += [slope("gpu", "d2d", "HBM", 2.4e11), slope("gpu", "read", "HBM", 2.6e11)]
    points = [gemm("gpu", name, 4096, peaks[name][0], 0.9) for name in peaks]
    points += minigpt(("fp32", "fp16"), peaks, ways=("cupy_chain", "fused", "fused graph"))
    holes = [{"file": f"gpu/gemm/{name}.json", "stage": "gemm", "name": f"{name}-n4096", "side": "gpu",
              "status": "unsupported", "remedy": None,
              "reason": f"{name} needs compute capability {need} or newer, this card has 7.5"}
             for name, need in (("bf16", "8.0"), ("fp8_e4m3", "8.9"), ("int8", "7.5"))]  # fmt: skip
    return document("tesla-t4", "gpu", ceilings, floors(), points, holes=holes)


def named(made: Record, name: str) -> Record:
    """The session as one of another card."""
    made["devices"]["gpu"]["name"] = name
    return made


def gtx_1650() -> Record:
    """A card of compute capability 7.5 without Tensor Cores: its fp16 is computed on CUDA cores."""
    peaks = {"fp32": (2.7e12, 2.5e12, 2.98e12), "fp16": (5.2e12, 4.9e12, 5.97e12)}
    ceilings = [ceiling("gpu", name, *rates) | {"unit": "CUDA core", "label": f"{name} CUDA core"}
                for name, rates in peaks.items()]  # fmt: skip
    ceilings += [slope("gpu", "d2d", "HBM", 1.05e11), slope("gpu", "read", "HBM", 1.1e11)]
    points = [gemm("gpu", name, 4096, peaks[name][0], 0.95) for name in peaks]
    points += minigpt(("fp32", "fp16"), peaks, ways=("cupy_chain", "fused", "fused graph"))
    return named(document("geforce-gtx-1650", "gpu", ceilings, floors(), points), "NVIDIA GeForce GTX 1650")


def mig() -> Record:
    """A seventh of an A100: no vendor's figure applies to a slice, and its clock was not measured."""
    peaks = {name: (burst, sustained, None) for name, (burst, sustained) in {
        "fp32": (2.5e12, 2.4e12), "tf32": (1.7e13, 1.6e13), "fp16": (3.6e13, 3.4e13), "bf16": (3.6e13, 3.4e13)}.items()}  # fmt: skip
    ceilings = [ceiling("gpu", name, *rates) for name, rates in peaks.items()]
    ceilings += [slope("gpu", "d2d", "HBM", 1.7e11), slope("gpu", "read", "HBM", 1.9e11)]
    points = [gemm("gpu", name, 4096, peaks[name][0], 0.96) for name in peaks]
    points += minigpt(("fp32", "fp16", "bf16"), peaks, ways=("cupy_chain", "fused", "fused graph"))
    return named(document("a100-mig", "gpu", ceilings, floors(), points), "NVIDIA A100-SXM4-40GB MIG 1g.5gb")


def one_dtype() -> Record:
    """A session of fp16 alone."""
    whole = gpu_roofline()
    keep = {entry["id"] for entry in whole["ceilings"] + whole["points"] if entry.get("variant") in (None, "fp16")}
    ceilings = [c for c in whole["ceilings"] if c["id"] in keep]
    return whole | {"ceilings": ceilings, "points": [p for p in whole["points"] if p["id"] in keep],
                    "ridge_points": ridges(ceilings)}  # fmt: skip


def twelve_dtypes() -> Record:
    """Twelve compute ceilings, one of a format that no table knows."""
    whole = gpu_roofline()
    strangers = [
        ceiling("gpu", "fp6_e3m2", 1.49e15, 1.3e15, None),
        ceiling("gpu", "fp8_e5m2", 1.4e15, 1.2e15, 1.979e15),
    ]
    points = [gemm("gpu", "fp8_e5m2", 4096, 1.4e15, 0.97)]
    ceilings = whole["ceilings"] + strangers
    return whole | {"ceilings": ceilings, "points": whole["points"] + points, "ridge_points": ridges(ceilings)}


def half_session() -> Record:
    """Interrupted after two GEMM dtypes: no decode yet, many holes."""
    peaks = {name: H200[name] for name in ("fp32", "fp16")}
    ceilings = [ceiling("gpu", name, *rates) for name, rates in peaks.items()] + memory()[:2]
    points = [gemm("gpu", name, 4096, peaks[name][0], 0.97) for name in peaks]
    holes = [{"file": f"gpu/decode/{d}-S{s}.json", "stage": "decode", "name": f"minigpt-{d}-S{s}", "side": "gpu",
              "status": "missing", "reason": None, "remedy": None}
             for d in ("fp32", "fp16", "bf16") for s in LENGTHS]  # fmt: skip
    return document("nvidia-h200", "gpu", ceilings, [], points, holes=holes)


def decode_alone() -> Record:
    """Decode attention was measured and nothing that could bound it."""
    unknown = (
        "attainable_flop_per_s",
        "fraction_of_attainable",
        "fraction_of_ceiling",
        "fraction_of_fp16_peak",
        "bound_by",
    )
    points = [
        p | dict.fromkeys(unknown) | {"tier": None}
        for p in minigpt(("fp16", "bf16"), H200, ways=("cupy_chain", "fused"))
    ]
    return document("nvidia-h200", "gpu", [], [], points)


def sweep() -> Record:
    """Three hundred points: decode over 24 lengths and GEMM over 20 sizes."""
    whole = gpu_roofline()
    lengths = tuple(64 * step for step in range(1, 25))
    points = minigpt(("fp32", "fp16", "bf16"), H200, lengths, ways=("cupy_chain", "fused", "fused graph"))
    points += [
        gemm("gpu", name, 512 * step, H200[name][0], 0.99 * step / (step + 1)) for name in H200 for step in range(1, 22)
    ]
    return whole | {"points": points}


def cpu_roofline() -> Record:
    """A host without a GPU: two dtypes, two DRAM slopes, NumPy's decode attention."""
    ceilings = [ceiling("cpu", "fp32", 410e9, 380e9, 614e9), ceiling("cpu", "fp64", 205e9, 198e9, None),
                slope("cpu", "read", "DRAM", 38e9), slope("cpu", "triad", "DRAM", 31e9)]  # fmt: skip
    points = [gemm("cpu", "fp32", 2048, 410e9, 0.96), gemm("cpu", "fp64", 2048, 205e9, 0.97)]
    points += [decode("cpu", "fp32", s, "numpy", 24e-6 * (1 + s / 256), 410e9, None, tier="cache", bound_by="cache")
               for s in LENGTHS]  # fmt: skip
    floor = {"id": "cpu-launch-sync_each", "side": "cpu", "launch": "python", "timing": "sync_each",
             "median_s": 1.7e-7, "file": "x.json"}  # fmt: skip
    return document("cpu-amd-epyc-9654", "cpu", ceilings, [floor], points)


def above_roof() -> Record:
    """Two points that no true measurement can give."""
    whole = copy.deepcopy(gpu_roofline())
    suspects = [p for p in whole["points"] if p["id"] in ("gpu-gemm-fp32-n4096", "gpu-decode-minigpt-fp16-S1024-fused")]
    for suspect in suspects:
        suspect["above_roof"] = True
    return whole


def strange(seed: int) -> Record:
    """A session of chance: some formats of a card faster or slower than any, with a part of what could be measured."""
    dice = random.Random(seed)
    scale = 10 ** dice.uniform(-2.5, 1)
    rates = H200 | VARIANTS | {"fp8_e5m2": (1.4e15, 1.2e15, 1.979e15), "int4": (2.9e15, 2.4e15, None)}
    names = ["fp32", *dice.sample(sorted(set(rates) - {"fp32"}), dice.randint(2, 11))] if seed % 6 else ["fp16"]
    peaks = {n: tuple(r and r * scale * dice.uniform(0.9, 1.1) for r in rates[n]) for n in names}
    slopes = [m | {"burst": m["burst"] * scale * dice.uniform(0.8, 1.2)} for m in memory()][: dice.randint(0, 5)]
    ceilings = [ceiling("gpu", name, *own) for name, own in peaks.items()] + slopes
    if dice.random() < 0.5:
        ceilings = [
            c if c["kind"] == "memory" or not c["vendor"] else clocked(c, dice.uniform(0.6, 1.05)) for c in ceilings
        ]
    points = [gemm("gpu", name, 4096, own[0], dice.uniform(0.4, 1.1)) for name, own in peaks.items()]
    formats = tuple(n for n in names if n in ("fp32", "fp16", "bf16", "fp8_e4m3"))
    if dice.random() < 0.8:
        points += minigpt(formats, peaks, LENGTHS[: dice.randint(1, 4)], tuple(WAYS)[: dice.randint(5, 12)])
    if dice.random() < 0.6 and "fp16" in peaks:
        points += memory_sized(("fp16",), peaks, slopes[0]["burst"] if slopes else 1e12)
    if dice.random() < 0.6:
        ceilings += [slope("cpu", "read", "DRAM", 1e11), ceiling("cpu", "fp32", 1e12, 9e11, None)]
        points += cpu_decode()
    for suspect in dice.sample(points, min(2, len(points))):
        suspect["above_roof"] = dice.random() < 0.4
    for step in points:
        step["launch_floor_s"] = dice.uniform(8e-6, 12e-6) if step["operator"] == "decode_attention" else None
    made = document("nvidia-strange", "gpu", ceilings, floors(), points)
    made["devices"]["gpu"]["name"] = "NVIDIA " + "Strange " * dice.randint(1, 12)
    return made


def clocked(entry: Record, factor: float) -> Record:
    """The ceiling with the clock inside its burst, as a share of the data sheet's."""
    vendor_hz = 1.83e9
    return entry | {"clock_hz": vendor_hz * factor, "use": {"of_issue_rate": entry["fraction_of_vendor"] / factor, "reason": None},
                    "clock": {"measured_hz": vendor_hz * factor, "vendor_hz": vendor_hz, "factor": factor, "reason": None}}  # fmt: skip


def modelled(made: list[Record]) -> Record:
    return model("session", with_files(made), planned(made))


SESSIONS = {
    "healthy gpu": gpu_roofline,
    "T4 without bf16 and fp8": t4,
    "GTX 1650 without Tensor Cores": gtx_1650,
    "MIG": mig,
    "one dtype": one_dtype,
    "twelve dtypes": twelve_dtypes,
    "cpu": cpu_roofline,
    "half a session": half_session,
    "decode alone": decode_alone,
    "300 points": sweep,
    "above its roof": above_roof,
    "modelled gpu": lambda: modelled(h200_session()),
    "modelled cpu": lambda: modelled(cpu_session()),
    "nothing measured": lambda: document("nvidia-l4", "gpu", [], [], []),
}

"""The picture: every ceiling and point is in the SVG, no two texts overlap, none leaves the figure."""

import copy
import json
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from plot import STABLE, render
from rooflab import words
from roofline import roofline as model
from synthetic import cpu_session, h200_session, planned, with_files

PLOT = Path(__file__).resolve().parent.parent / "workflow" / "scripts" / "plot.py"
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "fp64": 8}
UNITS = {"fp32": "CUDA core"}


def ceiling(side: str, dtype: str, burst: float, sustained: float | None, vendor: float | None) -> dict[str, Any]:
    fraction = burst / vendor if vendor else None
    return {
        "id": f"{side}-compute-{dtype}", "side": side, "kind": "compute", "dtype": dtype, "tier": None, "pattern": None,
        "label": f"{dtype} {UNITS.get(dtype, 'Tensor Core')}" if side == "gpu" else f"{dtype} CPU",
        "unit": None, "accumulator": "fp32", "burst": burst,
        "burst_spread": [burst * 0.99, burst * 1.01], "sustained": sustained, "unit_of_value": "flop_per_s",
        "vendor": vendor, "fraction_of_vendor": fraction, "sm_clock_hz": 1.755e9 if side == "gpu" else None,
        "sustained_fraction_of_vendor": sustained / vendor if sustained and vendor else None,
        "power_capped": dtype == "bf16" if side == "gpu" else None, "implementation": "matmul", "n": 4096,
        "file": f"{side}/gemm/{dtype}-n4096.00000000.json",
    }  # fmt: skip


def slope(side: str, pattern: str, tier: str, burst: float, vendor: float | None = None) -> dict[str, Any]:
    return ceiling(side, "fp32", burst, None, vendor) | {
        "id": f"{side}-memory-{tier}-{pattern}", "kind": "memory", "dtype": None, "tier": tier, "pattern": pattern,
        "label": f"{tier} {pattern}", "unit_of_value": "bytes_per_s", "power_capped": None, "sm_clock_hz": None,
    }  # fmt: skip


def point(side: str, identifier: str, dtype: str, flop: float, intensity: float, seconds: float, peak: float,
          **more: Any) -> dict[str, Any]:  # fmt: skip
    rate = flop / seconds
    return {
        "id": f"{side}-{identifier}", "side": side, "operator": "gemm", "name": identifier, "dtype": dtype, "n": None,
        "sequence": None, "implementation": "cupy.matmul", "launch": "python", "timing": "blocks", "cache": "warm",
        "lab_point": True, "flop": flop, "bytes": flop / intensity, "intensity": intensity, "convention": "reads",
        "intensity_with_writes": None, "median_s": seconds, "p10_s": seconds, "p90_s": seconds, "min_s": seconds,
        "samples": 1000, "achieved_flop_per_s": rate, "achieved_bytes_per_s": rate / intensity, "tier": None,
        "attainable_flop_per_s": peak, "bound_by": "compute", "working_set_bytes": flop / intensity,
        "fraction_of_attainable": rate / peak, "fraction_of_ceiling": rate / peak, "fraction_of_fp16_peak": None,
        "fraction_of_vendor": None, "verified": True, "relative_error": 1e-4, "above_roof": False, "file": "x.json",
    } | more  # fmt: skip


def gemm(side: str, dtype: str, n: int, peak: float, fraction: float) -> dict[str, Any]:
    seconds = 2 * n**3 / (peak * fraction)
    return point(side, f"gemm-{dtype}-n{n}", dtype, 2 * n**3, n / BYTES[dtype], seconds, peak, n=n, lab_point=n != 8192)


def decode(side: str, dtype: str, s: int, name: str, seconds: float, peak: float, peak16: float | None,
           **more: Any) -> dict[str, Any]:  # fmt: skip
    flop, intensity = 4 * s * 512, 2 / BYTES[dtype]
    facts: dict[str, Any] = {
        "operator": "decode_attention", "sequence": s, "implementation": name, "timing": "sync_each", "tier": "L2",
        "bound_by": "launch", "lab_point": name in ("fused", "numpy"),
        "fraction_of_fp16_peak": flop / seconds / peak16 if peak16 else None,
    }  # fmt: skip
    return point(side, f"decode-minigpt-{dtype}-S{s}-{name}-{more.get('launch', 'python')}", dtype, flop, intensity,
                 seconds, peak, **(facts | more))  # fmt: skip


def ridges(ceilings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    pairs = [(c, m) for c in ceilings if c["kind"] == "compute" for m in ceilings
             if m["kind"] == "memory" and m["side"] == c["side"]]  # fmt: skip
    return [{"ceiling": c["id"], "slope": m["id"], "intensity": c["burst"] / m["burst"], "flop_per_s": c["burst"]}
            for c, m in pairs]  # fmt: skip


def document(session: str, side: str, ceilings: list, floors: list, points: list, **more: Any) -> dict[str, Any]:
    names = {"gpu": "NVIDIA H200", "cpu": "AMD EPYC 9654"}
    return {
        "schema": "roofline", "schema_version": 1, "session": session, "main_side": side, "generated_from": [],
        "devices": {"gpu": {"name": names["gpu"]} if side == "gpu" else None, "cpu": {"name": names["cpu"]}},
        "ceilings": ceilings, "floors": floors, "points": points, "ridge_points": ridges(ceilings), "holes": [],
        "checks": [], "notes": [], "answers": {k: {"required": []} for k in ("gemm", "decode", "cpu")},
        "paid": {"seconds": 600, "usd": None},
    } | more  # fmt: skip


def gpu_roofline() -> dict[str, Any]:
    """An H200-like session: four dtypes at two sizes, three slopes, three ways to run decode, one hole."""
    peaks = {"fp32": (51.9e12, 50.2e12, 66.9e12), "fp16": (799e12, 690e12, 989e12), "bf16": (796e12, 675e12, 989e12),
             "fp8_e4m3": (1.42e15, 1.21e15, 1.979e15)}  # fmt: skip
    ceilings = [ceiling("gpu", d, *values) for d, values in peaks.items()]
    ceilings += [slope("gpu", "d2d", "HBM", 4.05e12, 4.8e12), slope("gpu", "read", "HBM", 4.35e12, 4.8e12),
                 slope("gpu", "read", "L2", 9.9e12)]  # fmt: skip
    ceilings += [slope("cpu", "triad", "DRAM", 2.1e11)]
    floors = [{"id": f"gpu-launch-{t}", "side": "gpu", "launch": way, "timing": t, "median_s": s, "file": "x.json"}
              for way, t, s in (("python", "sync_each", 6.1e-6), ("graph", "graph", 1.3e-6))]  # fmt: skip
    points = [gemm("gpu", d, n, peaks[d][0], f) for d in peaks for n, f in ((4096, 0.985), (8192, 0.93))]
    for dtype in ("fp32", "fp16", "bf16"):
        for step, s in enumerate((128, 256, 512, 1024)):
            peak, peak16 = peaks[dtype][0], peaks["fp16"][0]
            points.append(decode("gpu", dtype, s, "cupy_chain", 62e-6 + step * 2e-6, peak, peak16))
            points.append(decode("gpu", dtype, s, "fused", 8.4e-6 + step * 0.4e-6, peak, peak16))
            points.append(decode("gpu", dtype, s, "fused", 2.2e-6 + step * 0.3e-6, peak, peak16, launch="graph",
                                 timing="graph", lab_point=False))  # fmt: skip
    points += [decode("cpu", "fp32", s, "numpy", 30e-6 * s / 128, 1e12, None, tier="DRAM", bound_by="DRAM")
               for s in (128, 256, 512, 1024)]  # fmt: skip
    hole = {"file": "gpu/gemm/int8.json", "stage": "gemm", "name": "int8-n4096", "side": "gpu", "status": "unsupported",
            "reason": "cuBLAS has no such product here", "remedy": None}  # fmt: skip
    return document("nvidia-h200", "gpu", ceilings, floors, points, holes=[hole],
                    notes=["Noise above 10 %: fp32-S128."])  # fmt: skip


def cpu_roofline() -> dict[str, Any]:
    """A host without a GPU: two dtypes, one DRAM slope, NumPy's decode attention."""
    ceilings = [ceiling("cpu", "fp32", 410e9, 380e9, 614e9), ceiling("cpu", "fp64", 205e9, 198e9, None),
                slope("cpu", "read", "DRAM", 38e9), slope("cpu", "triad", "DRAM", 31e9)]  # fmt: skip
    points = [gemm("cpu", "fp32", 2048, 410e9, 0.96), gemm("cpu", "fp64", 2048, 205e9, 0.97)]
    points += [decode("cpu", "fp32", s, "numpy", 24e-6 * (1 + s / 256), 410e9, None, tier="cache", bound_by="cache")
               for s in (128, 256, 512, 1024)]  # fmt: skip
    return document("cpu-amd-epyc-9654", "cpu", ceilings, [], points)


def above_roof() -> dict[str, Any]:
    roofline = gpu_roofline()
    for suspect in (roofline["points"][0], roofline["points"][9]):
        suspect["above_roof"] = True
    return roofline


def modelled(made: list[dict[str, Any]]) -> dict[str, Any]:
    return model("session", with_files(made), planned(made))


SESSIONS = {
    "gpu": gpu_roofline,
    "cpu": cpu_roofline,
    "above its roof": above_roof,
    "modelled gpu": lambda: modelled(h200_session()),
    "modelled cpu": lambda: modelled(cpu_session()),
}


def text_boxes(figure: Figure) -> list[tuple[str, Bbox]]:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    limits = {id(t): axis.get_view_interval() for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
              for tick in axis.get_major_ticks() + axis.get_minor_ticks()
              if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
              for t in (tick.label1, tick.label2)}  # fmt: skip
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in limits]
    return [(t.get_text(), t.get_window_extent(canvas.get_renderer())) for t in texts]


def drawn(name: str) -> Figure:
    with rc_context(STABLE):
        return render(SESSIONS[name]())


@pytest.mark.parametrize("name", SESSIONS)
def test_no_text_overlaps_and_none_leaves_the_figure(name: str) -> None:
    figure = drawn(name)
    boxes = text_boxes(figure)
    assert len(boxes) > 20
    clashes = [(a, b) for (a, one), (b, other) in combinations(boxes, 2)
               if one.padded(-0.5).overlaps(other.padded(-0.5))]  # fmt: skip
    assert not clashes
    width, height = figure.bbox.size
    outside = [t for t, b in boxes if b.x0 < 0 or b.y0 < 0 or b.x1 > width or b.y1 > height]
    assert not outside


def run_plot(tmp_path: Path, roofline: dict[str, Any]) -> subprocess.CompletedProcess:
    source = tmp_path / "roofline.json"
    source.write_text(json.dumps(roofline), encoding="utf-8")
    command = [sys.executable, str(PLOT), "--roofline", str(source), "--png", str(tmp_path / "r.png"), "--svg",
               str(tmp_path / "r.svg"), "--dpi", "50"]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["gpu", "cpu", "modelled gpu", "modelled cpu"])
def test_the_svg_names_every_ceiling_and_point_of_the_main_side(name: str, tmp_path: Path) -> None:
    roofline = SESSIONS[name]()
    done = run_plot(tmp_path, roofline)
    assert done.returncode == 0, done.stderr
    svg = (tmp_path / "r.svg").read_text(encoding="utf-8")
    ids = re.findall(r'<g id="([^"]+)"', svg)
    side = roofline["main_side"]
    for entry in roofline["ceilings"] + roofline["points"]:
        if entry["side"] == side:
            assert ids.count(entry["id"]) == 1
    assert "<text" in svg
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_roofline_gives_the_same_svg(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        run_plot(tmp_path / folder, cpu_roofline())
    assert (tmp_path / "a" / "r.svg").read_bytes() == (tmp_path / "b" / "r.svg").read_bytes()


def test_small_ceilings_are_shown_in_gflop_per_s() -> None:
    assert drawn("cpu").axes[0].get_ylabel() == "achieved (GFLOP/s)"
    assert drawn("gpu").axes[0].get_ylabel() == "achieved (TFLOP/s)"


def test_holes_fractions_and_warnings_are_written() -> None:
    said = "\n".join(t for t, _ in text_boxes(drawn("above its roof")))
    assert "gemm int8-n4096 (gpu) — cuBLAS has no such product here" in said.replace("\n", " ")
    assert said.count("above its roof") >= 2
    assert "fp16 n=4096: 98.5 %" in said
    assert "in L2, launch-bound" in said


def test_a_session_with_nothing_measured_still_draws() -> None:
    figure = render(document("nvidia-l4", "gpu", [], [], []))
    assert "not measured" in "\n".join(t for t, _ in text_boxes(figure))


def test_missing_decode_series_and_vendor_figures_are_no_obstacle() -> None:
    roofline = copy.deepcopy(gpu_roofline())
    roofline["points"] = [p for p in roofline["points"] if p["dtype"] == "fp16"]
    for entry in roofline["ceilings"]:
        entry.update(fraction_of_vendor=None, sustained=None, power_capped=None, sm_clock_hz=None)
    assert text_boxes(render(roofline))


def test_a_file_that_is_no_roofline_is_refused(tmp_path: Path) -> None:
    done = run_plot(tmp_path, {"schema": "manifest"})
    assert done.returncode != 0
    assert "expected 'roofline'" in done.stderr


@pytest.mark.parametrize(("text", "expected"), [
    (words.flop_per_s(798.4e12), "798 TFLOP/s"), (words.flop_per_s(2.614e10), "26.1 GFLOP/s"),
    (words.bytes_per_s(4.0512e12), "4050 GB/s"), (words.seconds(8.43e-6), "8.43 µs"),
    (words.percent(0.0000311), "0.00311 %"),
    (words.times(12.34), "12.3×"), (words.significant(100.0), "100"), (words.significant(0), "0"),
    (words.significant(0.9996), "1"), (words.span("3 %", "5 %"), "3–5 %"), (words.span("900 GFLOP/s", "1 TFLOP/s"),
                                                                         "900 GFLOP/s – 1 TFLOP/s"),
    (words.listed(["a", "b", "c"]), "a, b and c"),
])  # fmt: skip
def test_numbers_carry_three_digits_and_their_unit(text: str, expected: str) -> None:
    assert text == expected

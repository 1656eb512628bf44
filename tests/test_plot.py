"""The program that draws: its four files, the same bytes each time, one clear error for a file that is no roofline."""

import copy
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drawn_sessions import above_roof, cpu_roofline, gpu_roofline
from lab import ROOT, copy_code, edit, run
from matplotlib import rc_context
from matplotlib.text import Text
from rooflab.draw.caption import caption_lines
from rooflab.draw.figure import draw
from rooflab.draw.save import STABLE
from rooflab.look import words
from rooflab.look.style import DARK, LIGHT, Look

PLOT = Path(__file__).resolve().parent.parent / "workflow" / "scripts" / "free" / "plot.py"
NAMES = {"--png": "r.png", "--svg": "r.svg", "--dark-svg": "dark.svg", "--small-png": "small.png"}


def run_plot(folder: Path, roofline: dict[str, Any], *more: str) -> subprocess.CompletedProcess:
    folder.mkdir(exist_ok=True)
    source = folder / "roofline.json"
    source.write_text(json.dumps(roofline), encoding="utf-8")
    made = [part for flag, name in NAMES.items() for part in (flag, str(folder / name))]
    command = [sys.executable, str(PLOT), "--roofline", str(source), *made, "--dpi", "50", *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def png_size(path: Path) -> tuple[int, int]:
    """Width and height, from the header of a PNG."""
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])


def texts(roofline: dict[str, Any], title: str | None = None) -> str:
    with rc_context(STABLE):
        return "\n".join(text.get_text() for text in draw(roofline, title).findobj(Text))


def test_one_run_writes_both_pictures_in_both_themes_and_the_small_one(tmp_path: Path) -> None:
    done = run_plot(tmp_path, cpu_roofline(), "--title", "My host", "--language", "es")
    assert done.returncode == 0, done.stderr
    light, dark = ((tmp_path / name).read_text(encoding="utf-8") for name in ("r.svg", "dark.svg"))
    assert "My host" in light and "intensidad aritmética" in light
    assert LIGHT.paper.lower() in light and DARK.paper.lower() in dark
    named = re.compile(r'<g id="((?:cpu-|detail:)[^"]*)"')
    assert named.findall(light) == named.findall(dark) != []
    assert png_size(tmp_path / "r.png") == (720, 420)
    assert 900 <= png_size(tmp_path / "small.png")[0] <= 1200
    assert not list(tmp_path.glob("tmp*"))


@pytest.mark.parametrize("title", ["at $x^{$ a go", "{x} $3.99 {", "50 % \\frac"])
def test_a_title_is_drawn_as_it_stands(title: str, tmp_path: Path) -> None:
    done = run_plot(tmp_path, cpu_roofline(), "--title", title)
    assert done.returncode == 0, done.stderr
    assert title in (tmp_path / "r.svg").read_text(encoding="utf-8")


def test_a_title_with_braces_passes_through_the_workflow(tmp_path: Path) -> None:
    folder = copy_code(tmp_path / "lab")
    shutil.copytree(ROOT / "results" / "cpu-example", folder / "results" / "cpu-example")
    edit(folder, lambda config: config["plot"].update(title="{x} 'at' $y^{$"))
    run(folder, "plot")
    assert "{x} 'at' $y^{$" in (folder / "results" / "cpu-example" / "roofline.svg").read_text(encoding="utf-8")


def test_the_caption_speaks_the_language_of_the_picture() -> None:
    roofline = cpu_roofline() | {
        "notes": [{"code": "several_devices", "values": {"side": "gpu", "count": 2, "devices": ["a", "b"]}}, "a sentence of no catalogue"],
        "holes": [
            {"stage": "gemm", "name": "bf16-n2048", "side": "cpu", "status": "unsupported",
             "reason": "NumPy's BLAS multiplies fp32 and fp64 only: it has no fast bf16 GEMM", "remedy": None},
            {"stage": "gemm", "name": "int8-n2048", "side": "cpu", "status": "failed", "reason": "many words " * 20,
             "remedy": None},
        ],
    }  # fmt: skip
    said = " ".join(caption_lines(roofline, Look("es", LIGHT), 8.0))
    assert "medido en 2 dispositivos: a, b" in said and "«a sentence of no catalogue»" in said
    assert "el BLAS de NumPy solo multiplica fp32 y fp64" in said and "BLAS multiplies" not in said
    assert "«many words" in said and "…»" in said
    assert "«" not in " ".join(caption_lines(roofline, Look("en", LIGHT), 8.0))


def test_the_text_of_the_svg_falls_back_to_a_font_as_wide(tmp_path: Path) -> None:
    run_plot(tmp_path, cpu_roofline())
    assert re.search(r"font-family: 'DejaVu Sans', '?Verdana'?, sans-serif", (tmp_path / "r.svg").read_text())


def test_the_same_roofline_gives_the_same_svg(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run_plot(tmp_path / folder, cpu_roofline())
    for name in ("r.svg", "dark.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_small_ceilings_are_shown_in_gflop_per_s() -> None:
    assert draw(cpu_roofline()).axes[0].get_ylabel() == "achieved (GFLOP/s)"
    assert draw(gpu_roofline()).axes[0].get_ylabel() == "achieved (TFLOP/s)"


def test_fractions_tiers_and_warnings_are_written() -> None:
    said = texts(above_roof())
    assert "fp32 n=4096: 98.5 %\nabove its roof" in said
    assert "799 TFLOP/s, sustained (bar) 690 TFLOP/s\n80.8 % of vendor; n=4096 reaches 98.5 %" in said
    assert "fused, launch and wait\n11.8–13.3 µs; in L2, launch-bound" in said
    assert "94 % of HBM roof" in said
    assert "launch floor 9.3 µs\n(launch and wait)" in said
    assert "ridge point of fp16: 197 FLOP/byte" in said
    assert "L2 (up to 16 MiB):" in said


def test_nothing_above_its_roof_is_no_warning() -> None:
    assert "above its roof" not in texts(gpu_roofline())


def test_missing_vendor_and_sustained_figures_are_left_out() -> None:
    roofline = copy.deepcopy(gpu_roofline())
    for entry in roofline["ceilings"]:
        entry.update(fraction_of_vendor=None, sustained=None, power_capped=None, sm_clock_hz=None)
    said = texts(roofline)
    assert "of vendor" not in said and "sustained" not in said and "clock" not in said and "Power-capped" not in said


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
])  # fmt: skip
def test_numbers_carry_three_digits_and_their_unit(text: str, expected: str) -> None:
    assert text == expected

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
from rooflab.draw.figure import draw
from rooflab.draw.save import STABLE
from rooflab.look import words
from rooflab.look.style import DARK, LIGHT

PLOT = Path(__file__).resolve().parent.parent / "workflow" / "scripts" / "free" / "plot.py"
NAMES = {"--png": "r.png", "--svg": "r.svg", "--dark-svg": "dark.svg"}


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


def test_one_run_writes_the_slide_in_both_themes(tmp_path: Path) -> None:
    done = run_plot(tmp_path, cpu_roofline(), "--title", "My host", "--language", "es")
    assert done.returncode == 0, done.stderr
    light, dark = ((tmp_path / name).read_text(encoding="utf-8") for name in ("r.svg", "dark.svg"))
    assert "My host" in light and "intensidad aritmética" in light
    assert LIGHT.paper.lower() in light and DARK.paper.lower() in dark
    named = re.compile(r'<g id="((?:cpu-|share:)[^"]*)"')
    assert named.findall(light) == named.findall(dark) != []
    assert png_size(tmp_path / "r.png") == (666, 375)
    assert not [path for path in tmp_path.iterdir() if path.suffix not in (".png", ".svg", ".json")]


@pytest.mark.parametrize("title", ["at $x^{$ a go", "{x} $3.99 {", "50 % \\frac"])
def test_a_title_is_drawn_as_it_stands(title: str, tmp_path: Path) -> None:
    done = run_plot(tmp_path, cpu_roofline(), "--title", title)
    assert done.returncode == 0, done.stderr
    assert title in (tmp_path / "r.svg").read_text(encoding="utf-8")


def test_a_title_with_braces_passes_through_the_workflow(tmp_path: Path) -> None:
    folder = copy_code(tmp_path / "lab")
    shutil.copytree(ROOT / "results" / "cpu-example", folder / "results" / "cpu-example")
    (folder / "results" / "cpu-example" / "roofline.svg").unlink()
    edit(folder, lambda config: config["plot"].update(title="{x} 'at' $y^{$"))
    run(folder, "plot")
    assert "{x} 'at' $y^{$" in (folder / "results" / "cpu-example" / "roofline.svg").read_text(encoding="utf-8")


def test_the_text_of_the_svg_falls_back_to_a_font_as_wide(tmp_path: Path) -> None:
    run_plot(tmp_path, cpu_roofline())
    assert re.search(r"font-family: 'DejaVu Sans', '?Verdana'?, sans-serif", (tmp_path / "r.svg").read_text())


def test_the_same_roofline_gives_the_same_svg(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        run_plot(tmp_path / folder, cpu_roofline())
    for name in ("r.svg", "dark.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def title(roofline: dict[str, Any]) -> str:
    return str(draw(roofline).texts[0].get_text())


def test_the_title_is_the_finding() -> None:
    roofline = gpu_roofline()
    assert title(roofline).startswith(
        "NVIDIA H200: GEMM reaches 98.5 % of its ceilings; one-token decode is limited by its launch"
    )
    for step in roofline["points"]:
        step["at_roof"] = False
    assert "; one-token decode stays below every roof (nearest: its launch)\n" in title(roofline) + "\n"
    assert title(above_roof()).startswith("NVIDIA H200: a product passes its ceiling; a decode step beats its roof")
    assert title(cpu_roofline()).startswith("AMD EPYC 9654: GEMM reaches 96.0–97.0 % of its ceilings; ")


def test_fractions_tiers_and_warnings_are_written() -> None:
    said = texts(above_roof())
    for text in ("above its roof", "799 TFLOP/s · 80.8 %", "94.0 % of the HBM slope", "fp16 ridge point\n184 FLOP/byte",
                 "L2 read 9.90 TB/s", "HBM read 4.35 TB/s",
                 "expected: 70–90 %", "textbook: decode at 0.3–1 % of the fp16 peak"):  # fmt: skip
        assert text in said
    assert "above its roof" not in texts(gpu_roofline())


def test_missing_vendor_and_sustained_figures_are_left_out() -> None:
    roofline = copy.deepcopy(gpu_roofline())
    for entry in roofline["ceilings"]:
        entry.update(fraction_of_vendor=None, sustained=None, power_capped=None, sm_clock_hz=None)
    said = texts(roofline)
    assert "expected" not in said and "seconds of load\n" not in said and "clock" not in said
    assert "What is left of the best burst" in said


def test_a_file_that_is_no_roofline_is_refused(tmp_path: Path) -> None:
    done = run_plot(tmp_path, {"schema": "manifest"})
    assert done.returncode != 0
    assert "expected 'roofline'" in done.stderr


@pytest.mark.parametrize(("text", "expected"), [
    (words.flop_per_s(798.4e12), "798 TFLOP/s"), (words.flop_per_s(2.614e10), "26.1 GFLOP/s"),
    (words.bytes_per_s(4.0512e12), "4.05 TB/s"), (words.bytes_per_s(999.7e9), "1.00 TB/s"), (words.seconds(8.43e-6), "8.43 µs"),
    (words.percent(0.0000311), "0.00311 %"),
    (words.times(12.34), "12.3×"), (words.significant(100.0), "100"), (words.significant(2.0), "2.00"), (words.significant(0), "0"),
    (words.significant(0.9996), "1.00"), (words.span("3 %", "5 %"), "3–5 %"), (words.span("900 GFLOP/s", "1 TFLOP/s"),
                                                                         "900 GFLOP/s – 1 TFLOP/s"),
])  # fmt: skip
def test_numbers_carry_three_digits_and_their_unit(text: str, expected: str) -> None:
    assert text == expected

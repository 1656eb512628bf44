"""`report.html`: one page without network; every section and number is there; in a browser it answers and prints."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from drawn_sessions import SESSIONS, clocked, cpu_roofline, gpu_roofline, t4
from free.report_html import page
from lab import edit, paid_files, run, session_of
from matplotlib import rc_context
from rooflab.draw.figure import draw
from rooflab.draw.save import STABLE
from rooflab.explain.tables import ceilings
from rooflab.look.voice import Voice

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "workflow" / "scripts" / "free" / "report_html.py"
COMMITTED = sorted(path.parent for path in (ROOT / "results").glob("*/roofline.json"))
CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
PROSE = (
    "# What it says\n\n**First** <paragraph> at 1.50 µs.\n\n**Second.** 2 of 3.\n\n**Third.**\n\nThe rest: [x](x).\n"
)
FIGURES = "paragraph,text,key,value,record\n" + (
    "gemm,1.50 µs,a.b,1.5e-06,gpu/x.json\ndecode,2,a.c,2,roofline.json\ndecode,3,a.d,3,roofline.json\n"
)
SECTIONS = ("chart", "words", "ceilings", "products", "decode", "ladder", "checks", "ledger", "provenance", "records")


def manifest(**more: Any) -> dict[str, Any]:
    check = {"name": "decode_sequences", "status": "pass",
             "value": {"fp16": 4}, "limit": 4, "advice": [], "reason": []}  # fmt: skip
    failed = check | {
        "name": "points_below_roof",
        "status": "fail",
        "value": 1,
        "limit": 0,
        "advice": ["look again"],
    }
    record = {"file": "gpu/gemm/fp16-n4096.00000000.json", "stage": "gemm", "side": "gpu", "name": "fp16-n4096",
              "status": "measured", "reason": None, "attempt": 1, "spec": {}, "started_at": "2026-01-01T00:00:00Z",
              "seconds": 12.5, "sha256": "ab" * 32}  # fmt: skip
    return {
        "schema": "manifest", "devices": {"gpu": {"name": "NVIDIA H200", "ecc_enabled": True}},
        "environment": {"driver": ["580.159.04"], "git": {"commit": ["0123abc"], "dirty": [False]}},
        "measurements": [record], "checks": [check, failed], "notes": ["Noise above 10 %: fp32-S128."],
        "paid": {"paid_s": 103.4, "usd": 0.0861, "stages": {"gpu/gemm": 52.3, "gpu/decode": 27.4}},
        "holes": [{"file": "x", "stage": "gemm", "name": "int4-n4096", "side": "gpu", "status": "unsupported",
                   "reason": "no such product", "remedy": None}],
        "terminated": None, "rendered_by": {"python": "3.11.7"},
    } | more  # fmt: skip


def svg_of(roofline: dict[str, Any], language: str = "en") -> str:
    out = StringIO()
    with rc_context(STABLE):
        draw(roofline, language=language).savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def made(roofline: dict[str, Any], language: str = "en", **more: Any) -> str:
    return page(roofline, manifest(**more), svg_of(roofline, language), PROSE, FIGURES, language)


class Shape(HTMLParser):
    """Which elements a page has: ids, anchors, addresses it would load, unclosed ones."""

    VOID = {"meta", "br", "link", "img", "hr", "input"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.anchors: list[str] = []
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.anchors += [found["href"]] if tag == "a" and found.get("href") else []
        self.loaded += [value for name, value in attrs if name in ("src", "data") or (name == "href" and tag == "link")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def whole() -> str:
    return made(gpu_roofline())


def test_the_page_has_every_section_and_loads_nothing(whole: str) -> None:
    shape = Shape(whole)
    assert set(SECTIONS) <= set(shape.ids)
    assert {anchor.removeprefix("#") for anchor in shape.anchors} <= set(shape.ids)
    assert len(shape.ids) == len(set(shape.ids))
    assert shape.loaded == [] and shape.open == []
    assert "default-src 'none'" in whole
    assert not re.search(r"url\((?!#)|@import|fetch\(|XMLHttpRequest", whole)


def test_the_page_quotes_the_three_paragraphs_checks_ledger_and_provenance(whole: str) -> None:
    for text in ("<strong>First</strong> &lt;paragraph&gt; at ", "Second.", "Third.", "look again", "0.09 USD", "no such product",
                 "52.3 s", "580.159.04", "0123abc", "Noise above 10 %: fp32-S128.", "abababababababab",
                 "no record that the instance was terminated"):  # fmt: skip
        assert text in whole
    assert "The rest" not in whole and "# What it says" not in whole
    assert '<data value="1.5e-06" title="a.b = 1.5e-06 (gpu/x.json)">1.50 µs</data>.' in whole
    assert '<data value="2" title="a.c = 2 (roofline.json)">2</data> of <data value="3"' in whole


def test_every_ceiling_point_and_floor_tells_its_record(whole: str) -> None:
    roofline = gpu_roofline()
    told = json.loads(re.search(r'<script type="application/json" id="marks">(.*?)</script>', whole, re.DOTALL)[1])
    assert set(told) == {e["id"] for e in roofline["ceilings"] + roofline["points"] + roofline["floors"]}
    point = told["gpu-decode-minigpt-fp16-S512-fused"]
    assert ["record", "gpu/minigpt-fp16-S512.00000000.json"] in point["facts"]
    assert ["bound by", "launch"] in point["facts"] and ["median", "12.8 µs"] in point["facts"]
    ways = [way for way, _, _ in point["ladder"]]
    assert len(ways) == len(set(ways)) == 12
    assert ways[0] == "cupy chain, launch and wait, caches cold" and ways[-1] == "fused, replayed in a graph"
    assert [way for way, _, own in point["ladder"] if own] == ["fused, launch and wait"]
    assert told["gpu-gemm-fp16-n4096"]["ladder"] == []


def test_a_name_cannot_break_out_of_the_page() -> None:
    roofline = gpu_roofline()
    roofline["points"][0]["implementation"] = "</script><script>alert(1)</script>"
    told = page(roofline, manifest(), svg_of(cpu_roofline()), PROSE, FIGURES)
    assert "<script>alert" not in told and "alert(1)" in told


@pytest.mark.parametrize("name", SESSIONS)
def test_every_kind_of_session_has_a_page_in_both_languages(name: str) -> None:
    roofline = SESSIONS[name]()
    for language in ("en", "es"):
        text = page(roofline, manifest(), "<svg></svg>", PROSE, FIGURES, language)
        assert f'<html lang="{language}">' in text
        Shape(text)


def test_spanish_notes_and_reasons() -> None:
    hole = {"file": "x", "stage": "gemm", "name": "bf16-n2048", "side": "cpu", "status": "unsupported", "remedy": None,
            "reason": "NumPy's BLAS multiplies fp32 and fp64 only: it has no fast bf16 GEMM"}  # fmt: skip
    told = {
        "holes": [hole, hole | {"reason": None}],
        "notes": [
            {"code": "several_devices", "values": {"side": "gpu", "count": 2, "devices": ["a", "b"]}},
            "unheard of",
        ],
    }
    text = made(t4(), "es", **told)
    assert "el BLAS de NumPy solo multiplica" in text and "multiplies" not in text
    assert "medido en 2 dispositivos: a, b" in text and "«unheard of»" in text and "«»" not in text
    assert "«" not in made(t4(), "en", **told)


def test_spanish_heads_and_decimal_commas() -> None:
    text = made(t4(), "es", terminated={"terminated_at": "2026-01-01T02:00:00Z", "total_usd": 1.5})
    for words in (
        "Techos",
        "Comprobaciones",
        "Lo que costó",
        "52,3 s",
        "instancia terminada 2026-01-01",
        "no se cumple",
    ):
        assert words in text


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_the_committed_sessions_give_a_page(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    given = {
        "roofline": "roofline.json",
        "manifest": "manifest.json",
        "svg": "roofline.svg",
        "prose": "interpretation.md",
        "figures": "figures.csv",
    }
    parts = [part for flag, name in given.items() for part in (f"--{flag}", str(folder / name))]
    subprocess.run([sys.executable, str(PROGRAM), *parts, "--out", str(out)], check=True, timeout=60)
    assert set(SECTIONS) - {"products"} <= set(Shape(out.read_text(encoding="utf-8")).ids)
    assert out.stat().st_size < 2e6
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_file_that_is_no_roofline_is_refused(tmp_path: Path) -> None:
    for name, text in (
        ("r", '{"schema": "manifest"}'),
        ("m", "{}"),
        ("s", "<svg></svg>"),
        ("p", PROSE),
        ("f", FIGURES),
    ):
        (tmp_path / name).write_text(text)
    flags = {"roofline": "r", "manifest": "m", "svg": "s", "prose": "p", "figures": "f", "out": "o"}
    parts = [part for flag, name in flags.items() for part in (f"--{flag}", str(tmp_path / name))]
    done = subprocess.run([sys.executable, str(PROGRAM), *parts], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "expected 'roofline'" in done.stderr
    assert not (tmp_path / "o").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium; where there is none these tests are skipped, in CI they fail."""
    missing = "no Chromium: install chromium and the Python package playwright to test the page in a browser"
    available = CHROMIUM is not None and importlib.util.find_spec("playwright") is not None
    if not available:
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def view(browser: Any, whole: str, tmp_path: Path) -> Iterator[Any]:
    """The page in a window; anything on its console or any request is an error."""
    path = tmp_path / "report.html"
    path.write_text(whole, encoding="utf-8")
    window = browser.new_page(viewport={"width": 1400, "height": 1000})
    faults: list[str] = []
    window.on("console", lambda message: faults.append(message.text))
    window.on("pageerror", lambda error: faults.append(str(error)))
    window.on("request", lambda request: faults.append(request.url) if request.url != path.as_uri() else None)
    window.goto(path.as_uri())
    yield window
    assert faults == []
    window.close()


def point_at(view: Any, identifier: str) -> str:
    """Moves the pointer onto a mark; what the page then tells."""
    box = view.locator(f'[id="{identifier}"]').bounding_box()
    view.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = view.locator("#tip")
    return tip.inner_text() if tip.is_visible() else ""


def test_pointing_at_a_point_shows_record_regime_and_ladder(view: Any) -> None:
    told = point_at(view, "gpu-decode-minigpt-fp32-S1024-fused_graph")
    assert "decode attention minigpt-fp32-S1024" in told
    assert "gpu/minigpt-fp32-S1024.00000000.json" in told
    assert re.search(r"bound by\s+L2", told)
    assert re.search(r"cupy chain, launch and wait\s+107 µs", told)
    assert view.locator("#tip .this").inner_text().startswith("fused, replayed in a graph")


def test_pointing_at_a_product_and_a_line_works_and_leaving_hides_it(view: Any) -> None:
    assert "gemm fp32-n4096" in point_at(view, "gpu-gemm-fp32-n4096")
    spot = view.evaluate("""() => {
        const line = document.getElementById("gpu-compute-fp32").querySelector("path");
        const at = line.getPointAtLength(line.getTotalLength() * 0.35).matrixTransform(line.getScreenCTM());
        return [at.x, at.y];
    }""")
    view.mouse.move(*spot)
    assert re.search(r"fp32 CUDA core\s+burst\s+51.9 TFLOP/s", view.locator("#tip").inner_text())
    view.mouse.move(5, 5)
    assert not view.locator("#tip").is_visible()


def test_the_keyboard_reaches_every_mark(view: Any) -> None:
    drawn = view.locator(
        ":is([id^='gpu-'], [id^='cpu-'], [id^='share:'])"
    )  # a curve of panel C is no record of its own
    assert view.locator(".mark[tabindex='0'][aria-label]").count() == drawn.count() > 40
    view.locator('[id="gpu-gemm-fp16-n4096"]').focus()
    assert "gemm fp16-n4096" in view.locator("#tip").inner_text()
    view.keyboard.press("Escape")
    assert not view.locator("#tip").is_visible()


def test_the_page_prints_to_pdf_with_all_its_tables(view: Any, tmp_path: Path) -> None:
    out = tmp_path / "report.pdf"
    view.pdf(path=str(out), prefer_css_page_size=True)
    assert out.read_bytes().startswith(b"%PDF-")
    assert out.read_bytes().count(b"/Type /Page\n") + out.read_bytes().count(b"/Type /Page ") >= 3


def test_nothing_is_wider_than_the_window(view: Any) -> None:
    for width in (1400, 700):
        view.set_viewport_size({"width": width, "height": 900})
        assert view.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_workflow_makes_the_page_in_the_language_of_the_config(lab: Path) -> None:
    session = session_of(lab)
    assert "What the numbers say" in (session / "report.html").read_text(encoding="utf-8")
    before = paid_files(lab)
    edit(lab, lambda config: config.update(language="es"))
    run(lab, "report")
    assert "Lo que dicen las cifras" in (session / "report.html").read_text(encoding="utf-8")
    assert "intensidad aritmética" in (session / "roofline.svg").read_text(encoding="utf-8")
    assert paid_files(lab) == before


def test_snakemakes_own_report_works_with_captions(lab: Path) -> None:
    out = lab / "snakemake.html"
    told = run(lab, "--report", str(out), "report")
    assert "Adding report.html" in told and "Adding roofline.png" in told and "Adding interpretation.md" in told
    text = out.read_text(encoding="utf-8")
    for caption in ("generated by rule from", "launch floor (level)", "one self-contained page"):
        assert caption in text


def test_the_clock_in_the_table_is_the_one_inside_the_burst() -> None:
    """What the driver says beside the samples lags, so it stands in no table."""
    roofline = gpu_roofline()
    roofline["ceilings"] = [clocked(c, 0.8) if c["id"] == "gpu-compute-fp16" else c for c in roofline["ceilings"]]
    made = ceilings(roofline, Voice("en"))
    clock, use = (made.heads.index(head) for head in ("SM clock inside the burst", "use of the issue rate"))
    own = next(row for row in made.rows if row[1] == "fp16 Tensor Core")
    assert (own[clock], own[use]) == ("1.46 GHz", "101 %")
    assert {row[clock] for row in made.rows if row is not own} == {"—"}

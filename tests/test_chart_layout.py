"""The picture of every kind of session: no two texts overlap, none leaves the figure, nothing measured is missing.

Colours keep their contrast, and formats are told apart by colour-blind readers and in grey, in both themes.
"""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_sessions import SESSIONS, document, gpu_roofline, strange
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from rooflab.draw.figure import draw
from rooflab.draw.labels import spread
from rooflab.draw.save import STABLE, svg
from rooflab.look.style import DARK, LIGHT, STYLES, THEMES, UNKNOWN, Look, Theme, short_name

COMMITTED = sorted((Path(__file__).resolve().parent.parent / "results").glob("*/roofline.json"))
ALL = [*SESSIONS, *(path.parent.name for path in COMMITTED)]
FOUR = ("fp32", "fp16", "bf16", "fp8")

# simulated dichromacy, linear RGB: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
# Color Vision Deficiency", IEEE TVCG 15 (2009), severity 1.0
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                            [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                              [-0.011820, 0.042940, 0.968881]]),
}  # fmt: skip
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])  # sRGB, D65


def session(name: str) -> dict[str, Any]:
    if name in SESSIONS:
        return SESSIONS[name]()
    return json.loads(next(p for p in COMMITTED if p.parent.name == name).read_text(encoding="utf-8"))


def corners(text: Text, renderer: Any) -> np.ndarray:
    """The four corners of a text in pixels, turned as the text is."""
    angle = text.get_rotation()
    if angle % 90 == 0:
        box = text.get_window_extent(renderer).padded(-0.5)
        return np.array([(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)])
    text.set_rotation(0)
    box = text.get_window_extent(renderer).padded(-0.5)
    text.set_rotation(angle)
    anchor = text.get_transform().transform(text.get_unitless_position())
    cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    level = np.array([(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)])
    return (level - anchor) @ np.array([[cos, sin], [-sin, cos]]) + anchor


def apart(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a straight line separates two convex shapes."""
    for shape in (one, other):
        for start, end in zip(shape, np.roll(shape, -1, axis=0), strict=True):
            normal = np.array([end[1] - start[1], start[0] - end[0]])
            a, b = one @ normal, other @ normal
            if a.max() <= b.min() or b.max() <= a.min():
                return True
    return False


def texts(figure: Figure) -> dict[Text, np.ndarray]:
    """Every text that is seen, with its corners, as a picture is saved."""
    with rc_context(STABLE):
        return _texts(figure)


def _texts(figure: Figure) -> dict[Text, np.ndarray]:
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    hidden = {id(label) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)
              for tick in axis.get_major_ticks() + axis.get_minor_ticks()
              if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
              for label in (tick.label1, tick.label2)}  # fmt: skip
    seen = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]
    return {text: corners(text, canvas.get_renderer()) for text in seen}


def said(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in texts(figure))


def faults(figure: Figure) -> list[str]:
    """The texts that overlap or leave the figure."""
    boxes, found = texts(figure), []
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        if not apart(a, b):
            found.append(f"{one.get_text()!r} overlaps {other.get_text()!r}")
    for text, box in boxes.items():
        if box.min() < 0 or (box.max(axis=0) > figure.bbox.size).any():
            found.append(f"{text.get_text()!r} leaves the figure")
    return found


@pytest.mark.parametrize("language", ["en", "es"])
@pytest.mark.parametrize("name", ALL)
def test_no_text_overlaps_and_none_leaves_the_figure(name: str, language: str) -> None:
    figure = draw(session(name), language=language)
    assert faults(figure) == []


@pytest.mark.parametrize("seed", range(24))
def test_no_text_overlaps_in_sessions_nobody_foresaw(seed: int) -> None:
    """3 to 12 ceilings, one format or many, with and without clocks, points above roofs, long names; half of them in Spanish."""
    figure = draw(strange(seed), language="es" if seed % 2 else "en", theme="dark" if seed % 3 else "light")
    assert faults(figure) == []
    assert min(text.get_fontsize() for text in texts(figure)) >= 8.5


def test_two_overlapping_texts_would_be_found() -> None:
    figure = Figure()
    figure.text(0.5, 0.5, "one")
    figure.text(0.5, 0.51, "two")
    figure.text(0.99, 0.2, "leaves")
    assert len(faults(figure)) == 2
    slanted = Figure()
    slanted.text(0.3, 0.3, "a long slanted text", rotation=45, rotation_mode="anchor")
    slanted.text(0.55, 0.3, "under it")
    assert faults(slanted) == []


LAB = ("fp32", "fp16", "bf16", "fp8_e4m3")


def lab_entries(roofline: dict[str, Any]) -> set[str]:
    """The ids of the lab's ceilings and points of the main side."""
    side = roofline["main_side"]
    mine = [e for e in roofline["ceilings"] + roofline["points"] if e["side"] == side]
    compute = [e["id"] for e in mine if e.get("kind") == "compute" and (e["variant"] in LAB or side == "cpu")]
    memory = [e["id"] for e in mine if e.get("kind") == "memory" and e["pattern"] in ("read", "d2d", "l2")]
    points = [e["id"] for e in mine if e.get("operator") and e["lab_point"] and (e["dtype"] in LAB or side == "cpu")
              and (e["operator"] == "decode_attention" or e["variant"] in LAB) and not e["name"].endswith("-hbm")]  # fmt: skip
    return {*compute, *memory, *points}


@pytest.mark.parametrize("name", ALL)
def test_every_ceiling_and_point_of_the_lab_is_in_the_svg_once(name: str) -> None:
    roofline = session(name)
    text = svg(draw(roofline)).decode()
    ids = re.findall(r'<g id="([^"]+)"', text)
    assert [name for name in lab_entries(roofline) if ids.count(name) != 1] == []
    assert len(ids) == len(set(ids))
    assert text.count("<text") > (20 if lab_entries(roofline) else 5)  # real text, not outlines
    assert len(text.encode()) <= 120_000


@pytest.mark.parametrize("name", ALL)
def test_every_point_stands_at_its_true_place(name: str) -> None:
    roofline = session(name)
    drawn = draw(roofline).axes[0].lines
    lines = {line.get_gid(): line for line in drawn}
    ringed = {tuple(line.get_xydata()[0]) for line in drawn if line.get_markeredgecolor() == LIGHT.alarm}
    wanted = [p for p in roofline["points"] if p["id"] in lab_entries(roofline)]
    for point in wanted:
        assert tuple(lines[point["id"]].get_xydata()[0]) == (point["intensity"], point["achieved_flop_per_s"])
    assert ringed == {tuple(lines[p["id"]].get_xydata()[0]) for p in wanted if p["above_roof"]}


@pytest.mark.parametrize("name", ["healthy gpu", "T4 without bf16 and fp8", "twelve dtypes", "cpu"])
def test_every_ceiling_is_named_with_its_measured_rate(name: str) -> None:
    roofline, look = session(name), Look("en", LIGHT)
    words = said(draw(roofline))
    for ceiling in roofline["ceilings"]:
        if (ceiling["kind"], ceiling["side"]) == ("compute", roofline["main_side"]):
            assert short_name(look, ceiling) in words
            assert look.number(ceiling["burst"], "flop_per_s") in words
    assert ("HBM copy 4.05 TB/s" in words) == (name in ("healthy gpu", "twelve dtypes"))


def test_an_ordinary_session_loses_no_text_for_want_of_room() -> None:
    for language in ("en", "es"):
        look = Look(language, LIGHT)
        words = " ".join(said(draw(session("nvidia-h200"), language=language)).split())
        for key, values in (("chart.textbook", {"range": (0.003, 0.01), "peak": "fp16"}), ("chart.graph", {"length": 1024}),
                            ("chart.floor.at", {"length": 128}), ("chart.floor.at", {"length": 1024}),
                            ("chart.host.steps", {"dtype": "fp32"}), ("chart.steps.gpu", {"lengths": (128, 1024)}),
                            ("chart.products.gpu", {"n": 4096})):  # fmt: skip
            assert look.say(key, **values) in words


def test_the_gap_to_the_data_sheet_is_split_where_a_clock_was_measured() -> None:
    roofline = gpu_roofline()
    whole = said(draw(roofline))
    assert "lacking (no clock measured)" in whole and "clock below the sheet's" not in whole
    for ceiling in roofline["ceilings"]:
        if ceiling["kind"] == "compute" and ceiling["vendor"]:
            ceiling |= {"clock_hz": 1.626e9, "use": {"of_issue_rate": 0.87, "reason": None},
                        "clock": {"measured_hz": 1.626e9, "vendor_hz": 1.83e9, "factor": 0.889, "reason": None}}  # fmt: skip
    split = said(draw(roofline))
    assert "clock below the sheet's" in split and "issue rate not used" in split
    assert "SM clock inside the bursts 1.63 GHz." in split


def test_spanish_is_spanish_to_the_decimal_comma() -> None:
    words = said(draw(gpu_roofline(), language="es"))
    assert "intensidad aritmética, FLOP por byte" in words
    assert "98,5 %" in words and "98.5 %" not in words
    assert "launch" not in words and "fused" not in words


def test_an_unknown_language_is_refused() -> None:
    with pytest.raises(ValueError, match="language is 'fr', expected one of en, es"):
        draw(gpu_roofline(), language="fr")


def test_a_session_with_nothing_measured_says_so() -> None:
    words = said(draw(document("nvidia-l4", "gpu", [], [], [])))
    assert "nothing measured yet" in words and "decode attention not measured" in words


def test_rows_keep_their_order_and_stay_as_near_as_they_can() -> None:
    assert spread([50, 20], [10, 10], 0, 100) == [50, 20]
    assert spread([50, 50], [10, 10], 0, 100) == [55, 45]
    assert spread([99, 98, 97], [10, 10, 10], 0, 100) == [95, 85, 75]
    assert spread([2, 1], [10, 10], 0, 100) == [15, 5]
    assert spread([], [], 0, 100) == []


def linear(color: str) -> np.ndarray:
    """An sRGB colour in linear light."""
    share = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(light: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB under D65."""
    share = TO_XYZ @ np.clip(light, 0, 1) / np.array([0.9505, 1.0, 1.089])
    root = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""
    dark, bright = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (bright + 0.05) / (dark + 0.05)


def distance(one: str, other: str) -> float:
    """The smallest CIE76 distance of two colours over the three kinds of vision."""
    return min(float(np.linalg.norm(lab(m @ linear(one)) - lab(m @ linear(other)))) for m in VISION.values())


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_every_text_colour_keeps_its_contrast_with_the_paper(theme: Theme) -> None:
    for color in (theme.ink, theme.slope, theme.muted, theme.alarm, *theme.formats.values()):
        for ground in (theme.paper, theme.shade):
            assert contrast(color, ground) >= (4.5 if ground == theme.paper else 4.0), color


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_the_labs_formats_are_told_apart_by_colour_blind_readers_and_in_grey(theme: Theme) -> None:
    for one, other in combinations(FOUR, 2):
        a, b = theme.formats[one], theme.formats[other]
        assert distance(a, b) >= 12, (one, other)
        assert abs(lab(linear(a))[0] - lab(linear(b))[0]) >= 5, (one, other)


def test_marker_and_dash_tell_every_format_apart_without_colour() -> None:
    marks = [*STYLES.values(), UNKNOWN]
    assert len({marker for _, marker, _ in marks}) == len(marks)
    for (one, a), (other, b) in combinations(STYLES.items(), 2):
        assert a[1:] != b[1:]
        if a[0] == b[0]:
            assert a[2] != b[2], (one, other)
    assert {family for family, _, _ in marks} <= set(LIGHT.formats) == set(DARK.formats)


@pytest.mark.parametrize("count", [12, 40, 140])
def test_a_long_name_is_written_smaller_instead_of_leaving_the_figure(count: int) -> None:
    roofline = gpu_roofline()
    roofline["devices"]["gpu"]["name"] = "NVIDIA " + "Long " * count
    assert faults(draw(roofline)) == []


def test_a_card_without_tensor_cores_is_told_without_them() -> None:
    texts = [text.get_text() for text in draw(SESSIONS["GTX 1650 without Tensor Cores"]()).findobj(Text)]
    assert any("GTX 1650" in text for text in texts)
    assert not any("Tensor" in text for text in texts)

"""The picture of one model: every part and context is there, nothing leaves the figure, and nothing to draw is said."""

from typing import Any

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rooflab.draw.model import COLORS, MARKERS, draw
from rooflab.measure import announce
from test_model_table import config, made_of, model_records

matplotlib.use("Agg")
NAMES = ("llama-3-1-8b", "phi-3-mini-128k", "deepseek-v2-lite")
Record = dict[str, Any]


@pytest.fixture(scope="module")
def roofline() -> Record:
    return made_of([record for name in NAMES for record in model_records(name, config())])


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(matplotlib.text.Text) if text.get_text()]


@pytest.mark.parametrize("name", NAMES)
def test_every_part_every_context_and_every_roof_is_there(roofline: Record, name: str) -> None:
    told = "\n".join(texts(draw(roofline, name)))
    model = next(m for m in roofline["models"] if m["name"] == name)
    for part in {p["part"] for p in model["operators"]}:
        assert f"{part}: " in told
    assert all(f"S = {context['sequence']}" in told for context in model["contexts"])
    assert "HBM read, 4.71 TB/s" in told and "bf16 Tensor Core, 790 TFLOP/s" in told
    assert "of the roof" in told and "more memory than this card has" in told


@pytest.mark.parametrize("name", NAMES)
def test_no_text_leaves_the_figure_or_lies_on_another(roofline: Record, name: str) -> None:
    figure = draw(roofline, name)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = [t.get_window_extent(renderer) for axes in figure.axes for t in axes.texts]
    boxes += [axes.get_legend().get_window_extent(renderer) for axes in figure.axes]
    boxes += [axes.title.get_window_extent(renderer) for axes in figure.axes]
    width, height = figure.bbox.width, figure.bbox.height
    assert all(b.x0 >= 0 and b.y0 >= 0 and b.x1 <= width and b.y1 <= height for b in boxes)
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("name", NAMES)
def test_the_points_lie_where_roofline_json_has_them(roofline: Record, name: str) -> None:
    figure = draw(roofline, name)
    model = next(m for m in roofline["models"] if m["name"] == name)
    drawn = {line.get_gid(): line for line in figure.axes[0].lines if line.get_gid()}
    for part in {p["part"] for p in model["operators"]}:
        line = drawn[f"part-{part.replace(' ', '_')}"]
        own = [p for p in model["operators"] if p["part"] == part]
        assert list(line.get_xdata()) == [p["intensity"] for p in own]
        assert list(line.get_ydata()) == [p["achieved_flop_per_s"] for p in own]


def test_two_ways_of_serving_are_two_rows() -> None:
    given = config()
    given["serving"] = given["serving"] | {"dtypes": ["bf16", "fp16"]}
    assert len(draw(made_of(model_records("gpt2", given)), "gpt2").axes) == 4


def test_a_model_without_measurements_says_so(roofline: Record) -> None:
    assert texts(draw(roofline, "gpt2")) == ["gpt2: nothing of this model is measured yet"]


def test_no_two_of_many_parts_look_alike() -> None:
    looks = {(COLORS[i % len(COLORS)], MARKERS[i % len(MARKERS)]) for i in range(40)}
    assert len(looks) == 40


def test_the_line_of_a_finished_step_names_its_longest_part() -> None:
    step = next(r for r in model_records("gpt2", config()) if r["stage"] == "step")
    assert "7 parts, longest LM head: " in announce.line(step)

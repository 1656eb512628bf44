"""Every session on one roofline: a colour per model, a thin roof per session, the slow ones drawn out. Reads `compare.json`.

To stay readable with a thousand cards, each roof shows two ceilings, fp32 (solid) and fp16 (dashed), and the longest
decode step of either; all others are in the page and the document.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rooflab.look import words
from rooflab.record.names import format_of_lab_step
from rooflab.record.types import Json

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#7F7F7F")  # Okabe and Ito, 2008
DTYPES = {"fp32": "solid", "fp16": (0, (4, 2))}
MARKERS = {"fp32": "o", "fp16": "s"}
SLOW_COLOR = "#B2182B"
FLEET_ALPHA = 0.6  # all roofs of a model are one line: it does not darken where they cross
LEFT, RIGHT = 0.1, 5e3  # FLOP/byte
NAMED = 6  # slow sessions whose name stands in the margin
LABEL_GAP = 0.045  # of the height of the axes, between two labels in the margin
NAN = float("nan")


def draw(made: Json) -> Figure:
    """The figure of a comparison, also of an empty one."""
    figure = Figure(figsize=(9.0, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _frame(axes, made)
    slow = list(dict.fromkeys(each["session"] for each in made["findings"]))
    labels: list[tuple[float, str, str]] = []
    for index, model in enumerate(made["models"]):
        rows = [each for each in made["sessions"] if each["model"] == model["model"]]
        labels += _model(axes, model, rows, COLORS[index % len(COLORS)])
    for row in made["sessions"]:
        if row["session"] in slow:
            labels += _slow(axes, row, row["session"] in slow[:NAMED])
    _margin(axes, labels)
    if made["models"]:
        axes.legend(
            loc="lower right",
            fontsize=7,
            facecolor="white",
            edgecolor="none",
            title="main memory, median over sessions",
            title_fontsize=7,
        )
    return figure


def _frame(axes: Axes, made: Json) -> None:
    heights = [flop for row in made["sessions"] for flop in _heights(row)]
    axes.set(xscale="log", yscale="log", xlim=(LEFT, RIGHT))
    axes.set_ylim(min(heights, default=1e9) / 3, max(heights, default=1e15) * 3)
    axes.set_xlabel("arithmetic intensity (FLOP/byte)")
    axes.set_ylabel("FLOP/s")
    axes.grid(which="major", linewidth=0.4, alpha=0.4)
    axes.set_title(
        f"measured roofs: {_count(made['sessions'], 'session')} of {_count(made['models'], 'model')}",
        fontsize=10,
        loc="left",
    )
    axes.text(
        0, -0.15, "solid: fp32, dashed: fp16 burst ceilings; points: longest decode step (○ fp32, □ fp16); red: slower than its reference",
        transform=axes.transAxes, fontsize=6.5, va="top",
    )  # fmt: skip


def _count(items: Sequence[Any], noun: str) -> str:
    return f"{len(items)} {noun}" + ("s" if len(items) != 1 else "")


def _heights(row: Json) -> list[float]:
    tops = list(_tops(row).values())
    return [*tops, *(each["achieved_flop_per_s"] for each in _steps(row))]


def _tops(row: Json) -> dict[str, float]:
    """The burst ceilings that are drawn, by dtype."""
    named = {str(c["variant"] or c["dtype"]): c["burst"] for c in row["ceilings"] if c["kind"] == "compute"}
    return {name: named[name] for name in DTYPES if name in named}


def _steps(row: Json) -> list[Json]:
    """The lab's decode point with the longest S, of each dtype that is drawn."""
    longest: dict[str, Json] = {}
    for each in sorted(row["decode"], key=lambda each: each["sequence"]):
        if each["lab_point"] and format_of_lab_step(each["name"]) in DTYPES:
            longest[each["dtype"]] = each
    return list(longest.values())


def _model(axes: Axes, model: Json, rows: Sequence[Json], color: str) -> list[tuple[float, str, str]]:
    """The thin roofs of one model; returns its labels for the margin."""
    alpha = 1.0 if len(rows) == 1 else FLEET_ALPHA
    for name, style in DTYPES.items():
        _lines(axes, [roof for row in rows if (roof := _roof(row, name))], color, style, alpha)
        _points(axes, [p for row in rows for p in _steps(row) if p["dtype"] == name], color, MARKERS[name], alpha)
    slopes = sorted(row["main_memory"]["burst"] for row in rows if row["main_memory"])
    memory = f": {words.bytes_per_s(slopes[len(slopes) // 2])}" if slopes else ""
    count = f" (×{len(rows)})" if len(rows) > 1 else ""
    axes.plot([], [], color=color, linewidth=2, label=f"{model['model']}{count}{memory}")
    labels = []
    for name in DTYPES:
        tops = sorted(_tops(row)[name] for row in rows if name in _tops(row))
        if tops:
            middle = tops[len(tops) // 2]
            labels.append(
                (middle, f"{model['model'].removeprefix('NVIDIA ')} {name} {words.flop_per_s(middle)}", color)
            )
    return labels


def _roof(row: Json, name: str) -> tuple[list[float], list[float]] | None:
    """The corners of a session's roof in one dtype: up the memory slope, then along the ceiling."""
    top, slope = _tops(row).get(name), row["main_memory"]
    if top is None:
        return None
    if slope is None:
        return [LEFT, RIGHT], [top, top]
    ridge = min(max(top / slope["burst"], LEFT), RIGHT)
    return [LEFT, ridge, RIGHT], [min(LEFT * slope["burst"], top), top, top]


def _lines(axes: Axes, roofs: Sequence[tuple[list[float], list[float]]], color: str, style: Any, alpha: float) -> None:
    """All roofs as one broken line: a thousand lines would take seconds."""
    xs = [x for roof in roofs for x in [*roof[0], NAN]]
    ys = [y for roof in roofs for y in [*roof[1], NAN]]
    axes.plot(xs, ys, color=color, linestyle=style, linewidth=1.2, alpha=alpha)


def _points(axes: Axes, points: Sequence[Json], color: str, marker: str, alpha: float) -> None:
    xs, ys = [p["intensity"] for p in points], [p["achieved_flop_per_s"] for p in points]
    axes.plot(xs, ys, marker, color=color, markersize=4, markerfacecolor="none", alpha=alpha)


def _slow(axes: Axes, row: Json, named: bool) -> list[tuple[float, str, str]]:
    """A slow session's roofs, drawn out; returns its label for the margin, if it is one of the worst."""
    for name, style in DTYPES.items():
        if roof := _roof(row, name):
            _lines(axes, [roof], SLOW_COLOR, style, 1.0)
        _points(axes, [p for p in _steps(row) if p["dtype"] == name], SLOW_COLOR, MARKERS[name], 1.0)
    tops = _tops(row)
    return [(max(tops.values()), row["session"], SLOW_COLOR)] if tops and named else []


def _margin(axes: Axes, labels: Sequence[tuple[float, str, str]]) -> None:
    """Labels right of the axes, as near to the height of their line as they do not touch."""
    ordered = sorted(labels)
    to_axes = axes.transData + axes.transAxes.inverted()
    heights = _apart([float(to_axes.transform((RIGHT, value))[1]) for value, _, _ in ordered])
    for height, (_, text, color) in zip(heights, ordered, strict=True):
        axes.annotate(text, (1.01, height), xycoords="axes fraction", fontsize=7, color=color, va="center")


def _apart(heights: Sequence[float]) -> list[float]:
    """Rising heights pushed up until they lie a label apart, and down again from the top of the axes."""
    gap = min(LABEL_GAP, 1 / max(1, len(heights)))
    placed: list[float] = []
    for height in heights:
        placed.append(max(height, placed[-1] + gap) if placed else height)
    for index in reversed(range(len(placed))):
        placed[index] = min(placed[index], 1 - gap * (len(placed) - 1 - index))
    return placed

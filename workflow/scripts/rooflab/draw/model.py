"""One model's decode step as a picture: its parts under the measured roof, and tokens per second over batch.

A row of two panels for each way of serving it. Coordinates come from roofline.json as they are.
"""

from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rooflab.look import words
from rooflab.look.style import LIGHT, Record, style_of

ROW_IN = (16.0, 6.2)
COLORS = (
    "#0055A8",
    "#D43F0F",
    "#007552",
    "#740B6F",
    "#6B4400",
    "#007EA3",
    "#B00020",
    "#5A6B00",
    "#303030",
    "#8A5A9E",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "d", "<")  # fewer than colours, so that no two parts look alike
SEQUENCE_DASHES = ("-", "--", "-.", ":", (0, (1, 2)), (0, (6, 2)))
ROOM_BELOW, ROOM_ABOVE = 0.5, 2.0


def draw(roofline: Record, name: str) -> Figure:
    """The figure of the model `name`; a note in its place where nothing of it is measured."""
    found = [model for model in roofline["models"] if model["name"] == name]
    rows = max(1, len(found))
    figure = Figure(figsize=(ROW_IN[0], ROW_IN[1] * rows), layout="constrained", facecolor=LIGHT.paper)
    panels = figure.subplots(rows, 2, squeeze=False, width_ratios=(3, 2))
    for (left, right), model in zip(panels, found, strict=False):
        _draw_roof(left, roofline, model)
        _draw_tokens(right, model)
    if not found:
        _say_nothing(figure, name)
    return figure


def _say_nothing(figure: Figure, name: str) -> None:
    for axes in figure.axes:
        axes.set_axis_off()
    figure.text(0.5, 0.5, f"{name}: nothing of this model is measured yet", ha="center", color=LIGHT.ink)


def measured(points: list[Record]) -> list[Record]:
    """The points that have a time."""
    return [point for point in points if point["achieved_flop_per_s"]]


# ---- under the roof


def _draw_roof(axes: Axes, roofline: Record, model: Record) -> None:
    points, tops = measured(model["operators"]), _tops(roofline, model)
    sweeps = [sweep for sweep in roofline["sweeps"] if sweep["dtype"] == model["dtype"]]
    walked = [p for sweep in sweeps for p in measured(sweep["points"])]
    slopes = [c for c in roofline["ceilings"] if c["side"] == "gpu" and c["kind"] == "memory" and _is_read(c)]
    _dress(axes, f"{model['name']}: weights {model['dtype']}, cache {model['kv_dtype']}")
    axes.set(xscale="log", yscale="log", xlabel="arithmetic intensity, FLOP/byte", ylabel="FLOP/s")
    low, high = _limits([p["intensity"] for p in [*points, *walked]], 0.5, 1000.0)
    bottom, top = _limits([p["achieved_flop_per_s"] for p in points] + [c["burst"] for c in tops], 1e9, 1e15)
    axes.set(xlim=(low, high), ylim=(bottom, top))
    for slope in slopes:
        _draw_slope(axes, slope, tops, low, high)
    for ceiling in tops:
        _draw_ceiling(axes, ceiling, slopes, high)
    for sweep in sweeps:
        _draw_sweep(axes, sweep)
    _draw_parts(axes, points)


def _is_read(ceiling: Record) -> bool:
    return ceiling["tier"] == "L2" or ceiling["pattern"] == "read"


def _tops(roofline: Record, model: Record) -> list[Record]:
    wanted = {model["dtype"], model["kv_dtype"]}
    found = [c for c in roofline["ceilings"] if (c["side"], c["kind"]) == ("gpu", "compute")]
    return [c for c in found if (c.get("variant") or c["dtype"]) in wanted]


def _draw_slope(axes: Axes, slope: Record, tops: list[Record], low: float, high: float) -> None:
    highest = max((c["burst"] for c in tops), default=None)
    end = min(high, highest / slope["burst"]) if highest else high
    dash = ":" if slope["tier"] == "L2" else "--"
    axes.plot([low, end], [low * slope["burst"], end * slope["burst"]], color=LIGHT.slope, ls=dash, lw=1.1, zorder=1)
    at = low * 1.15
    axes.annotate(
        f"{slope['label']}, {words.bytes_per_s(slope['burst'])}", (at, at * slope["burst"]), xytext=(0, 5),
        textcoords="offset points", rotation=45, rotation_mode="anchor", transform_rotates_text=True,
        color=LIGHT.slope, fontsize=8,
    )  # fmt: skip


def _draw_ceiling(axes: Axes, ceiling: Record, slopes: list[Record], high: float) -> None:
    steepest = max((s["burst"] for s in slopes), default=None)
    start = ceiling["burst"] / steepest if steepest else axes.get_xlim()[0]
    color = LIGHT.formats[style_of(ceiling)[0]]
    axes.plot([start, high], [ceiling["burst"]] * 2, color=color, lw=1.4, zorder=1)
    told = f"{ceiling['label']}, {words.flop_per_s(ceiling['burst'])}"
    axes.annotate(
        told, (high, ceiling["burst"]), xytext=(-4, 4), textcoords="offset points", ha="right", color=color, fontsize=8
    )


def _draw_sweep(axes: Axes, sweep: Record) -> None:
    points = measured(sweep["points"])
    xs, ys = [p["intensity"] for p in points], [p["achieved_flop_per_s"] for p in points]
    axes.plot(xs, ys, color=LIGHT.muted, lw=0.9, zorder=2, label=_sweep_text(sweep))


def _sweep_text(sweep: Record) -> str:
    gap = sweep["largest_gap"]
    told = f"one product {sweep['n']} × {sweep['k']} over batches"
    return f"{told}: at least {words.percent(gap['fraction_of_attainable'])} of the roof" if gap else told


def _draw_parts(axes: Axes, points: list[Record]) -> None:
    names = list(dict.fromkeys(point["part"] for point in points))
    for part, color, marker in zip(names, cycle(COLORS), cycle(MARKERS)):
        own = [point for point in points if point["part"] == part]
        xs, ys = [p["intensity"] for p in own], [p["achieved_flop_per_s"] for p in own]
        line = "" if part == "attention" else "-"
        axes.plot(
            xs, ys, line or "none", color=color, marker=marker, ms=5, lw=0.8, alpha=0.9, zorder=3, label=_part_text(own),
            gid=f"part-{part.replace(' ', '_')}",
        )  # fmt: skip
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7.5, frameon=False, labelcolor=LIGHT.ink)


def _part_text(own: list[Record]) -> str:
    shares = [p["fraction_of_attainable"] for p in own if p["fraction_of_attainable"] is not None]
    if not shares:
        return str(own[0]["part"])
    low, high = words.percent(min(shares)), words.percent(max(shares))
    return f"{own[0]['part']}: {low if low == high else f'{low} to {high}'} of its roof"


# ---- tokens per second


def _draw_tokens(axes: Axes, model: Record) -> None:
    _dress(axes, "Tokens per second: measured kernels, and by the roof (thin)")
    axes.set(xscale="log", yscale="log", xlabel="batch (sequences, one token each)", ylabel="tokens/s")
    sequences = sorted({step["sequence"] for step in model["steps"]})
    for sequence, dash, color in zip(sequences, cycle(SEQUENCE_DASHES), cycle(COLORS)):
        _draw_sequence(axes, [s for s in model["steps"] if s["sequence"] == sequence], dash, color)
    batches = sorted({step["batch"] for step in model["steps"]})
    axes.set_xticks(batches, [str(batch) for batch in batches])
    axes.set_xticks([], minor=True)
    axes.legend(loc="upper left", fontsize=8, frameon=False, labelcolor=LIGHT.ink)


def _draw_sequence(axes: Axes, steps: list[Record], dash: Any, color: str) -> None:
    by_roof = [s for s in steps if s["attainable_tokens_per_s"]]
    taken = [s for s in steps if s["tokens_per_s"]]
    xs = [s["batch"] for s in by_roof]
    axes.plot(xs, [s["attainable_tokens_per_s"] for s in by_roof], color=color, ls=dash, lw=0.8, alpha=0.7)
    label = f"S = {steps[0]['sequence']}"
    xs = [s["batch"] for s in taken]
    axes.plot(xs, [s["tokens_per_s"] for s in taken], color=color, ls=dash, lw=1.6, label=label)
    for step in taken:
        face = color if step["fits"] is not False else LIGHT.paper
        axes.plot(step["batch"], step["tokens_per_s"], "o", color=color, mfc=face, ms=6)
    if any(s["fits"] is False for s in taken):
        axes.plot([], [], "o", color=color, mfc=LIGHT.paper, label=f"{label}: more memory than this card has")


# ---- axes


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10, color=LIGHT.ink)
    axes.set_facecolor(LIGHT.paper)
    axes.grid(True, which="major", color=LIGHT.grid, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=LIGHT.ink, labelsize=8)


def _limits(values: list[float], low: float, high: float) -> tuple[float, float]:
    """From below the smallest to above the largest; `low` to `high` where there are none."""
    return (min(values) * ROOM_BELOW, max(values) * ROOM_ABOVE) if values else (low, high)

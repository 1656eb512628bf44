"""What both halves of the chart share: the panel, its axes, the marker of a point, where points stand side by side."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rooflab.draw.labels import Placer
from rooflab.look.style import SLOPE_DASHES, Look, Record, format_of, in_order, style_of

SLOT = 10**0.14  # factor on x between two formats of one intensity
HBM_SUFFIX = "-hbm"  # the points whose K and V are sized for memory, beyond any cache
FEW_DECADES = 3e2
NO_LIMITS = (1e9, 1e14)
STEP = 10**0.015  # factor on x between two S of one format


@dataclass(frozen=True)
class Panel:
    """One pair of axes, how it looks, and who keeps its texts apart."""

    axes: Axes
    look: Look
    placer: Placer


def of_side(entries: Iterable[Record], side: str) -> list[Record]:
    """The entries of the GPU or of the CPU."""
    return [entry for entry in entries if entry["side"] == side]


def of_kind(ceilings: Iterable[Record], kind: str) -> list[Record]:
    """The compute or the memory ceilings."""
    return [ceiling for ceiling in ceilings if ceiling["kind"] == kind]


def burst(ceiling: Record) -> float:
    """The measured rate that draws the line."""
    return float(ceiling["burst"])


def by_tier(memory: list[Record]) -> list[list[Record]]:
    """The memory ceilings in groups of one tier, the fastest tier first."""
    fastest = {c["tier"]: max(o["burst"] for o in memory if o["tier"] == c["tier"]) for c in memory}
    order = list(SLOPE_DASHES)
    ordered = sorted(memory, key=lambda c: (-fastest[c["tier"]], str(c["tier"]), order.index(c["pattern"])))
    return [list(group) for _, group in groupby(ordered, key=lambda c: c["tier"])]


def limits(values: Iterable[float], below: float, above: float) -> tuple[float, float]:
    """Axis limits that hold every value, with a factor to spare on either side; NO_LIMITS without values."""
    known = [value for value in values if value > 0]
    return (min(known) / below, max(known) * above) if known else NO_LIMITS


def mark(panel: Panel, point: Record, at: tuple[float, float], gid: str | None, size: float = 5) -> None:
    """The marker of one point: filled for the plotted lab point, hollow otherwise, ringed in red above its roof."""
    theme, color = panel.look.theme, panel.look.color(point)
    face = color if point["lab_point"] else theme.paper
    panel.axes.plot(*at, style_of(point)[1], color=face, markeredgecolor=color, markeredgewidth=0.9, markersize=size,
                    zorder=5, gid=gid)  # fmt: skip
    panel.placer.avoid(panel.axes, *at)
    if point["above_roof"]:
        panel.axes.plot(*at, "o", mfc="none", mec=theme.alarm, markeredgewidth=1.4, markersize=2.2 * size, zorder=5)


def fan_out(points: list[Record]) -> dict[str, float]:
    """The x of each point by id: points of one intensity stand side by side, by format and then by S."""
    places: dict[str, float] = {}
    for intensity, same in groupby(sorted(points, key=lambda p: p["intensity"]), key=lambda p: p["intensity"]):
        twins = list(same)
        formats = in_order(twins)
        lengths = sorted({p["sequence"] or 0 for p in twins})
        for point in twins:
            slot = formats.index(format_of(point)) - (len(formats) - 1) / 2
            step = lengths.index(point["sequence"] or 0) - (len(lengths) - 1) / 2
            width = min(1.0, 8 / len(lengths))  # a long sweep keeps to its slot
            places[point["id"]] = intensity * SLOT**slot * STEP ** (step * width)
    return places


def runs(decode: list[Record]) -> list[list[Record]]:
    """The points of one model, implementation, launch and format, in order of S."""

    def kind(point: Record) -> tuple[str, ...]:
        fields = (point[field] for field in ("implementation", "launch", "timing", "cache"))
        return (model_of(point), format_of(point), *map(str, fields))

    return [list(group) for _, group in groupby(sorted(decode, key=lambda p: (kind(p), p["sequence"])), key=kind)]


def model_of(point: Record) -> str:
    """The model whose attention a decode point is: `minigpt` in minigpt-fp16-S128."""
    return str(point["name"]).partition(f"-{point['dtype']}")[0]


def memory_sized(point: Record) -> bool:
    """Whether the point's K and V were sized for memory."""
    return str(point["name"]).endswith(HBM_SUFFIX)


def fraction_of_peak(point: Record) -> float | None:
    """A GEMM's fraction of its own ceiling; a decode point's of the fp16 peak, where one was measured."""
    if point["operator"] == "decode_attention" and point["fraction_of_fp16_peak"] is not None:
        return float(point["fraction_of_fp16_peak"])
    return None if point["fraction_of_ceiling"] is None else float(point["fraction_of_ceiling"])


def fraction_text(look: Look, point: Record) -> str:
    """The fraction of peak as people read it."""
    fraction = fraction_of_peak(point)
    return look.say("chart.no_ceiling") if fraction is None else look.number(fraction, "percent")


def peak_text(look: Look, decode: list[Record]) -> str:
    """The peak that the percentages of the decode points refer to."""
    known = any(p["fraction_of_fp16_peak"] is not None for p in decode)
    return look.say("chart.peak.fp16" if known else "chart.peak.own")


def frame(panel: Panel, x_limits: tuple[float, float], y_limits: tuple[float, float], compute: list[Record]) -> None:
    """Log-log axes; y in TFLOP/s, or in GFLOP/s where no ceiling reaches 1 TFLOP/s."""
    axes, look = panel.axes, panel.look
    factor, unit = (1e9, "GFLOP/s") if max((c["burst"] for c in compute), default=1e12) < 1e12 else (1e12, "TFLOP/s")
    axes.set(xscale="log", yscale="log", xlim=x_limits, ylim=y_limits)
    axes.set_xlabel(look.say("chart.axis.intensity"), fontsize=9)
    axes.set_ylabel(look.say("chart.axis.achieved", unit=unit), fontsize=9)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: look.number(value, "significant")))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: look.number(value / factor, "significant")))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    dress(panel)


def tick_finely(panel: Panel) -> None:
    """Ticks at 1, 2 and 5 on a logarithmic axis that spans little."""
    for axis in (panel.axes.xaxis, panel.axes.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and high / low < FEW_DECADES:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def dress(panel: Panel) -> None:
    """Paper, ink, grid of the theme, and ticks enough to read a value."""
    tick_finely(panel)
    axes, theme = panel.axes, panel.look.theme
    axes.set_facecolor(theme.paper)
    axes.tick_params(labelsize=8, colors=theme.ink, which="both")
    axes.xaxis.label.set_color(theme.ink)
    axes.yaxis.label.set_color(theme.ink)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.ink)
    axes.grid(True, which="major", color=theme.grid, linewidth=0.5)
    axes.set_axisbelow(True)

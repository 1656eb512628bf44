"""What the panels share: axes and their dress, a marker at its true place, its ring, a panel's question."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from rooflab.draw.labels import Placer
from rooflab.look.style import Look, Record, style_of

SMALLEST = 8.5  # points, of any text of the picture
TEXT, NOTE = 9.5, 8.7
HALVES = ("left", "right", "top", "bottom")  # of a marker that formats of one place share


@dataclass(frozen=True)
class Panel:
    """One pair of axes, how it looks, and who keeps its texts apart."""

    axes: Axes
    look: Look
    placer: Placer


def head(panel: Panel, letter: str, text: str, left: float, bottom: float) -> None:
    """A panel's letter and its question; `left` and `bottom` as shares of the figure."""
    figure, ink = panel.placer.figure, panel.look.theme.ink
    figure.text(left, bottom, letter, fontsize=12.5, weight="bold", color=ink)
    figure.text(left + 0.0145, bottom, text, fontsize=12.5, color=ink)


def dress(panel: Panel) -> None:
    """Paper, ink and grid of the theme; no frame but the two axes."""
    axes, theme = panel.axes, panel.look.theme
    axes.set_facecolor("none")
    axes.tick_params(length=0, labelsize=9, colors=theme.muted, which="both")
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=theme.ink, fontsize=TEXT)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(theme.muted)
    axes.grid(True, color=theme.grid, linewidth=0.8)
    axes.set_axisbelow(True)


def ticks(panel: Panel, axis: str, places: Iterable[float], unit: str) -> None:
    """Ticks of an axis at these places, written with their unit, and none between."""
    own = getattr(panel.axes, f"{axis}axis")
    own.set_major_locator(FixedLocator(list(places)))
    own.set_minor_locator(NullLocator())
    own.set_minor_formatter(NullFormatter())
    own.set_major_formatter(FuncFormatter(lambda value, _: panel.look.number(value, unit)))


def limits(values: Iterable[float], below: float, above: float, default: tuple[float, float]) -> tuple[float, float]:
    """Axis limits that hold every value, with a factor to spare on either side; `default` without values."""
    known = [value for value in values if value > 0]
    return (min(known) / below, max(known) * above) if known else default


def decades(low: float, high: float, step: int = 1) -> list[float]:
    """The powers of ten between two limits, each `step`-th."""
    return [10.0**e for e in range(-12, 18, step) if low <= 10.0**e <= high]


def mark(
    panel: Panel, point: Record, at: tuple[float, float], half: str = "full", hollow: bool = False, size: float = 6.5,
    gid: str | None = None,
) -> None:  # fmt: skip
    """The marker of one point at its true place; `half`: the part of a marker that others share the place with."""
    axes, theme, color = panel.axes, panel.look.theme, panel.look.color(point)
    whole = half == "full"
    shape = style_of(point)[1] if whole else "o"
    extra: dict[str, Any] = {} if whole else {"fillstyle": half, "markerfacecoloralt": "none"}
    axes.plot(*at, shape, color=color, markeredgewidth=0, markersize=size + (0 if whole else 1), linestyle="none", zorder=6,
              gid=gid, **extra)  # fmt: skip
    if hollow:
        axes.plot(*at, shape, color=theme.paper, markeredgewidth=0, markersize=size - 2.8, linestyle="none", zorder=6.5)
    panel.placer.avoid(axes, *at, radius=0.75 * size * panel.placer.figure.dpi / 72)
    if point["above_roof"]:
        axes.plot(*at, "o", mfc="none", mec=theme.alarm, markeredgewidth=1.5, markersize=2.1 * size, zorder=7)


def halves(points: list[Record]) -> dict[str, str]:
    """The part of a marker for each point by id: whole, or a half where formats share an intensity."""
    columns: dict[float, list[str]] = {}
    for point in points:
        own = columns.setdefault(point["intensity"], [])
        if point["dtype"] not in own:
            own.append(point["dtype"])
    parts = {}
    for point in points:
        own = columns[point["intensity"]]
        index = own.index(point["dtype"])
        parts[point["id"]] = HALVES[index] if len(own) > 1 and index < len(HALVES) else "full"
    return parts

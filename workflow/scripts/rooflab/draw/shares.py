"""Panel B: what the chip delivers of its data sheet, ceiling by ceiling; without a data sheet, of its own best burst.

Right of a ceiling stands what is lacking to 100 %, in two parts where the clock inside the burst was measured: what the
issue rate at that clock leaves unused, and what the clock lacks to the one the data sheet assumes.
"""

from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import Bbox

from rooflab.draw.panel import NOTE, SMALLEST, TEXT, Panel, dress, ticks
from rooflab.draw.shown import Shown
from rooflab.look.style import Record, format_of, short_name

MOST_ROWS = 12
TALL, TALLEST = 0.46, 0.012  # the parts that are lacking: of a row's height, at most of the figure's
USE_ALPHA, LACK_ALPHA = 0.45, 0.35
TICKS = 0.1
LEGEND_COLUMNS = (6, 5, 4, 3, 2)


@dataclass(frozen=True)
class Row:
    """One ceiling as shares of its data sheet's figure, or of itself."""

    ceiling: Record
    product: Record | None
    share: float
    sustained: float | None
    gemm: float | None
    clock: float | None
    lab: bool


def rows_of(shown: Shown) -> tuple[list[Row], bool]:
    """The rows, the highest ceiling first, and whether they are shares of a data sheet."""
    named = {c["id"] for c in shown.named}
    kept = sorted(shown.compute, key=lambda c: (c["id"] not in named, -c["burst"]))[:MOST_ROWS]
    kept.sort(key=lambda c: (c["id"] not in named, -c["burst"]))
    rated = [c for c in kept if c["fraction_of_vendor"] is not None]
    return [_row(c, shown, bool(rated), c["id"] in named) for c in kept], bool(rated)


def _row(ceiling: Record, shown: Shown, rated: bool, lab: bool) -> Row:
    product = next((p for p in shown.products if p["lab_point"] and format_of(p) == format_of(ceiling)), None)
    share = (ceiling["fraction_of_vendor"] if rated else 1.0) or 0.0
    scale = share / ceiling["burst"]
    clock = (ceiling.get("clock") or {}).get("factor") if rated else None
    return Row(ceiling, product, share, ceiling["sustained"] * scale if ceiling["sustained"] else None,
               product["achieved_flop_per_s"] * scale if product else None, clock, lab)  # fmt: skip


def draw_shares(panel: Panel, shown: Shown, answer: Record, area: Bbox) -> None:
    """The rows, the range that is expected, and below them what the signs mean. `area`: the panel, in the figure's shares."""
    rows, rated = rows_of(shown)
    if not rows:
        panel.axes.set_axis_off()
        middle = (area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2
        panel.placer.figure.text(
            *middle, panel.look.say("chart.shares.none"), ha="center", color=panel.look.theme.muted, fontsize=TEXT
        )
        return
    place(panel, rows, area, rated)
    shares = [v for r in rows for v in (r.share, r.sustained, r.gemm, r.clock) if v]
    low, high = floor(min(shares) / TICKS - 0.2) * TICKS, max(1.0, ceil(max(shares) / TICKS - 0.3) * TICKS)
    panel.axes.set(xlim=(max(low, 0), high * 1.004), ylim=(len(rows) - 0.45, -1.0 if rated else -0.6))
    step = TICKS * ceil((high - low) / TICKS / 4)
    ticks(panel, "x", [high - step * i for i in range(8) if high - step * i >= max(low, 0) - 1e-9], "exact_percent")
    panel.axes.axvline(1, color=panel.look.theme.ink, linewidth=1)
    if rated:
        shade(panel, answer)
    for y, row in enumerate(rows):
        draw_row(panel, row, y, rated)
    dress(panel)
    panel.axes.grid(False, axis="y")
    panel.axes.spines["left"].set_visible(False)
    panel.axes.set_yticks([])
    explain(panel, rows, area, shown.side)


def place(panel: Panel, rows: list[Row], area: Bbox, rated: bool) -> None:
    """Writes each row's name and rate in columns as wide as they need, and gives the axes what lies between."""
    figure, look = panel.placer.figure, panel.look
    height, columns = (area.y1 - area.y0) / (len(rows) + (0.55 if rated else 0.15)), []
    for words in ([short_name(look, r.ceiling) for r in rows], [told(panel, r) for r in rows]):
        columns.append(
            [figure.text(0, 0, text, va="center", **_style(panel, row)) for text, row in zip(words, rows, strict=True)]
        )
    widths = [max(t.get_window_extent(panel.placer.renderer).width for t in own) / figure.bbox.width for own in columns]
    left, right = area.x0 + widths[0] + 0.008, area.x1 - widths[1] - 0.008
    panel.axes.set_position((left, area.y0, right - left, area.y1 - area.y0))
    for index in range(len(rows)):
        y = area.y0 + height * (len(rows) - 0.45 - index)
        columns[0][index].set(position=(left - 0.006, y), ha="right")
        columns[1][index].set(position=(right + 0.008, y), ha="left")


def _style(panel: Panel, row: Row) -> dict[str, Any]:
    strong = row.lab
    color = panel.look.color(row.ceiling) if strong else panel.look.theme.muted
    return {"color": color, "weight": "bold" if strong else "normal", "fontsize": NOTE if strong else SMALLEST}


def told(panel: Panel, row: Row) -> str:
    """A ceiling's rate, and its share of the data sheet where there is one."""
    rate, share = panel.look.number(row.ceiling["burst"], "flop_per_s"), row.ceiling["fraction_of_vendor"]
    return rate if share is None else f"{rate} · {panel.look.number(share, 'percent')}"


def shade(panel: Panel, answer: Record) -> None:
    """The range of the data sheet that is expected of a matrix product."""
    low, high = answer["expected_low"], answer["expected_high"]
    panel.axes.axvspan(low, high, color=panel.look.theme.band, zorder=0, linewidth=0)
    left, right = panel.axes.get_xlim()
    text = panel.look.say("chart.shares.expected", range=(low, high))
    note = panel.axes.text(
        (low + high) / 2, -0.72, text, fontsize=SMALLEST, color=panel.look.theme.band_ink, ha="center", va="center"
    )
    box, inside = note.get_window_extent(panel.placer.renderer), panel.axes.get_window_extent(panel.placer.renderer)
    if box.x0 < inside.x0 or box.x1 > inside.x1:
        note.set(position=((left + right) / 2, -0.72))


def draw_row(panel: Panel, row: Row, y: int, rated: bool) -> None:
    """One ceiling: its tick, the sustained rate, the product, and what is lacking to 100 %."""
    axes, theme, color = panel.axes, panel.look.theme, _style(panel, row)["color"]
    if rated and row.ceiling["fraction_of_vendor"] is None:
        return
    if rated:
        draw_lack(panel, row, y, color)
    if row.sustained:
        axes.plot((row.sustained, row.share), (y, y), color=color, linewidth=1.2, alpha=0.8)
        axes.plot(row.sustained, y, "o", mfc=theme.paper, mec=color, markersize=6, markeredgewidth=1.4, zorder=5)
    named = row.ceiling["id"] in {line.get_gid() for each in panel.placer.figure.axes for line in each.lines}
    axes.plot(row.share, y, "|", color=color, markersize=12, markeredgewidth=2.6, zorder=5,
              gid=f"share:{row.ceiling['id']}" if named else row.ceiling["id"])  # fmt: skip
    if row.ceiling.get("impossible"):
        axes.plot(row.share, y, "o", mfc="none", mec=theme.alarm, markersize=13, markeredgewidth=1.5, zorder=7)
    if row.gemm and row.product:
        axes.plot(row.gemm, y, "D", color=color, mec=theme.paper, markersize=5.5, markeredgewidth=0.7, zorder=6,
                  gid=f"share:{row.product['id']}")  # fmt: skip
        if row.product["above_roof"]:
            axes.plot(row.gemm, y, "o", mfc="none", mec=theme.alarm, markersize=12, markeredgewidth=1.5, zorder=7)


def draw_lack(panel: Panel, row: Row, y: int, color: str) -> None:
    """From the ceiling to 100 %: the issue rate left unused, then the clock; in one part where no clock was measured."""
    theme, (low, high) = panel.look.theme, panel.axes.get_ylim()
    tall = min(TALL, TALLEST * (low - high) / panel.axes.get_position().height)
    bottom = y - tall / 2
    if row.clock is None:
        parts: list[tuple[float, float, str, str | None]] = [(row.share, 1.0, theme.pale, None)]
    else:
        parts = [(row.share, row.clock, color, None), (row.clock, 1.0, theme.paper, "////")]
    for start, end, face, hatch in [part for part in parts if part[0] < part[1]]:
        alpha = None if hatch else USE_ALPHA if face == color else LACK_ALPHA
        panel.axes.add_patch(Rectangle((start, bottom), end - start, tall, facecolor=face, edgecolor=theme.pale, hatch=hatch,
                                       alpha=alpha, linewidth=0.4, zorder=2))  # fmt: skip


def explain(panel: Panel, rows: list[Row], area: Bbox, side: str) -> None:
    """The signs in one legend, as wide as the panel, below the axis."""
    theme, say = panel.look.theme, panel.look.say
    muted = theme.muted
    signs: list[Any] = [Line2D([], [], marker="|", color=muted, linestyle="none", markersize=10, markeredgewidth=2.6,
                               label=say("chart.shares.burst"))]  # fmt: skip
    if any(r.gemm for r in rows):
        signs.append(
            Line2D([], [], marker="D", color=muted, linestyle="none", markersize=5.5, label=say("chart.shares.gemm"))
        )
    if any(r.sustained for r in rows):
        signs.append(
            Line2D(
                [],
                [],
                marker="o",
                mfc=theme.paper,
                mec=muted,
                linestyle="none",
                markersize=6,
                label=say("chart.shares.load"),
            )
        )
    if any(r.clock is not None for r in rows):
        signs.append(Patch(facecolor=muted, alpha=USE_ALPHA, label=say("chart.shares.use")))
        signs.append(
            Patch(
                facecolor=theme.paper,
                edgecolor=theme.pale,
                hatch="////",
                linewidth=0.4,
                label=say("chart.shares.clock"),
            )
        )
    if any(r.clock is None and r.ceiling["fraction_of_vendor"] is not None for r in rows):
        signs.append(Patch(facecolor=theme.pale, alpha=LACK_ALPHA, label=say("chart.shares.lack")))
    figure = panel.placer.figure
    for columns in LEGEND_COLUMNS:
        legend = figure.legend(handles=signs, loc="upper left", bbox_to_anchor=(area.x0, area.y0 - 0.032), ncol=columns, frameon=False,
                               fontsize=SMALLEST, labelcolor=muted, handletextpad=0.4, columnspacing=1.2, borderpad=0,
                               handlelength=1.3)  # fmt: skip
        if (
            columns <= len(signs)
            and legend.get_window_extent(panel.placer.renderer).width <= (area.x1 - area.x0) * figure.bbox.width
        ):
            return
        legend.remove()
    figure.legends[:] = figure.legends[-1:]

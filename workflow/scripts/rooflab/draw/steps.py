"""Panel C: how long one decode step takes over S: chain of calls, from Python, in a graph, an empty launch, memory alone."""

from matplotlib.transforms import Bbox

from rooflab.draw.panel import NOTE, TEXT, Panel, decades, dress, limits, ticks
from rooflab.draw.shown import Shown
from rooflab.look.style import Record, ceiling_name, short_name, style_of

CHAIN = ("cupy_chain", "python", "sync_each")
GRAPH = (None, "graph", "graph")
MOST_TICKS = 4
FEW_DECADES = 3


def draw_steps(panel: Panel, shown: Shown, area: Bbox) -> None:
    """Every way of a step that the picture speaks of, named at the right end of its line. `area` in the figure's shares."""
    if not shown.steps or shown.leading is None:
        panel.axes.set_axis_off()
        middle = (area.x0 + area.x1) / 2, (area.y0 + area.y1) / 2
        panel.placer.figure.text(
            *middle, panel.look.say("chart.steps.none"), ha="center", color=panel.look.theme.muted, fontsize=TEXT
        )
        return
    leading = shown.steps_in(shown.leading)
    chain = [] if leading[0]["implementation"] == CHAIN[0] else shown.way(shown.leading, *CHAIN)
    bound = [(p["sequence"], p["bytes"] / shown.slope["burst"]) for p in leading] if shown.slope else []
    floors = [floor for p in shown.steps if (floor := p.get("launch_floor_s"))]
    rows = [
        *draw_chain(panel, chain, shown),
        *draw_ways(panel, shown),
        *draw_floor(panel, floors, shown.side),
        *draw_bound(panel, bound, shown),
    ]
    frame(panel, shown, [y for _, y in bound] + floors + [p["p90_s"] for p in chain])
    panel.axes.set_xlabel(panel.look.say("chart.axis.sequence"))
    dress(panel)
    panel.placer.rows(panel.axes, area.x1 - panel.axes.get_position().x1, rows)


def frame(panel: Panel, shown: Shown, more: list[float]) -> None:
    """Logarithmic axes that hold every line, ticked at the S that were measured."""
    drawn = [p["median_s"] for name in shown.step_formats for p in (*shown.steps_in(name), *shown.way(name, *GRAPH))]
    lengths = sorted({p["sequence"] for p in shown.steps})
    y = limits([*drawn, *more], 1.7, 1.9, (1e-7, 1e-3))
    panel.axes.set(xscale="log", yscale="log", xlim=(lengths[0] / 1.22, lengths[-1] * 1.22), ylim=y)
    ticks(panel, "x", spaced(lengths), "exact")
    found = decades(*y)
    if len(found) < FEW_DECADES:
        fine = [digit * power for power in decades(y[0] / 10, y[1]) for digit in (1, 2, 5)]
        found = [value for value in fine if y[0] <= value <= y[1]]
    ticks(panel, "y", found, "tick_seconds")


def spaced(lengths: list[int]) -> list[int]:
    """The S whose ticks have room beside each other, the longest among them."""
    kept = lengths[-1:]
    for length in reversed(lengths):
        if length < kept[0] and kept[0] / length >= (lengths[-1] / lengths[0]) ** (1 / MOST_TICKS):
            kept.insert(0, length)
    return kept


Rows = list[tuple[float, str, dict[str, object]]]


def draw_chain(panel: Panel, chain: list[Record], shown: Shown) -> Rows:
    """The step as separate CuPy calls: its median and the band from the 10th to the 90th percentile."""
    if not chain:
        return []
    axes, theme, xs = panel.axes, panel.look.theme, [p["sequence"] for p in chain]
    axes.fill_between(xs, [p["p10_s"] for p in chain], [p["p90_s"] for p in chain], color=theme.grid, linewidth=0)
    axes.plot(xs, [p["median_s"] for p in chain], color=theme.muted, linewidth=1.2)
    text = panel.look.say("chart.chain", dtype=short_name(panel.look, chain[0]))
    return [(chain[-1]["median_s"], text, {"color": theme.muted, "fontsize": NOTE})]


def draw_ways(panel: Panel, shown: Shown) -> Rows:
    """The lab's steps filled, their graphs hollow, a line for each format."""
    axes, look, rows = panel.axes, panel.look, []
    for way in ("python", "graph"):
        last: list[float] = []
        for name in shown.step_formats:
            own = shown.steps_in(name) if way == "python" else shown.way(name, *GRAPH)
            if own:
                color, face = look.color(own[0]), look.theme.paper if way == "graph" else look.color(own[0])
                size = 5 if len(own) <= 2 * MOST_TICKS else 3
                axes.plot([p["sequence"] for p in own], [p["median_s"] for p in own], style_of(own[0])[1], linestyle="-", color=color,
                          mfc=face, mec=color, markeredgewidth=1, markersize=size, linewidth=0.8, gid=f"step:{own[-1]['id']}")  # fmt: skip
                for point in (p for p in own if p["above_roof"]):
                    axes.plot(
                        point["sequence"],
                        point["median_s"],
                        "o",
                        mfc="none",
                        mec=look.theme.alarm,
                        markersize=11,
                        markeredgewidth=1.4,
                    )
                last.append(own[-1]["median_s"])
        if last:
            key = f"chart.way.{'graph' if way == 'graph' else shown.steps[0]['implementation'].split('.')[0]}"
            rows.append((sorted(last)[len(last) // 2], look.say(key), {"color": look.theme.ink, "fontsize": NOTE}))
    return rows


def draw_floor(panel: Panel, floors: list[float], side: str) -> Rows:
    """An empty launch as the programs of the steps found it: a level, as thick as it differs between them."""
    if not floors:
        return []
    theme, ends = panel.look.theme, (min(floors), max(floors))
    panel.axes.axhspan(*ends, color=theme.shade, zorder=0, linewidth=0)
    for floor in dict.fromkeys(ends):
        panel.axes.axhline(floor, color=theme.ink, linewidth=0.9, linestyle=(0, (3, 2)))
    text = panel.look.say(f"chart.floor.{side}", floor=ends)
    return [((ends[0] * ends[1]) ** 0.5, text, {"color": theme.ink, "fontsize": NOTE})]


def draw_bound(panel: Panel, bound: list[tuple[int, float]], shown: Shown) -> Rows:
    """What reading K and V once takes at the bold slope of panel A."""
    if not bound or shown.slope is None or shown.leading is None:
        return []
    panel.axes.plot(*zip(*bound, strict=True), color=panel.look.theme.ink, linewidth=2)
    point = shown.steps_in(shown.leading)[0]
    text = panel.look.say(
        "chart.bound", slope=ceiling_name(panel.look, shown.slope), dtype=short_name(panel.look, point)
    )
    return [(bound[-1][1], text, {"color": panel.look.theme.ink, "fontsize": NOTE, "weight": "bold"})]

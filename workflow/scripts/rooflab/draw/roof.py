"""The roofline itself: memory slopes, compute ceilings, ridge points, and every operator point below them."""

from rooflab.draw.labels import BELOW, LEFT, RIGHT, around
from rooflab.draw.marks import Panel, burst, by_tier, fan_out, frame, limits, mark, of_kind, runs
from rooflab.draw.names import name_ceilings, name_decode, name_products, name_slopes
from rooflab.look.style import SLOPE_DASHES, Record, format_of, style_of

MAIN_FORMAT = "fp16"  # whose ridge point is written on the chart, as the lab asks; else the highest ceiling's


def draw_roof(panel: Panel, mine: dict[str, list[Record]], others: list[Record], small: bool = False) -> None:
    """Every ceiling, slope, ridge and point of one side, and the other side's decode points in grey."""
    compute, memory = of_kind(mine["ceilings"], "compute"), of_kind(mine["ceilings"], "memory")
    points = mine["points"] + others
    heights = [c["burst"] for c in compute] + [p["achieved_flop_per_s"] for p in points]
    ridges = [r["intensity"] for r in mine["ridge_points"]]
    widths = [p["intensity"] for p in points] + ridges
    left = min([w / 2.5 for w in widths] + [r / 30 for r in ridges], default=0.2)
    frame(panel, (left, max(widths, default=1e3) * 2.5), limits(heights, 2, 2.2), compute)
    shade_tiers(panel, memory, max(heights, default=1e12))
    draw_slopes(panel, memory, max(heights, default=1e12))
    draw_ceilings(panel, compute, memory)
    draw_ridges(panel, mine["ridge_points"], compute, memory)
    decode = [p for p in mine["points"] if p["operator"] == "decode_attention"]
    draw_decode(panel, decode)
    products = [p for p in mine["points"] if p["operator"] != "decode_attention"]
    draw_products(panel, products)
    name_slopes(panel, memory, max(heights, default=1e12))
    name_ceilings(panel, compute, products, small)
    name_products(panel, products, small)
    name_decode(panel, decode, small)
    draw_muted(panel, others)


def shade_tiers(panel: Panel, memory: list[Record], top: float) -> None:
    """The region between the fastest slope of each tier and the next: only the faster tier reaches it."""
    fastest = [max(group, key=burst) for group in by_tier(memory)]
    left = panel.axes.get_xlim()[0]
    for fast, slow in zip(fastest, fastest[1:], strict=False):
        xs = (left, top / fast["burst"], top / slow["burst"])
        ys = [min(slow["burst"] * x, top) for x in xs]
        panel.axes.fill_between(
            xs, ys, [min(fast["burst"] * x, top) for x in xs], color=panel.look.theme.shade, zorder=0
        )


def draw_slopes(panel: Panel, memory: list[Record], top: float) -> None:
    """The memory slopes from the left edge up to the highest ceiling."""
    axes = panel.axes
    for slope in sorted(memory, key=lambda c: -c["burst"]):
        xs = (axes.get_xlim()[0], top / slope["burst"])
        ys = [slope["burst"] * x for x in xs]
        axes.plot(xs, ys, linestyle=SLOPE_DASHES.get(slope["pattern"], "-"), color=panel.look.theme.slope,
                  linewidth=1.6 if slope["pattern"] == "d2d" else 1, gid=slope["id"])  # fmt: skip


def draw_ceilings(panel: Panel, compute: list[Record], memory: list[Record]) -> None:
    """The compute ceilings from the fastest slope to the right edge; a bar there marks `sustained`."""
    axes = panel.axes
    fastest = max((c["burst"] for c in memory), default=None)
    right = axes.get_xlim()[1]
    for ceiling in compute:
        color, height = panel.look.color(ceiling), ceiling["burst"]
        left = height / fastest if fastest else axes.get_xlim()[0]
        axes.plot((left, right), (height, height), linestyle=style_of(ceiling)[2], color=color, linewidth=1.6,
                  gid=ceiling["id"])  # fmt: skip
        panel.placer.avoid_line(axes, (left, right), (height, height))
        if ceiling["sustained"]:
            bar = (right / 1.6, right), (ceiling["sustained"],) * 2
            axes.plot(*bar, "-", color=color, linewidth=3, alpha=0.75)
            panel.placer.avoid_line(axes, *bar, half=3)


def draw_ridges(panel: Panel, ridges: list[Record], compute: list[Record], memory: list[Record]) -> None:
    """Every ridge point as a diamond; the lab's own is dropped to the axis, with what is bound by what beside it."""
    axes, theme = panel.axes, panel.look.theme
    for ridge in ridges:
        axes.plot(ridge["intensity"], ridge["flop_per_s"], "d", color=theme.paper, markeredgecolor=theme.slope,
                  markeredgewidth=0.7, markersize=4, zorder=4)  # fmt: skip
        panel.placer.avoid(axes, ridge["intensity"], ridge["flop_per_s"])
    main = main_ridge(ridges, compute, memory)
    if main is None:
        return
    ceiling = next(c for c in compute if c["id"] == main["ceiling"])
    x, low = main["intensity"], axes.get_ylim()[0]
    axes.plot((x, x), (low, main["flop_per_s"]), ":", color=theme.muted, linewidth=0.9, zorder=1)
    panel.placer.avoid_line(axes, (x, x), (low, main["flop_per_s"]))
    look, put = panel.look, panel.placer.put
    text = look.say("chart.ridge.main", dtype=format_of(ceiling).replace("_", " "), intensity=x)
    put(axes, look.say("chart.memory_bound"), (x, low), ((-7, 13),), color=theme.muted, size=7)
    put(axes, look.say("chart.compute_bound"), (x, low), ((7, 13),), color=theme.muted, size=7)
    put(axes, text, (x, low), ((7, 26), (-7, 26)), color=theme.muted, size=7, leader=False)


def main_ridge(ridges: list[Record], compute: list[Record], memory: list[Record]) -> Record | None:
    """The ridge point of fp16, else of the highest ceiling, on the copy slope, else on the fastest."""
    slopes = [c["id"] for c in sorted(memory, key=lambda c: (c["pattern"] != "d2d", -c["burst"]))]
    roofs = [c["id"] for c in sorted(compute, key=lambda c: (format_of(c) != MAIN_FORMAT, -c["burst"]))]
    known = [r for r in ridges if r["slope"] in slopes and r["ceiling"] in roofs]
    return min(known, key=lambda r: (roofs.index(r["ceiling"]), slopes.index(r["slope"])), default=None)


def draw_products(panel: Panel, products: list[Record]) -> None:
    """The matrix products and other operators, fanned out where they share an intensity."""
    places = fan_out(products)
    for point in products:
        mark(panel, point, (places[point["id"]], point["achieved_flop_per_s"]), point["id"], 5.5)


def draw_decode(panel: Panel, decode: list[Record]) -> None:
    """The decode points, S by S on a thin line for each way of computing and launching them."""
    places = fan_out(decode)
    for group in runs(decode):
        xs, ys = [places[p["id"]] for p in group], [p["achieved_flop_per_s"] for p in group]
        panel.axes.plot(xs, ys, "-", color=panel.look.color(group[0]), linewidth=0.5, alpha=0.8)
        panel.placer.avoid_line(panel.axes, xs, ys)
        for point, x, y in zip(group, xs, ys, strict=True):
            mark(panel, point, (x, y), point["id"], 3.6)


def draw_muted(panel: Panel, others: list[Record]) -> None:
    """The other side's decode points, one grey group for orientation."""
    color = panel.look.theme.muted
    for point in others:
        at = (point["intensity"], point["achieved_flop_per_s"])
        panel.axes.plot(*at, "+", color=color, markersize=5, gid=point["id"])
        panel.placer.avoid(panel.axes, *at, 3)
    if others:
        low = min(others, key=lambda p: p["achieved_flop_per_s"])
        text = panel.look.say("chart.decode.other_side", side=low["side"].upper())
        at = (low["intensity"], low["achieved_flop_per_s"])
        panel.placer.put(panel.axes, text, at, around(RIGHT, LEFT, BELOW), color=color)

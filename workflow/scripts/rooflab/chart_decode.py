"""The decode points on the chart: as groups on the whole roofline, one by one in the enlarged detail."""

from matplotlib.axes import Axes

from rooflab import words
from rooflab.chart_labels import ABOVE, BELOW, LEFT, RIGHT, Placer, around, column
from rooflab.chart_marks import (
    ALARM,
    MUTED,
    SLOPE_DASHES,
    SLOPE_GREY,
    STYLES,
    Record,
    columns,
    decode_groups,
    fraction_text,
    frame,
    group_text,
    limits,
    mark,
    of_kind,
    peak_name,
    roof_text,
)

ROOFS = ("d2d", "read", "triad")  # the slopes repeated in the detail


def draw_detail(axes: Axes, mine: dict[str, list[Record]], placer: Placer) -> None:
    """The decode points enlarged, each plotted lab point with its S and fraction of peak."""
    decode = [p for p in mine["points"] if p["operator"] == "decode_attention"]
    if not decode:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "decode attention: not measured", ha="center", transform=axes.transAxes)
        return
    places, memory = columns(decode), [c for c in of_kind(mine["ceilings"], "memory") if c["pattern"] in ROOFS]
    roofs = [c["burst"] * p["intensity"] for c in memory for p in decode]
    y_limits = limits([p["achieved_flop_per_s"] for p in decode] + roofs, 3, 2)
    frame(axes, (1, 10), y_limits, of_kind(mine["ceilings"], "compute"))
    name_columns(axes, decode)
    axes.set_title(f"decode attention: S and % of {peak_name(decode)} measured peak", fontsize=9)
    groups = decode_groups(decode)
    for group in groups:
        draw_decode(axes, group, places, placer)
    draw_roofs(axes, memory, decode, placer)
    draw_floors(axes, mine["floors"], decode, places, placer=placer)
    for group in groups:
        label_decode(axes, group, places, placer)


def name_columns(axes: Axes, decode: list[Record]) -> None:
    """A linear x axis with one named column for each dtype."""
    dtypes = [d for d in STYLES if any(p["dtype"] == d for p in decode)]
    intensity = {p["dtype"]: words.intensity(p["intensity"]) for p in decode}
    axes.set(xscale="linear", xlim=(-0.25, len(dtypes) + 0.1), xlabel="")
    axes.set_xticks([i + 0.1 for i in range(len(dtypes))], [f"{d}, {intensity[d]}" for d in dtypes])


def draw_roofs(axes: Axes, memory: list[Record], decode: list[Record], placer: Placer) -> None:
    """In each column the height of every memory slope at that dtype's intensity, named in the first one."""
    dtypes = [d for d in STYLES if any(p["dtype"] == d for p in decode)]
    for place, dtype in enumerate(dtypes):
        intensity = next(p["intensity"] for p in decode if p["dtype"] == dtype)
        for slope in sorted(memory, key=lambda c: -c["burst"]):
            xs, ys = (place - 0.12, place + 0.45), (slope["burst"] * intensity,) * 2
            axes.plot(xs, ys, SLOPE_DASHES.get(slope["pattern"], "-"), color=SLOPE_GREY, linewidth=0.9)
            placer.avoid_line(axes, xs, ys)
    for slope in sorted(memory, key=lambda c: -c["burst"]):
        end = (len(dtypes) - 0.55, slope["burst"] * intensity)
        placer.put(
            axes,
            f"{slope['tier']} {slope['pattern']}",
            end,
            tuple((8, 12 - dy) for dy in range(0, 90, 3)),
            color=SLOPE_GREY,
            size=6,
        )


def draw_decode(axes: Axes, group: list[Record], places: dict[str, float], placer: Placer, named: bool = False) -> None:
    """One implementation in one dtype: S = 128 … 1024 as markers on a thin line."""
    xs, ys = [places[p["id"]] for p in group], [p["achieved_flop_per_s"] for p in group]
    axes.plot(xs, ys, "-", color=STYLES[group[0]["dtype"]][0], linewidth=0.6)
    placer.avoid_line(axes, xs, ys)
    for point, x, y in zip(group, xs, ys, strict=True):
        mark(axes, point, x, named)
        placer.avoid(axes, x, y)


def label_decode(axes: Axes, group: list[Record], places: dict[str, float], placer: Placer) -> None:
    """S and fraction of peak beside each lab point; one line with the range for a rung of the ladder."""
    color = STYLES[group[0]["dtype"]][0]
    for point in group:
        at = (places[point["id"]], point["achieved_flop_per_s"])
        if point["lab_point"] or point["above_roof"]:
            text = f"{point['sequence']}: {fraction_text(point)}{roof_text(point)}"
            placer.put(axes, text, at, around(RIGHT, LEFT), color=ALARM if point["above_roof"] else color, size=6)
    last = group[-1]
    at = (places[last["id"]], last["achieved_flop_per_s"])
    placer.put(axes, group_text(group), at, column() + around(LEFT), color=color, size=5.5)


def draw_floors(axes: Axes, floors: list[Record], decode: list[Record], places: dict[str, float],
                placer: Placer | None = None, named: bool = False) -> None:  # fmt: skip
    """The launch floor: at each decode point's x, the rate that its FLOP over one empty launch would give."""
    for floor in floors:
        alike = [p for p in decode if (p["launch"], p["timing"]) == (floor["launch"], floor["timing"])]
        for row, dtype in enumerate(sorted({p["dtype"] for p in alike})):
            ticks = sorted({(places[p["id"]], p["flop"] / floor["median_s"]) for p in alike if p["dtype"] == dtype})
            axes.plot(*zip(*ticks, strict=True), ":", marker="_", color="black", linewidth=0.7, markersize=7,
                      gid=f"{floor['id']}-{dtype}" if named else None)  # fmt: skip
            if placer:
                placer.avoid_line(axes, *zip(*ticks, strict=True))
            if placer and row == 0 and ticks[-1][1] <= axes.get_ylim()[1]:
                text = f"launch floor {words.seconds(floor['median_s'])}\n({floor['launch']} launch)"
                placer.put(axes, text, ticks[-1], around(ABOVE, RIGHT, LEFT), size=5.5)


def draw_muted(axes: Axes, others: list[Record], placer: Placer) -> None:
    """The other side's decode points, one grey group for orientation."""
    for point in others:
        axes.plot(point["intensity"], point["achieved_flop_per_s"], "+", color=MUTED, markersize=5, gid=point["id"])
    if others:
        low = min(others, key=lambda p: p["achieved_flop_per_s"])
        text = f"{low['side'].upper()}: decode attention"
        placer.put(axes, text, (low["intensity"], low["achieved_flop_per_s"]), around(RIGHT, BELOW), color="#707070")

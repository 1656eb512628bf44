"""The roofline picture: from `roofline.json` to a figure. Coordinates are all that is computed here."""

from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from rooflab import words
from rooflab.chart_caption import caption_lines
from rooflab.chart_decode import draw_decode, draw_detail, draw_floors, draw_muted
from rooflab.chart_labels import ABOVE, BELOW, LEFT, RIGHT, Placer, around, column
from rooflab.chart_marks import (
    ALARM,
    SLOPE_DASHES,
    SLOPE_GREY,
    STYLES,
    Record,
    decode_groups,
    fan_out,
    fraction_text,
    frame,
    limits,
    mark,
    of_kind,
    of_side,
    roof_text,
)

SIZE_IN = (14.0, 9.4)
LINE_IN = 0.145


def draw(roofline: Record, title: str | None = None) -> Figure:
    """The whole figure: the roofline, the decode points enlarged beside it, the caption below."""
    figure = Figure(figsize=SIZE_IN, dpi=100)
    caption = caption_lines(roofline)
    bottom = (len(caption) * LINE_IN + 0.75) / SIZE_IN[1]
    whole = figure.add_axes((0.055, bottom, 0.43, 0.94 - bottom))
    detail = figure.add_axes((0.675, bottom, 0.315, 0.94 - bottom))
    side = roofline["main_side"]
    device = (roofline["devices"].get(side) or {}).get("name", roofline["session"])
    figure.text(0.055, 0.965, title or f"Measured roofline: {device}", fontsize=13, weight="bold")
    figure.text(0.055, 0.1 / SIZE_IN[1], "\n".join(caption), fontsize=7, va="bottom", linespacing=1.35)
    mine = {key: of_side(roofline[key], side) for key in ("ceilings", "floors", "points")}
    drawn = {c["id"] for c in mine["ceilings"]}
    mine["ridge_points"] = [r for r in roofline["ridge_points"] if r["ceiling"] in drawn]
    others = [p for p in roofline["points"] if p["side"] != side and p["operator"] == "decode_attention"]
    draw_whole(whole, mine, others, Placer(figure))
    draw_detail(detail, mine, Placer(figure))
    return figure


def draw_whole(axes: Axes, mine: dict[str, list[Record]], others: list[Record], placer: Placer) -> None:
    """The roofline itself: every ceiling, slope, ridge and point, and the other side's decode points in grey."""
    compute, memory = of_kind(mine["ceilings"], "compute"), of_kind(mine["ceilings"], "memory")
    points = mine["points"] + others
    heights = [c["burst"] for c in compute] + [p["achieved_flop_per_s"] for p in points]
    ridges = [r["intensity"] for r in mine["ridge_points"]]
    widths = [p["intensity"] for p in points] + ridges
    left = min(
        [w / 2.2 for w in widths] + [r / 30 for r in ridges], default=0.2
    )  # the slopes are named left of their ridge
    frame(axes, (left, max(widths, default=1e3) * 4), limits(heights, 2, 2.5), compute)
    draw_slopes(axes, memory, max(heights, default=1e12), placer)
    draw_ceilings(axes, compute, memory, placer)
    draw_ridges(axes, mine["ridge_points"], memory, placer)
    draw_gemms(axes, [p for p in mine["points"] if p["operator"] == "gemm"], placer)
    decode = [p for p in mine["points"] if p["operator"] == "decode_attention"]
    places = fan_out(decode)
    draw_floors(axes, mine["floors"], decode, places, named=True)
    for group in decode_groups(decode):
        draw_decode(axes, group, places, placer, named=True)
    if decode:
        top = max(decode, key=lambda p: p["achieved_flop_per_s"])
        at = (places[top["id"]], top["achieved_flop_per_s"])
        placer.put(axes, "decode attention\n(enlarged at the right)", at, around(RIGHT, ABOVE), size=7.5)
    draw_muted(axes, others, placer)


def draw_slopes(axes: Axes, memory: list[Record], top: float, placer: Placer) -> None:
    """The memory slopes up to the highest ceiling, named in the empty corner above them, each tied to its line."""
    ordered = sorted(memory, key=lambda c: -c["burst"])
    for row, slope in enumerate(ordered):
        xs = (axes.get_xlim()[0], top / slope["burst"])
        axes.plot(xs, [slope["burst"] * x for x in xs], SLOPE_DASHES.get(slope["pattern"], "-"), color=SLOPE_GREY,
                  linewidth=1.3, gid=slope["id"])  # fmt: skip
        y = top / 10 ** (0.12 + 0.2 * row)
        leftmost, own = y / ordered[0]["burst"], y / slope["burst"]
        axes.plot((leftmost / 1.12, own), (y, y), color=SLOPE_GREY, linewidth=0.4)
        axes.plot(own, y, ".", color=SLOPE_GREY, markersize=3)
        text = f"{slope['label']} {words.bytes_per_s(slope['burst'])}"
        placer.put(axes, text, (leftmost / 1.05, y), around(LEFT), color=SLOPE_GREY, size=7)


def draw_ceilings(axes: Axes, compute: list[Record], memory: list[Record], placer: Placer) -> None:
    """The compute ceilings from the fastest slope to the right edge, labelled there; a tick marks `sustained`."""
    fastest = max((c["burst"] for c in memory), default=None)
    box, right = axes.get_window_extent(), axes.get_xlim()[1]
    gutter = Bbox.from_extents(box.x1, box.y0, box.x1 + 0.142 * placer.figure.bbox.width, box.y1)
    for ceiling in sorted(compute, key=lambda c: -c["burst"]):
        color, _, dash = STYLES[ceiling["dtype"]]
        left = ceiling["burst"] / fastest if fastest else axes.get_xlim()[0]
        axes.plot((left, right), (ceiling["burst"],) * 2, dash, color=color, linewidth=1.5, gid=ceiling["id"])
        if ceiling["sustained"]:
            axes.plot((right / 1.5, right), (ceiling["sustained"],) * 2, "-", color=color, linewidth=2.6, alpha=0.7)
        placer.put(axes, ceiling_text(ceiling), (right, ceiling["burst"]), column(), gutter, color, 7)


def ceiling_text(ceiling: Record) -> str:
    """Name, measured value, fraction of the vendor's dense peak where known, and the sustained rate."""
    lines = [ceiling["label"], words.flop_per_s(ceiling["burst"])]
    if ceiling["fraction_of_vendor"] is not None:
        lines[1] += f", {words.percent(ceiling['fraction_of_vendor'])} of vendor"
    if ceiling["sustained"] is not None:
        lines.append(f"tick: sustained {words.flop_per_s(ceiling['sustained'])}")
    return "\n".join(lines)


def draw_ridges(axes: Axes, ridges: list[Record], memory: list[Record], placer: Placer) -> None:
    """Every ridge point as a small diamond; the intensity is written once for each ceiling, on the lab's own slope."""
    own_slope = next((c["id"] for c in memory if c["pattern"] == "d2d"), memory[0]["id"] if memory else None)
    said: set[str] = set()
    for ridge in ridges:
        axes.plot(ridge["intensity"], ridge["flop_per_s"], "d", color="white", markeredgecolor=SLOPE_GREY,
                  markeredgewidth=0.7, markersize=4, zorder=4)  # fmt: skip
        text = f"ridge {words.significant(ridge['intensity'])}"
        if ridge["slope"] == own_slope and text not in said:
            placer.put(axes, text, (ridge["intensity"], ridge["flop_per_s"]), around((1, -1), BELOW), color=SLOPE_GREY)
            said.add(text)


def draw_gemms(axes: Axes, gemms: list[Record], placer: Placer) -> None:
    """The matrix products, fanned out where they share an intensity, each with its fraction of its own ceiling."""
    placed = []
    for _, twins in groupby(sorted(gemms, key=lambda p: (p["intensity"], p["dtype"])), key=lambda p: p["intensity"]):
        for slot, point in enumerate(same := list(twins)):
            placed.append((point, point["intensity"] * 1.3 ** (slot - (len(same) - 1) / 2)))
    for point, x in placed:
        mark(axes, point, x, named=True)
        placer.avoid(axes, x, point["achieved_flop_per_s"])
    for point, x in placed:
        text = f"{point['dtype'].replace('_', ' ')} n={point['n']}: {fraction_text(point)}{roof_text(point)}"
        color = ALARM if point["above_roof"] else STYLES[point["dtype"]][0]
        placer.put(axes, text, (x, point["achieved_flop_per_s"]), around(BELOW, ABOVE, LEFT), color=color)

"""Panel A: where the points lie under the measured roof. Every point stands at its true place."""

from collections.abc import Sequence
from math import log10
from textwrap import fill
from typing import Any

from matplotlib.patches import Rectangle

from rooflab.draw.labels import ABOVE, BELOW, LEFT, LIFTS_PX, RIGHT, Place, around
from rooflab.draw.panel import NOTE, TEXT, Panel, decades, dress, limits, ticks
from rooflab.draw.points import draw_points, name_points
from rooflab.draw.shown import COPIES, Shown
from rooflab.look.style import Record, ceiling_name, format_of, short_name

FINE_DECADES = 4  # axes of fewer decades are ticked at powers of two
RIDGE_FORMATS = ("fp16", "bf16", "fp32")  # whose ridge point is named: the first one measured
BAND_WORDS = 17  # letters in a line of its name, where that stands above it
TEXTBOOK_RIGHT = 4.0  # FLOP/byte: how far right the textbook's band of decode is shaded
CPU_FORMAT = "fp32"
AT_THE_EDGE = tuple((-3.0, sign * distance) for distance in (17.0, 21.0, 26.0) for sign in (-1, 1))  # of a level
NO_X, NO_Y = (0.1, 1e4), (1e9, 1e15)


def draw_roof(panel: Panel, shown: Shown, host: Shown | None, roofline: Record, room: float) -> None:
    """Slopes, ceilings, ridge point and points of one side, and the host's roof below a GPU's.

    `room`: the width right of the axes for the ceilings' names, as a share of the figure's.
    """
    frame(panel, shown, host)
    answers = roofline["answers"]
    band = draw_textbook(panel, answers["decode"])
    lines = draw_slopes(panel, shown)
    draw_ceilings(panel, shown)
    draw_host(panel, host)
    draw_points(panel, shown, host)
    name_ceilings(panel, shown, room)
    name_slopes(panel, lines)
    name_points(panel, shown, host, answers)
    if host:
        name_host(panel, host, answers["cpu"])
    name_ridge(panel, shown)
    if band:
        text = panel.look.say("chart.textbook", range=band, peak=panel.look.say("format.fp16"))
        name_band(panel, text, answers["decode"])
    panel.axes.set_xlabel(panel.look.say("chart.axis.intensity"))
    dress(panel)


def frame(panel: Panel, shown: Shown, host: Shown | None) -> None:
    """Logarithmic axes that hold every ceiling and point of both sides."""
    sides = [shown, host] if host else [shown]
    points = [p for side in sides for p in (*side.gemms, *side.steps, *([side.large] if side.large else []))]
    heights = [c["burst"] for side in sides for c in side.named] + [p["achieved_flop_per_s"] for p in points]
    widths = [p["intensity"] for p in points]
    if shown.slope:
        widths += [c["burst"] / shown.slope["burst"] for c in shown.named]
    x, y = limits(widths, 3.4, 2.4, NO_X), limits(heights, 4, 2.2, NO_Y)
    panel.axes.set(xscale="log", yscale="log", xlim=x, ylim=y)
    step = 4 if log10(x[1] / x[0]) > FINE_DECADES else 2
    ticks(panel, "x", [v for v in (step**e for e in range(-6, 12)) if x[0] <= v <= x[1]], "exact")
    ticks(panel, "y", decades(*y), "tick_flop_per_s")


def line_of(panel: Panel, bandwidth: float, top: float) -> tuple[Place, Place]:
    """The ends of a slope inside the axes, up to the rate `top`."""
    left, low = panel.axes.get_xlim()[0], panel.axes.get_ylim()[0]
    start = max(left, low / bandwidth)
    return (start, start * bandwidth), (top / bandwidth, top)


def draw_slopes(panel: Panel, shown: Shown) -> list[tuple[Record, tuple[Place, Place]]]:
    """The slope that verdicts rest on bold, the copy thin and dashed, the cache's thin; each with the ends of its line."""
    theme, top = panel.look.theme, max((c["burst"] for c in shown.named), default=panel.axes.get_ylim()[1])
    looks: Sequence[tuple[Record | None, dict[str, Any]]] = ((shown.slope, {"color": theme.ink, "linewidth": 2.4}),
             (shown.copy, {"color": theme.muted, "linewidth": 1, "linestyle": (0, (4, 2))}),
             (shown.memory.get("l2"), {"color": theme.pale, "linewidth": 1}))  # fmt: skip
    drawn = []
    for slope, look in looks:
        if slope is not None:
            start, end = line_of(panel, slope["burst"], top)
            xs, ys = (start[0], end[0]), (start[1], end[1])
            panel.axes.plot(xs, ys, gid=slope["id"], **look)
            panel.placer.avoid_line(panel.axes, xs, ys)
            drawn.append((slope, (start, end)))
    return drawn


def draw_ceilings(panel: Panel, shown: Shown) -> None:
    """The compute ceilings, from the bold slope to the right edge."""
    left, right = panel.axes.get_xlim()
    for ceiling in shown.named:
        start = ceiling["burst"] / shown.slope["burst"] if shown.slope else left
        xs, ys = (start, right), (ceiling["burst"],) * 2
        panel.axes.plot(xs, ys, color=panel.look.color(ceiling), linewidth=2, gid=ceiling["id"])
        panel.placer.avoid_line(panel.axes, xs, ys)


def name_ceilings(panel: Panel, shown: Shown, room: float) -> None:
    """Each ceiling's format and rate at its right end."""
    look = panel.look
    rows = [(c["burst"], f"{short_name(look, c)}  {look.number(c['burst'], 'flop_per_s')}",
             {"color": look.color(c), "fontsize": TEXT, "weight": "bold"}) for c in shown.named]  # fmt: skip
    panel.placer.rows(panel.axes, room, rows)


def name_slopes(panel: Panel, lines: list[tuple[Record, tuple[Place, Place]]]) -> None:
    """The slopes' names along them, those of the cache and of the bold slope above their line, the copy's below."""
    look = panel.look
    for index, (slope, line) in enumerate(lines):
        short = slope["pattern"] in COPIES
        name = look.say(f"chart.copy.{slope['pattern']}", tier=slope["tier"]) if short else ceiling_name(look, slope)
        text = f"{name} {look.number(slope['burst'], 'bytes_per_s')}"
        style: dict[str, Any] = {"weight": "bold", "size": TEXT, "color": look.theme.ink} if index == 0 else \
            {"size": NOTE, "color": look.theme.muted}  # fmt: skip
        tries: list[tuple[bool, Sequence[float]]] = [(False, LIFTS_PX)]
        if not short:
            tries = [(True, LIFTS_PX[:1]), *tries, (True, LIFTS_PX)]
        any(panel.placer.along(panel.axes, text, *line, above=side, lifts=lifts, **style) for side, lifts in tries)


def draw_host(panel: Panel, host: Shown | None) -> None:
    """The host CPU's own roof: its read slope and its fp32 ceiling."""
    top = host and host_top(host)
    if not host or not host.slope or not top:
        return
    start, corner = line_of(panel, host.slope["burst"], top["burst"])
    right = panel.axes.get_xlim()[1]
    style: dict[str, Any] = {"color": panel.look.theme.pale, "linewidth": 1.6}
    panel.axes.plot(*zip(start, corner, strict=True), gid=host.slope["id"], **style)
    panel.axes.plot((corner[0], right), (top["burst"],) * 2, gid=top["id"], **style)
    panel.placer.avoid_line(panel.axes, (corner[0], right), (top["burst"],) * 2)


def host_top(host: Shown) -> Record | None:
    """The host's fp32 ceiling."""
    return next((c for c in host.compute if format_of(c) == CPU_FORMAT), None)


def name_host(panel: Panel, host: Shown, answer: Record) -> None:
    """The host's read bandwidth, how many times the GPU's is that, and its fp32 rate."""
    top, look = host_top(host), panel.look
    if not host.slope or not top:
        return
    right, corner = panel.axes.get_xlim()[1], top["burst"] / host.slope["burst"]
    facts, factor = (
        {"width": host.slope["burst"], "rate": top["burst"], "dtype": short_name(look, top)},
        answer.get("bandwidth_ratio_read"),
    )
    text = look.say("chart.host.factor", factor=factor, **facts) if factor else look.say("chart.host", **facts)
    spots = [((right, top["burst"]), AT_THE_EDGE)]
    spots += [
        ((corner * (right / corner) ** share, top["burst"]), around(BELOW, ABOVE)[:16]) for share in (0.6, 0.45, 0.3)
    ]
    style: dict[str, Any] = {"color": look.theme.muted, "size": NOTE, "leader": False}
    any(panel.placer.put(panel.axes, text, spot, places, **style) for spot, places in spots)


def name_ridge(panel: Panel, shown: Shown) -> None:
    """The ridge point of the first of RIDGE_FORMATS, dropped to the axis."""
    tops = {format_of(c): c for c in shown.named}
    name = next((each for each in RIDGE_FORMATS if each in tops), None)
    if name is None or shown.slope is None:
        return
    axes, look = panel.axes, panel.look
    intensity, low = tops[name]["burst"] / shown.slope["burst"], axes.get_ylim()[0]
    axes.plot((intensity,) * 2, (low, tops[name]["burst"]), ":", color=look.theme.pale, linewidth=1, zorder=1)
    text = look.say("chart.ridge", dtype=short_name(look, tops[name]), intensity=intensity)
    places = tuple((sign * 7.0, 12.0 + 12 * step) for step in range(12) for sign in (1, -1))
    panel.placer.put(axes, text, (intensity, low), places, color=look.theme.muted, size=NOTE, leader=False)


def draw_textbook(panel: Panel, answer: Record) -> tuple[float, float] | None:
    """Shades where the textbook expects decode; its shares of the fp16 peak, None where there is no such peak."""
    peak = answer.get("peak_flop_per_s")
    if not peak or answer["side"] != "gpu":
        return None
    low, high = answer["textbook_low"], answer["textbook_high"]
    left = panel.axes.get_xlim()[0]
    box = Rectangle((left, low * peak), TEXTBOOK_RIGHT - left, (high - low) * peak, color=panel.look.theme.band, zorder=0,
                    linewidth=0)  # fmt: skip
    panel.axes.add_patch(box)
    return low, high


def name_band(panel: Panel, text: str, answer: Record) -> None:
    """The textbook's words right of its band, else above its left part and tied to it, else wherever they find a place."""
    low, high, peak = answer["textbook_low"], answer["textbook_high"], answer["peak_flop_per_s"]
    shares = ((low * high) ** 0.5, low * 1.2, high / 1.2, high * 1.4, low / 1.4)
    color, put = panel.look.theme.band_ink, panel.placer.put
    left = panel.axes.get_xlim()[0] ** 0.6 * TEXTBOOK_RIGHT**0.4
    spots = [(text, (TEXTBOOK_RIGHT, share * peak), around(RIGHT)[:2]) for share in shares]
    spots += [(fill(text, BAND_WORDS), (left, high * peak), around(ABOVE))]
    spots += [(text, (TEXTBOOK_RIGHT, (low * high) ** 0.5 * peak), around(RIGHT, BELOW, ABOVE, LEFT))]
    any(put(panel.axes, words, spot, places, color=color, size=NOTE) for words, spot, places in spots)

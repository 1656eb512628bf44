"""The points of panel A: products, decode steps launched from Python and replayed in a graph, memory's size, the host's."""

from typing import Any

from rooflab.draw.labels import ABOVE, BELOW, LEFT, RIGHT, around
from rooflab.draw.panel import NOTE, TEXT, Panel, halves, mark
from rooflab.draw.shown import LEADING, Shown
from rooflab.look.style import Record, short_name

GRAPH = (None, "graph", "graph")  # the lab's implementation, many steps in one CUDA graph
BENEATH = ((0.0, -7.0), (0.0, -20.0), (0.0, -33.0))  # of a column
REACH = 1.35  # how far beyond the steps' intensities a launch floor is drawn


def draw_points(panel: Panel, shown: Shown, host: Shown | None) -> None:
    """Every lab point at its true place; hollow: the longest step of each format, replayed in a graph."""
    for group in (shown.gemms, shown.steps):
        parts = halves(group)
        for point in group:
            mark(panel, point, place(point), parts[point["id"]], gid=point["id"])
    graph = replayed(shown)
    parts = halves(graph)
    for point in graph:
        mark(panel, point, place(point), parts[point["id"]], hollow=True, gid=point["id"])
    if shown.large:
        mark(panel, shown.large, place(shown.large), size=7.5, gid=shown.large["id"])
    for point in host.steps if host else []:
        panel.axes.plot(*place(point), "+", color=panel.look.theme.muted, markersize=6.5, markeredgewidth=1.3, zorder=5,
                        gid=point["id"])  # fmt: skip
        panel.placer.avoid(panel.axes, *place(point), radius=5)
    draw_floors(panel, shown)


def place(point: Record) -> tuple[float, float]:
    """Where a point stands: its intensity, and what it achieved."""
    return point["intensity"], point["achieved_flop_per_s"]


def replayed(shown: Shown) -> list[Record]:
    """The longest step of each format, replayed in a graph."""
    ways = [shown.way(name, *GRAPH) for name in shown.step_formats]
    return [own[-1] for own in ways if own]


def floor_of(point: Record) -> float | None:
    """The empty launch that a point is held against, seconds; None where none was measured."""
    return point.get("launch_floor_s")


def shortest_and_longest(shown: Shown) -> list[Record]:
    """The leading format's steps at the ends of its S."""
    own = shown.steps_in(shown.leading) if shown.leading else []
    return own[:1] + own[1:][-1:]


def draw_floors(panel: Panel, shown: Shown) -> None:
    """What the leading format's shortest and longest step would achieve in the time of an empty launch."""
    xs = [p["intensity"] for p in shown.steps]
    for point in shortest_and_longest(shown):
        if floor := floor_of(point):
            rate, span = point["flop"] / floor, (min(xs) / REACH, max(xs) * REACH)
            panel.axes.plot(
                span, (rate, rate), color=panel.look.theme.ink, linewidth=1, linestyle=(0, (3, 2)), zorder=4
            )
            panel.placer.avoid_line(panel.axes, span, (rate, rate))


def name_points(panel: Panel, shown: Shown, host: Shown | None, answers: Record) -> None:
    """The words beside the points, what matters most first."""
    warn(panel, shown)
    name_large(panel, shown)
    name_products(panel, shown, answers["gemm"])
    name_steps(panel, shown, answers["decode"])
    name_graph(panel, shown)
    if host:
        name_ratio(panel, shown, host, answers["cpu"])
        name_host_steps(panel, host)
    name_formats(panel, shown)
    name_floors(panel, shown)


def ends(points: list[Record], field: str) -> tuple[float, float] | None:
    """The smallest and the largest value of a field; None where one has none."""
    values = [p[field] for p in points]
    return (min(values), max(values)) if values and None not in values else None


def warn(panel: Panel, shown: Shown) -> None:
    """Says so beside the first point above its roof."""
    theme, put = panel.look.theme, panel.placer.put
    every = [*shown.gemms, *shown.steps, *replayed(shown), *([shown.large] if shown.large else [])]
    for point in [p for p in every if p["above_roof"]][:1]:
        put(panel.axes, panel.look.say("chart.above_roof"), place(point), around(ABOVE, LEFT, RIGHT, BELOW),
            color=theme.alarm, size=TEXT, weight="bold")  # fmt: skip


def name_large(panel: Panel, shown: Shown) -> None:
    """The step whose K and V are sized for memory: its share of what its roof allows, and of the fp16 peak."""
    point, look = shown.large, panel.look
    if point is None:
        return
    facts = [look.say("chart.large", size=point["working_set_bytes"])]
    if point["fraction_of_attainable"] is not None and point["bound_by"] == point["tier"]:
        facts.append(look.say("chart.large.roof", fraction=point["fraction_of_attainable"], tier=point["tier"]))
    if point["fraction_of_fp16_peak"] is not None:
        facts.append(look.say("chart.large.peak", fraction=point["fraction_of_fp16_peak"]))
    panel.placer.put(
        panel.axes, "\n".join(facts), place(point), around(RIGHT, BELOW, ABOVE), color=look.color(point), size=TEXT
    )


def name_products(panel: Panel, shown: Shown, answer: Record) -> None:
    """The products' size and their shares of their ceilings, beside one of a leading format."""
    look, reached = panel.look, ends(shown.gemms, "fraction_of_ceiling")
    if not shown.gemms:
        return
    sizes = ends(shown.gemms, "n")
    text = look.say(f"chart.products.{answer['side']}", n=sizes)
    if reached:
        text += ":\n" + look.say("chart.products.share", fraction=reached)
    for point in sorted(shown.gemms, key=lambda p: (p["dtype"] not in LEADING, p["achieved_flop_per_s"])):
        if panel.placer.put(
            panel.axes, text, place(point), around(BELOW, ABOVE, LEFT)[:72], color=look.theme.ink, size=TEXT
        ):
            return


def name_steps(panel: Panel, shown: Shown, answer: Record) -> None:
    """The lab's steps: their S and their share of the peak."""
    look, steps = panel.look, shown.steps
    if not steps:
        return
    text = look.say(f"chart.steps.{answer['side']}", lengths=ends(steps, "sequence"))
    share = ends(steps, "fraction_of_fp16_peak")
    if share:
        kind = "host" if any(p["host_bound"] for p in steps) else "device"
        text += ":\n" + look.say(f"chart.steps.share.{kind}", fraction=share)
    right = max(p["intensity"] for p in steps)
    column = sorted((p for p in steps if p["intensity"] == right), key=lambda p: p["sequence"])
    for point in sorted(column, key=lambda p: abs(column.index(p) - len(column) // 2)):
        if panel.placer.put(
            panel.axes, text, place(point), around(RIGHT, BELOW, ABOVE), color=look.theme.ink, size=TEXT
        ):
            return


def name_graph(panel: Panel, shown: Shown) -> None:
    """What the hollow markers are."""
    graph = replayed(shown)
    if graph:
        point = max(graph, key=lambda p: p["intensity"])
        text = panel.look.say("chart.graph", length=point["sequence"])
        panel.placer.put(
            panel.axes, text, place(point), around(RIGHT, ABOVE, BELOW), color=panel.look.theme.ink, size=TEXT
        )


def name_formats(panel: Panel, shown: Shown) -> None:
    """Each format below its column of steps, those of one intensity below each other."""
    for name in shown.step_formats:
        own = shown.steps_in(name)
        column = [p for p in shown.steps if p["intensity"] == own[0]["intensity"]]
        lowest, highest = (end(column, key=lambda p: p["achieved_flop_per_s"]) for end in (min, max))
        style: dict[str, Any] = {"color": panel.look.color(own[0]), "size": NOTE, "leader": False, "weight": "bold"}
        above = tuple((x, -y) for x, y in BENEATH)
        text, put = short_name(panel.look, own[0]), panel.placer.put
        put(panel.axes, text, place(lowest), BENEATH, **style) or put(panel.axes, text, place(highest), above, **style)


def name_host_steps(panel: Panel, host: Shown) -> None:
    """What the crosses are."""
    if host.steps:
        point = min(host.steps, key=lambda p: p["achieved_flop_per_s"])
        text = panel.look.say("chart.host.steps", dtype=short_name(panel.look, point))
        panel.placer.put(
            panel.axes, text, place(point), around(RIGHT, BELOW)[:48], color=panel.look.theme.muted, size=NOTE
        )


def name_ratio(panel: Panel, shown: Shown, host: Shown, answer: Record) -> None:
    """How many times the host's step the GPU's is, at the longest S that both have, beside the two."""
    pairs, twins = answer.get("sequences") or {}, {}
    if not pairs:
        return
    longest = list(pairs)[-1]
    for side, points in (("gpu", shown.steps), ("cpu", host.steps)):
        twins[side] = next((p for p in points if p["id"] == pairs[longest][side]), None)
    gpu, cpu = twins["gpu"], twins["cpu"]
    if gpu is None or cpu is None:
        return
    x, theme = gpu["intensity"] / 1.55, panel.look.theme
    low, high = cpu["achieved_flop_per_s"], gpu["achieved_flop_per_s"]
    panel.axes.annotate("", (x, low), (x, high), arrowprops={"arrowstyle": "<->", "color": theme.muted, "lw": 0.9,
                                                             "shrinkA": 0, "shrinkB": 0})  # fmt: skip
    panel.placer.avoid_line(panel.axes, (x, x), (low, high))
    text = panel.look.number(pairs[longest]["ratio"], "host_times")
    for share in (0.5, 0.35, 0.65, 0.2, 0.8):
        spot = (x, low * (high / low) ** share)
        if panel.placer.put(
            panel.axes, text, spot, ((-4.0, 0.0), (4.0, 0.0)), color=theme.muted, size=NOTE, leader=False
        ):
            return


def name_floors(panel: Panel, shown: Shown) -> None:
    """What the dashed levels are."""
    right = max((p["intensity"] for p in shown.steps), default=1) * REACH
    for point in reversed(shortest_and_longest(shown)):
        if floor := floor_of(point):
            text = panel.look.say("chart.floor.at", length=point["sequence"])
            panel.placer.put(panel.axes, text, (right, point["flop"] / floor), around(RIGHT)[:20], color=panel.look.theme.ink,
                             size=NOTE)  # fmt: skip

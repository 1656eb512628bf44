"""The words on the roofline: slopes along or beside themselves, ceilings at their right end, points beside them."""

from rooflab.draw.labels import ABOVE, BELOW, LEFT, RIGHT, Place, around
from rooflab.draw.marks import Panel, burst, by_tier, fan_out, fraction_of_peak, fraction_text, peak_text
from rooflab.look.style import VARIANTS, Record, ceiling_name, format_of

GEMMS_NAMED = 14  # more are named by the best of each format
ROWS_OF_LINES = 12  # more ceilings are written in one line each
NEAR_PLACES = 40  # a product's name stands near its point or, by its ceiling's name alone, not at all
NEAR_PX = 1.0  # half width of the slopes that texts keep off
NAMES_IN, NAMES_SMALL_IN = 2.25, 1.95  # room for the ceilings' names
SPOTS = (0.45, 0.3, 0.6, 0.2, 0.7)  # where on a slope a block of names may hang


def name_slopes(panel: Panel, memory: list[Record], top: float) -> None:
    """The names and rates of the slopes of a tier: along them, the fastest tier above, or else beside them."""
    axes, left, low = panel.axes, panel.axes.get_xlim()[0], panel.axes.get_ylim()[0]
    for slope in memory:
        xs = (left, top / slope["burst"])
        panel.placer.avoid_line(axes, xs, [slope["burst"] * x for x in xs], NEAR_PX)
    for row, group in enumerate(by_tier(memory)):
        rate = (max if row == 0 else min)(map(burst, group))
        start, end = max(left, low / rate), top / rate
        if not name_along(panel, group, ((start, start * rate), (end, end * rate)), row == 0):
            name_beside(panel, group, [(x, rate * x) for x in (start * (end / start) ** s for s in SPOTS)], row == 0)


def name_along(panel: Panel, group: list[Record], line: tuple[Place, Place], above: bool) -> bool:
    """Writes the names of a tier along its slope in one line or in two; whether there was room."""
    name, parts = slope_texts(panel, group)
    half, color = (len(parts) + 1) // 2, panel.look.theme.ink
    two = "\n".join(", ".join(part) for part in (parts[:half], parts[half:]) if part)
    texts = (f"{name} {', '.join(parts)}", f"{name} {two}")
    return any(panel.placer.along(panel.axes, text, *line, above=above, color=color) for text in texts)


def name_beside(panel: Panel, group: list[Record], spots: list[Place], above: bool) -> bool:
    """Writes the names of a tier as a block that hangs on its slope; whether there was room."""
    name, parts = slope_texts(panel, group)
    block = "\n".join([name, *parts])
    places = around((-1, 1), LEFT, ABOVE) if above else around((1, -1), RIGHT, BELOW)
    put, color = panel.placer.put, panel.look.theme.ink
    return any(put(panel.axes, block, spot, places, color=color, size=7) for spot in spots)


def slope_texts(panel: Panel, group: list[Record]) -> tuple[str, list[str]]:
    """The name of a tier, and each of its patterns with its rate."""
    look, tier = panel.look, group[0]["tier"]
    parts = [look.say("chart.pattern." + c["pattern"], rate=c["burst"]) for c in group]
    reach = next((c["reach_bytes"] for c in group if c.get("reach_bytes")), None)
    name = look.say("chart.tier.reach", tier=tier, reach=reach) if reach else look.say("chart.tier", tier=tier)
    return name, parts


def name_ceilings(panel: Panel, compute: list[Record], products: list[Record], small: bool) -> None:
    """Beside each ceiling's right end its name, its rates and what the lab's product reaches of it."""
    right, rows = panel.axes.get_xlim()[1], []
    for ceiling in sorted(compute, key=lambda c: -c["burst"]):
        own = [p for p in products if p["lab_point"] and p["operator"] == "gemm" and format_of(p) == format_of(ceiling)]
        text = ceiling_text(panel, ceiling, own, small or len(compute) > ROWS_OF_LINES)
        rows.append(((right, ceiling["burst"]), text, {"color": panel.look.color(ceiling), "fontsize": 6.8}))
    panel.placer.rows(panel.axes, 0.3, NAMES_SMALL_IN if small else NAMES_IN, rows)


def ceiling_text(panel: Panel, ceiling: Record, own: list[Record], short: bool) -> str:
    """Name and measured burst; then sustained rate, fraction of the vendor's dense peak, and the lab's product."""
    look = panel.look
    name, rate = ceiling_name(look, ceiling), look.number(ceiling["burst"], "flop_per_s")
    if short:
        return f"{format_of(ceiling).replace('_', ' ') if ceiling.get('variant') in VARIANTS else name}  {rate}"
    rates, fractions = [rate], []
    if ceiling["sustained"] is not None:
        rates.append(look.say("chart.sustained", rate=ceiling["sustained"]))
    if ceiling["fraction_of_vendor"] is not None:
        fractions.append(look.say("chart.of_vendor", fraction=ceiling["fraction_of_vendor"]))
    best = max(own, key=lambda p: p["fraction_of_ceiling"] or 0, default=None)
    if best and best["fraction_of_ceiling"] is not None:
        fractions.append(look.say("chart.reaches", n=best["n"], fraction=best["fraction_of_ceiling"]))
    return "\n".join(line for line in (name, ", ".join(rates), "; ".join(fractions)) if line)


def name_products(panel: Panel, products: list[Record], small: bool) -> None:
    """Beside each lab point its format, its size and the fraction of its own ceiling; in a small picture no size."""
    look, places = panel.look, fan_out(products)
    for point in named_products(products):
        size = "" if small else f" n={point['n']}:"
        text = f"{format_of(point).replace('_', ' ')}{size} {fraction_text(look, point)}"
        if point["above_roof"] and not small:
            text += "\n" + look.say("chart.above_roof")
        color = look.theme.alarm if point["above_roof"] else look.color(point)
        at = (places[point["id"]], point["achieved_flop_per_s"])
        panel.placer.put(panel.axes, text, at, places_of(point), color=color)


def places_of(point: Record) -> tuple[Place, ...]:
    """Where the name of a product may stand: near it; anywhere if it warns."""
    everywhere = around(BELOW, RIGHT, LEFT, ABOVE)
    return everywhere if point["above_roof"] else everywhere[:NEAR_PLACES]


def named_products(products: list[Record]) -> list[Record]:
    """The GEMM lab points and those above their roof, the fastest first; of too many only the best of each format."""
    named = [p for p in products if p["operator"] == "gemm" and (p["lab_point"] or p["above_roof"])]
    if len(named) > GEMMS_NAMED:
        best = {format_of(p): p for p in sorted(named, key=lambda p: p["fraction_of_ceiling"] or 0)}
        named = list(best.values())
    return sorted(named, key=lambda p: (not p["above_roof"], -p["achieved_flop_per_s"]))


def name_decode(panel: Panel, decode: list[Record], small: bool) -> None:
    """The range of the lab points' fractions beside them, and where they are shown one by one."""
    lab, look = [p for p in decode if p["lab_point"]] or decode, panel.look
    if not lab:
        name_absence(panel)
        return
    fractions = [fraction for p in lab if (fraction := fraction_of_peak(p)) is not None]
    lines = [look.say("chart.decode")]
    if fractions:
        ends = (min(fractions), max(fractions))
        lines.append(look.say("chart.decode.fractions", fractions=ends, peak=peak_text(look, decode)))
    lines += [] if small else [look.say("chart.decode.enlarged")]
    places, heights = fan_out(decode), sorted(p["achieved_flop_per_s"] for p in lab)
    at = (max(places[p["id"]] for p in lab), heights[len(heights) // 2])
    panel.placer.put(panel.axes, "\n".join(lines), at, around(RIGHT, BELOW, ABOVE), color=look.theme.ink, size=7.5)


def name_absence(panel: Panel) -> None:
    """Says in the lower right corner that there is no decode attention."""
    corner = (panel.axes.get_xlim()[1], panel.axes.get_ylim()[0])
    places = tuple((-10.0, 40.0 + 12 * step) for step in range(20))
    text, color = panel.look.say("chart.decode.absent"), panel.look.theme.muted
    panel.placer.put(panel.axes, text, corner, places, color=color, size=7.5, leader=False)

"""Decode attention enlarged: seconds of one step over S, a column for each format, so that a launch floor is level.

A roof of memory is a slanted line (bytes over bandwidth), an empty launch a level one (its time is constant): the
highest of them is what a step of that size cannot pass.
"""

from math import log2

from matplotlib.ticker import FuncFormatter, NullFormatter

from rooflab.draw.labels import Place
from rooflab.draw.marks import (
    Panel,
    dress,
    fraction_of_peak,
    fraction_text,
    limits,
    mark,
    memory_sized,
    model_of,
    of_kind,
    peak_text,
    runs,
)
from rooflab.draw.ways import draw_rows
from rooflab.look.style import SLOPE_DASHES, Record, format_of, in_order

LAB_MODEL = "minigpt"
ROOFS = ("read", "l2")  # decode only reads
UPRIGHT: tuple[Place, ...] = tuple(
    (0, sign * d) for d in (6, 9, 13, 18, 24, 32, 42) for sign in (1, -1)
)  # of a fraction
MARGIN, WIDTH = 0.16, 0.6  # of a column: where its smallest S stands, how far its largest lies from it
ROOF_DEPTH = 8  # how far below the fastest measurement the axis follows the roofs
COLUMNS_OF_LINES = 3  # more columns break the range of their fractions into two lines
LABELS_PER_COLUMN = 5  # a longer sweep names its ends only


def draw_detail(panel: Panel, mine: dict[str, list[Record]]) -> None:
    """The decode points of the lab's model, each lab point with its fraction of peak, between floors and roofs."""
    axes = panel.axes
    decode = lab_model([p for p in mine["points"] if p["operator"] == "decode_attention"])
    memory = [c for c in of_kind(mine["ceilings"], "memory") if c["pattern"] in ROOFS]
    floors = [f for f in mine["floors"] if any(same_launch(f, p) for p in decode)]
    places = columns(decode)
    roofs = [p["bytes"] / c["burst"] for c in memory for p in decode]
    measured = [p["median_s"] for p in decode] + [f["median_s"] for f in floors]
    times = [*measured, max(min([*roofs, *measured]), min(measured) / ROOF_DEPTH)]
    axes.set(yscale="log", ylim=limits(times, 1.4, 2.2))
    name_columns(panel, decode, places)
    draw_floors(panel, floors)
    draw_roofs(panel, memory, decode, places)
    groups = runs(decode)
    for group in groups:
        draw_run(panel, group, places)
    for group in groups:
        label_run(panel, group, places)
    draw_rows(panel, memory, floors, groups, places)


def lab_model(decode: list[Record]) -> list[Record]:
    """The points of the lab's model, or of the first one by name where the lab's was not measured."""
    models = {model_of(p) for p in decode}
    shown = LAB_MODEL if LAB_MODEL in models else min(models, default="")
    return [p for p in decode if model_of(p) == shown]


def same_launch(floor: Record, point: Record) -> bool:
    """Whether the floor was launched and timed as the point was."""
    return bool((floor["launch"], floor["timing"]) == (point["launch"], point["timing"]))


def columns(decode: list[Record]) -> dict[str, float]:
    """The x of each point by id: a column for each format with S from left to right, a last one for memory's size."""
    swept = [p for p in decode if not memory_sized(p)]
    formats, lengths = in_order(swept), sorted({p["sequence"] for p in swept}) or [1]
    octaves = log2(lengths[-1] / lengths[0]) or 1
    places = {p["id"]: formats.index(format_of(p)) + MARGIN + WIDTH * log2(p["sequence"] / lengths[0]) / octaves
              for p in swept}  # fmt: skip
    large = [p for p in decode if memory_sized(p)]
    sized = in_order(large)
    step = (1 - 2 * MARGIN) / max(len(sized) - 1, 1)
    return places | {p["id"]: len(formats) + MARGIN + step * sized.index(format_of(p)) for p in large}


def name_columns(panel: Panel, decode: list[Record], places: dict[str, float]) -> None:
    """The x axis: smallest and largest S below each column, its format and intensity below them."""
    axes, look = panel.axes, panel.look
    swept, large = ([p for p in decode if memory_sized(p) is sized] for sized in (False, True))
    ticks: dict[float, str] = {}
    formats = in_order(swept)
    for index, name in enumerate(formats):
        own = [p for p in swept if format_of(p) == name]
        ticks |= {places[p["id"]]: str(p["sequence"]) for p in own if p["sequence"] in ends(own)}
        intensity = look.number(own[0]["intensity"], "significant")
        text = look.say("chart.decode.column", dtype=name.replace("_", " "), intensity=intensity)
        fractions = lab_fractions(panel, own).replace("–", "–\n" if len(formats) > COLUMNS_OF_LINES else "–")
        heading(panel, index, f"{text}\n{fractions}".rstrip(), look.color(own[0]))
    count = len(formats)
    if large:
        text = look.say("chart.decode.memory_column", size=large[0]["bytes"])
        heading(panel, count, text, look.theme.ink)
        axes.axvline(count, color=look.theme.muted, linewidth=0.7)
    axes.set_xlim(0, count + (1 if large else 0))
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: look.number(value, "seconds")))
    axes.yaxis.set_minor_formatter(NullFormatter())
    title = look.say("chart.decode.detail", peak=peak_text(look, decode))
    axes.set_title(title, fontsize=8.5, color=look.theme.ink, loc="left")
    dress(panel)
    axes.grid(False, axis="x")
    axes.tick_params(axis="x", labelsize=6.5)


def lab_fractions(panel: Panel, own: list[Record]) -> str:
    """The range of the lab points' fractions of peak; nothing where no peak was measured."""
    known = [fraction_of_peak(p) for p in own if p["lab_point"]]
    fractions = [fraction for fraction in known if fraction is not None]
    return panel.look.number((min(fractions), max(fractions)), "percent") if fractions else ""


def ends(own: list[Record]) -> set[int]:
    """The smallest and the largest S of some points."""
    lengths = [p["sequence"] for p in own]
    return {min(lengths), max(lengths)}


def heading(panel: Panel, index: int, text: str, color: str) -> None:
    """The name of a column, below its ticks."""
    middle = index + MARGIN + WIDTH / 2
    panel.axes.annotate(text, (middle, 0), (0, -20), xycoords=("data", "axes fraction"), textcoords="offset points",
                        ha="center", va="top", fontsize=7, color=color)  # fmt: skip


def draw_floors(panel: Panel, floors: list[Record]) -> None:
    """The time of an empty launch, level through all columns; below the lowest no step can be."""
    theme, (low, _) = panel.look.theme, panel.axes.get_ylim()
    for floor in floors:
        panel.axes.axhline(floor["median_s"], color=theme.ink, linewidth=0.9, linestyle=(0, (6, 3)), gid=floor["id"])
    if floors:
        panel.axes.axhspan(low, min(f["median_s"] for f in floors), color=theme.shade, zorder=0)


def draw_roofs(panel: Panel, memory: list[Record], decode: list[Record], places: dict[str, float]) -> None:
    """In each column the time that reading K and V once takes at each tier's bandwidth."""
    swept = [p for p in decode if not memory_sized(p)]
    groups = [[p for p in swept if format_of(p) == name] for name in in_order(swept)]
    groups += [[p] for p in decode if memory_sized(p)]
    for slope in memory:
        for group in groups:
            if slope["pattern"] == "l2" and memory_sized(group[0]):
                continue
            points = sorted({(places[p["id"]], p["bytes"] / slope["burst"]) for p in group})
            xs, ys = [x for x, _ in points], [y for _, y in points]
            if len(points) == 1:
                xs, ys = [xs[0] - 0.06, xs[0] + 0.06], ys * 2
            panel.axes.plot(xs, ys, linestyle=SLOPE_DASHES[slope["pattern"]], color=panel.look.theme.slope, linewidth=1)
            panel.placer.avoid_line(panel.axes, xs, ys)


def draw_run(panel: Panel, group: list[Record], places: dict[str, float]) -> None:
    """One way of computing and launching in one format: its points on a thin line, memory's size apart."""
    swept = [p for p in group if not memory_sized(p)]
    xs, ys = [places[p["id"]] for p in swept], [p["median_s"] for p in swept]
    cold = group[0]["cache"] == "cold"
    panel.axes.plot(xs, ys, ":" if cold else "-", color=panel.look.color(group[0]), linewidth=0.7)
    panel.placer.avoid_line(panel.axes, xs, ys)
    size = 2.5 if len(swept) > 2 * LABELS_PER_COLUMN else 3.2 if cold else 4.5
    for point in group:
        mark(panel, point, (places[point["id"]], point["median_s"]), f"detail:{point['id']}", size)


def label_run(panel: Panel, group: list[Record], places: dict[str, float]) -> None:
    """The fraction of peak of each lab point, upright beside it; of memory's size the fraction of what it can reach."""
    swept = [p for p in group if not memory_sized(p) and p["lab_point"] and fraction_of_peak(p) is not None]
    if len(swept) > LABELS_PER_COLUMN:
        swept = [p for p in swept if p["sequence"] in ends(swept)]
    paper = {"facecolor": panel.look.theme.paper, "edgecolor": "none", "pad": 0.6}
    for point in [*swept, *(p for p in group if memory_sized(p) and (p["lab_point"] or len(group) == 1))]:
        color = panel.look.theme.alarm if point["above_roof"] else panel.look.color(point)
        panel.placer.put(panel.axes, point_text(panel, point), (places[point["id"]], point["median_s"]),
                         UPRIGHT, None, color, 6.2, rotation=90, bbox=paper)  # fmt: skip


def point_text(panel: Panel, point: Record) -> str:
    """What stands beside one point: the fraction of peak, or of the memory's roof where the point was sized for it."""
    if not memory_sized(point) or point["fraction_of_attainable"] is None:
        return fraction_text(panel.look, point)
    fraction = panel.look.number(point["fraction_of_attainable"], "percent")
    return panel.look.say("chart.decode.of_roof", fraction=fraction, tier=point["tier"])

"""Beside the enlarged decode attention: each way of computing and launching a step, each launch floor, each roof."""

from rooflab.draw.labels import Place
from rooflab.draw.marks import Panel, memory_sized
from rooflab.look.style import Record

ROOM_IN = 1.95
WAYS_OF_LINES = 7  # more ways are told in two lines each


def draw_rows(panel: Panel, memory: list[Record], floors: list[Record], groups: list[list[Record]],
              places: dict[str, float]) -> None:  # fmt: skip
    """Right of the axes: the name of each way of computing and launching, of each floor and of each roof."""
    look, rows, joined = panel.look, [], ways(groups)
    crowded = len(joined) > WAYS_OF_LINES
    for way in joined:
        swept = [p for p in way if not memory_sized(p)] or way
        last = max(swept, key=lambda p: places[p["id"]])
        rows.append(
            ((places[last["id"]], last["median_s"]), way_text(panel, swept, crowded), row_style(look.theme.ink, way))
        )
    for floor in floors:
        text = look.say("chart.floor", floor=floor["median_s"], launch=launch_text(panel, floor))
        rows.append(((panel.axes.get_xlim()[1], floor["median_s"]), text, row_style(look.theme.muted)))
    swept = [p for p in (q for group in groups for q in group) if not memory_sized(p)]
    for slope in memory if swept else []:
        last = max(swept, key=lambda p: places[p["id"]])
        at: Place = (places[last["id"]], max(last["bytes"] / slope["burst"], panel.axes.get_ylim()[0]))
        rows.append(
            (at, look.say("chart.decode.roof", tier=slope["tier"], rate=slope["burst"]), row_style(look.theme.slope))
        )
    panel.placer.rows(panel.axes, 0.18, ROOM_IN, rows)


def row_style(color: str, way: list[Record] | None = None) -> dict[str, object]:
    """A row's colour and size; the lab's own way is bold."""
    return {"color": color, "fontsize": 6.4, "weight": "bold" if way and any(p["lab_point"] for p in way) else "normal"}


def ways(groups: list[list[Record]]) -> list[list[Record]]:
    """The runs joined over formats: one list for each way of computing and launching."""
    joined: dict[tuple[str, ...], list[Record]] = {}
    for group in groups:
        kind = tuple(str(group[0][field]) for field in ("implementation", "launch", "timing", "cache"))
        joined.setdefault(kind, []).extend(group)
    return list(joined.values())


def way_text(panel: Panel, way: list[Record], crowded: bool) -> str:
    """Implementation and launch, then the range of its times, then tier and bound; where crowded, in two lines."""
    look = panel.look
    times = [p["median_s"] for p in way]
    bounds = sorted({look.say(f"chart.bound.{p['bound_by']}") for p in way if p["bound_by"]})
    bound = look.say("chart.bound_by", bound="/".join(bounds)) if bounds else ""
    tiers = "/".join(sorted({look.say("chart.in_tier", tier=p["tier"]) for p in way if p["tier"]}))
    between = "; " if crowded else "\n"
    tags = ", ".join(part for part in (tiers, bound) if part)
    cold = [look.say("chart.cold.short")] if way[0]["cache"] == "cold" else []
    name = ", ".join([way[0]["implementation"].replace("_", " "), launch_text(panel, way[0]), *cold])
    return f"{name}\n{look.number((min(times), max(times)), 'seconds')}{between if tags else ''}{tags}"


def launch_text(panel: Panel, entry: Record) -> str:
    """How something was launched and timed."""
    return panel.look.say(f"chart.launch.{entry['launch']}.{entry['timing']}")

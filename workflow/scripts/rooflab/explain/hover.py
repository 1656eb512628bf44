"""What the chart of `report.html` tells when it is pointed at: for each mark its record, what bounds it, its ladder."""

from rooflab.explain.tables import bound, flag, number, way
from rooflab.look.style import Look, Record, ceiling_name, format_of


def marks(roofline: Record, look: Look) -> dict[str, Record]:
    """By id of a ceiling, a floor or a point: `title`, `facts` as [name, value] and `ladder` as [way, time, is it]."""
    told = {c["id"]: ceiling_mark(c, look) for c in roofline["ceilings"]}
    told |= {f["id"]: floor_mark(f, look) for f in roofline["floors"]}
    return told | {p["id"]: point_mark(p, siblings(p, roofline["points"]), look) for p in roofline["points"]}


def siblings(point: Record, points: list[Record]) -> list[Record]:
    """The other ways of the same decode step, the slowest first; none for a matrix product."""
    if point["operator"] != "decode_attention":
        return []
    same = [p for p in points if (p["side"], p["name"]) == (point["side"], point["name"])]
    return sorted(same, key=lambda p: -p["median_s"])


def fact(look: Look, name: str, value: str) -> list[str]:
    """One line of a mark."""
    return [look.say(f"report.column.{name}"), value]


def ceiling_mark(ceiling: Record, look: Look) -> Record:
    """A ceiling: its rates and the record it comes from."""
    unit = ceiling["unit_of_value"]
    facts = [
        fact(look, "burst", look.number(ceiling["burst"], unit)),
        fact(look, "sustained", number(look, ceiling["sustained"], unit)),
        fact(look, "vendor", number(look, ceiling["fraction_of_vendor"], "percent")),
        fact(look, "capped", flag(look, ceiling["power_capped"])),
        fact(look, "record", ceiling["file"]),
    ]
    return {"title": ceiling_name(look, ceiling), "facts": facts, "ladder": []}


def floor_mark(floor: Record, look: Look) -> Record:
    """A launch floor: its time and the record it comes from."""
    launch = look.say(f"chart.launch.{floor['launch']}.{floor['timing']}")
    title = look.say("chart.floor", floor=floor["median_s"], launch=launch).replace("\n", " ")
    return {"title": title, "facts": [fact(look, "record", floor["file"])], "ladder": []}


def point_mark(point: Record, ladder: list[Record], look: Look) -> Record:
    """A point: its time, its place under the roofs, the record it comes from, and its ladder."""
    facts = [
        fact(look, "way", way(look, point)),
        fact(look, "median", look.number(point["median_s"], "seconds")),
        fact(look, "spread", look.number((point["p10_s"], point["p90_s"]), "seconds")),
        fact(look, "samples", str(point["samples"])),
        fact(look, "achieved", look.number(point["achieved_flop_per_s"], "flop_per_s")),
        fact(look, "intensity", f"{look.number(point['intensity'], 'intensity')} ({point['convention']})"),
        fact(look, "bound", bound(look, point)),
        fact(look, "tier", point["tier"] or look.say("report.none")),
        fact(look, "attainable", number(look, point["fraction_of_attainable"], "percent")),
        fact(look, "of_ceiling", number(look, point["fraction_of_ceiling"], "percent")),
        fact(look, "peak", number(look, point["fraction_of_fp16_peak"], "percent")),
        fact(look, "record", point["file"]),
    ]
    rungs = [[way(look, p), look.number(p["median_s"], "seconds"), p["id"] == point["id"]] for p in ladder]
    return {"title": f"{point['operator'].replace('_', ' ')} {point['name']}", "format": format_of(point), "facts": facts,
            "ladder": rungs}  # fmt: skip

"""What the chart of `report.html` tells when it is pointed at: for each mark its record, what bounds it, its ladder."""

from rooflab.explain.tables import bound, flag, number, way
from rooflab.look.style import Record, ceiling_name, format_of
from rooflab.look.voice import Voice


def marks(roofline: Record, voice: Voice) -> dict[str, Record]:
    """By id of a ceiling, a floor or a point: `title`, `facts` as [name, value] and `ladder` as [way, time, is it]."""
    told = {c["id"]: ceiling_mark(c, voice) for c in roofline["ceilings"]}
    told |= {f["id"]: floor_mark(f, voice) for f in roofline["floors"]}
    return told | {p["id"]: point_mark(p, siblings(p, roofline["points"]), voice) for p in roofline["points"]}


def siblings(point: Record, points: list[Record]) -> list[Record]:
    """The other ways of the same decode step, the slowest first; none for a matrix product."""
    if point["operator"] != "decode_attention":
        return []
    same = [p for p in points if (p["side"], p["name"]) == (point["side"], point["name"])]
    return sorted(same, key=lambda p: -p["median_s"])


def fact(voice: Voice, name: str, value: str) -> list[str]:
    """One line of a mark."""
    return [voice.say(f"report.column.{name}"), value]


def ceiling_mark(ceiling: Record, voice: Voice) -> Record:
    """A ceiling: its rates and the record it comes from."""
    unit = ceiling["unit_of_value"]
    facts = [
        fact(voice, "burst", voice.number(ceiling["burst"], unit)),
        fact(voice, "sustained", number(voice, ceiling["sustained"], unit)),
        fact(voice, "vendor", number(voice, ceiling["fraction_of_vendor"], "percent")),
        fact(voice, "capped", flag(voice, ceiling["power_capped"])),
        fact(voice, "clock", number(voice, ceiling.get("clock_hz"), "hertz")),
        fact(voice, "record", ceiling["file"]),
    ]
    return {"title": ceiling_name(voice, ceiling), "facts": facts, "ladder": []}


def floor_mark(floor: Record, voice: Voice) -> Record:
    """A launch floor: its time and the record it comes from."""
    launch = voice.say(f"chart.launch.{floor['launch']}.{floor['timing']}")
    title = voice.say("report.floor", floor=floor["median_s"], launch=launch)
    return {"title": title, "facts": [fact(voice, "record", floor["file"])], "ladder": []}


def point_mark(point: Record, ladder: list[Record], voice: Voice) -> Record:
    """A point: its time, its place under the roofs, the record it comes from, and its ladder."""
    facts = [
        fact(voice, "way", way(voice, point)),
        fact(voice, "median", voice.number(point["median_s"], "seconds")),
        fact(voice, "spread", voice.number((point["p10_s"], point["p90_s"]), "seconds")),
        fact(voice, "samples", str(point["samples"])),
        fact(voice, "achieved", voice.number(point["achieved_flop_per_s"], "flop_per_s")),
        fact(voice, "intensity", f"{voice.number(point['intensity'], 'intensity')} ({point['convention']})"),
        fact(voice, "bound", bound(voice, point)),
        fact(voice, "tier", point["tier"] or voice.say("report.none")),
        fact(voice, "attainable", number(voice, point["fraction_of_attainable"], "percent")),
        fact(voice, "of_ceiling", number(voice, point["fraction_of_ceiling"], "percent")),
        fact(voice, "peak", number(voice, point["fraction_of_fp16_peak"], "percent")),
        fact(voice, "record", point["file"]),
    ]
    rungs = [[way(voice, p), voice.number(p["median_s"], "seconds"), p["id"] == point["id"]] for p in ladder]
    return {"title": f"{point['operator'].replace('_', ' ')} {point['name']}", "format": format_of(point), "facts": facts,
            "ladder": rungs}  # fmt: skip

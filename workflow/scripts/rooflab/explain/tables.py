"""The tables of `report.html`: what `roofline.json` and `manifest.json` hold, as people read it. Computes nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rooflab.look.style import Record, ceiling_name, format_of
from rooflab.look.voice import Voice

Cell = str


@dataclass(frozen=True)
class Table:
    """One table: an anchor, a title, a sentence below it, the heads and the rows."""

    anchor: str
    title: str
    heads: list[str]
    rows: list[list[Cell]]
    note: str = ""
    numeric: frozenset[int] = field(default_factory=frozenset)


def tables(roofline: Record, manifest: Record, voice: Voice) -> list[Table]:
    """Every table of the page in its order; one without rows is left out."""
    made = [
        glossary(voice),
        ceilings(roofline, voice),
        products(roofline, voice),
        decode(roofline, voice),
        ladder(roofline, voice),
        checks(manifest, voice),
        paid(manifest, voice),
        holes(manifest, voice),
        notes(manifest, voice),
        provenance(manifest, voice),
        records(manifest, voice),
    ]
    return [table for table in made if table.rows]


def table(voice: Voice, anchor: str, columns: str, rows: list[list[Cell]], note: str = "") -> Table:
    """A table whose heads are named in `columns`; a + before a name sets the column right."""
    names = columns.split()
    heads = [voice.say(f"report.column.{name.removeprefix('+')}") for name in names]
    right = frozenset(i for i, name in enumerate(names) if name.startswith("+"))
    return Table(anchor, voice.say(f"report.{anchor}"), heads, rows, voice.say(note) if note else "", right)


def number(voice: Voice, value: float | None, unit: str) -> Cell:
    """A number with its unit, a dash where there is none."""
    return voice.say("report.none") if value is None else voice.number(value, unit)


def flag(voice: Voice, value: bool | None) -> Cell:
    """Yes, no, or a dash."""
    return voice.say("report.none" if value is None else "report.yes" if value else "report.no")


def glossary(voice: Voice) -> Table:
    """What the words of picture, prose and tables mean."""
    terms = ("ceiling", "sustained", "chain", "fused", "graph", "cold", "floor", "ridge", "use")
    rows = [[voice.say(f"term.{each}"), voice.say(f"term.{each}.is")] for each in terms]
    return Table("glossary", voice.say("report.glossary"), [], rows)


def ceilings(roofline: Record, voice: Voice) -> Table:
    """Every measured ceiling of both sides, the main side's first."""
    rows = []
    for c in sorted(roofline["ceilings"], key=lambda c: (c["side"] != roofline["main_side"], c["kind"], -c["burst"])):
        unit = c["unit_of_value"]
        spread = tuple(c["burst_spread"]) if c["burst_spread"] else None
        rows.append([
            c["side"].upper(), ceiling_name(voice, c), voice.number(c["burst"], unit),
            voice.say("report.none") if spread is None else voice.number(spread, unit),
            number(voice, c["sustained"], unit), number(voice, c["fraction_of_vendor"], "percent"),
            flag(voice, c["power_capped"]), number(voice, c.get("clock_hz"), "hertz"),
            number(voice, (c.get("use") or {}).get("of_issue_rate"), "percent"), c["file"],
        ])  # fmt: skip
    columns = "side ceiling +burst +spread +sustained +vendor capped +clock +use record"
    return table(voice, "ceilings", columns, rows, "report.ceilings.note")


def products(roofline: Record, voice: Voice) -> Table:
    """The matrix products of both sides."""
    rows = [
        [p["side"].upper(), format_of(p).replace("_", " "), str(p["n"]), number(voice, p["intensity"], "intensity"),
         number(voice, p["median_s"], "seconds"), number(voice, p["achieved_flop_per_s"], "flop_per_s"),
         number(voice, p["fraction_of_ceiling"], "percent"), number(voice, p["fraction_of_vendor"], "percent"),
         bound(voice, p), number(voice, p["relative_error"], "significant"), p["file"]]
        for p in ordered(roofline, lambda p: p["operator"] == "gemm")
    ]  # fmt: skip
    columns = "side dtype +n +intensity +median +achieved +of_ceiling +vendor bound +error record"
    return table(voice, "products", columns, rows)


def decode(roofline: Record, voice: Voice) -> Table:
    """The plotted decode points of both sides."""
    rows = [
        [p["side"].upper(), p["name"], str(p["sequence"]), number(voice, p["median_s"], "seconds"),
         voice.number((p["p10_s"], p["p90_s"]), "seconds"), number(voice, p["achieved_flop_per_s"], "flop_per_s"),
         number(voice, p["achieved_bytes_per_s"], "bytes_per_s"), bound(voice, p), p["tier"] or voice.say("report.none"),
         number(voice, p["fraction_of_attainable"], "percent"), number(voice, p["fraction_of_fp16_peak"], "percent")]
        for p in ordered(roofline, lambda p: p["operator"] == "decode_attention" and p["lab_point"])
    ]  # fmt: skip
    columns = "side name +S +median +spread +achieved +bandwidth bound tier +attainable +peak"
    return table(voice, "decode", columns, rows, "report.decode.note")


def ladder(roofline: Record, voice: Voice) -> Table:
    """Every way of the same decode step, in order of its time."""
    points = ordered(roofline, lambda p: p["operator"] == "decode_attention")
    points.sort(key=lambda p: (p["side"] != roofline["main_side"], p["dtype"], p["sequence"], p["name"], p["median_s"]))
    rows = [
        [p["side"].upper(), p["name"], way(voice, p), number(voice, p["median_s"], "seconds"), bound(voice, p),
         number(voice, p["fraction_of_attainable"], "percent")]
        for p in points
    ]  # fmt: skip
    return table(voice, "ladder", "side name way +median bound +attainable", rows)


def ordered(roofline: Record, wanted: Callable[[Record], bool]) -> list[Record]:
    """The wanted points, the main side's first, by format and size."""
    points = [p for p in roofline["points"] if wanted(p)]
    return sorted(points, key=lambda p: (p["side"] != roofline["main_side"], p["dtype"], p["sequence"] or p["n"] or 0))


def bound(voice: Voice, point: Record) -> Cell:
    """What bounds a point; a warning where it lies above its roof."""
    told = voice.say(f"chart.bound.{point['bound_by']}") if point["bound_by"] else voice.say("report.none")
    if point["at_roof"] is False:
        told = voice.say("chart.below_every_roof", bound=told)
    marks = [voice.say(f"chart.{mark}") for mark in ("above_roof", "impossible") if point[mark]]
    return f"{told} ({', '.join(marks)})" if marks else told


def way(voice: Voice, point: Record) -> Cell:
    """How a point was computed and launched."""
    launch = voice.say(f"chart.launch.{point['launch']}.{point['timing']}")
    cold = [voice.say("chart.cold")] if point["cache"] == "cold" else []
    return ", ".join([point["implementation"].replace("_", " "), launch, *cold])


def checks(manifest: Record, voice: Voice) -> Table:
    """The stop conditions."""
    rows = [
        [check_title(c, voice), voice.say(f"check.{c['status']}"), plain(c["value"], voice), limit(c["limit"], voice),
         voice.reason([*c["reason"], *c["advice"]])]
        for c in manifest["checks"]
    ]  # fmt: skip
    return table(voice, "checks", "check status value limit advice", rows)


def limit(value: Any, voice: Voice) -> Cell:
    """What a check asks for as a number, which nobody measured."""
    return voice.say("report.none") if value is None else voice.number(value, "exact")


def check_title(check: Record, voice: Voice) -> Cell:
    """What a check asks for."""
    return voice.say(f"check.{check['name']}")


def paid(manifest: Record, voice: Voice) -> Table:
    """Paid seconds of each stage and in all, what they cost, and whether the instance is terminated."""
    spent = manifest["paid"]
    rows = [[stage, voice.number(seconds, "seconds")] for stage, seconds in spent["stages"].items()]
    usd = spent["usd"]
    cost = voice.say("report.no_price") if usd is None else voice.say("report.usd", usd=f"{usd:.2f}")
    rows.append([voice.say("report.total"), f"{voice.number(spent['paid_s'], 'seconds')}, {cost}"])
    closing = manifest.get("terminated")
    ended = closing and voice.say("report.terminated", at=closing["terminated_at"])
    rows.append([ended or voice.say("report.not_terminated"), ""])
    return table(voice, "ledger", "stage +seconds", rows)


def holes(manifest: Record, voice: Voice) -> Table:
    """What was planned and not measured."""
    rows = [
        [
            h["stage"],
            h["name"],
            h["side"].upper(),
            voice.say(f"status.{h['status']}"),
            voice.reason(h["reason"]) if h["reason"] else "",
            h["remedy"] or "",
        ]
        for h in manifest["holes"]
    ]
    return table(voice, "holes", "stage name side status reason remedy", rows)


def notes(manifest: Record, voice: Voice) -> Table:
    """What the model noticed."""
    rows = [[voice.reason(note)] for note in manifest["notes"]]
    return Table("notes", voice.say("report.notes"), [], rows)


def provenance(manifest: Record, voice: Voice) -> Table:
    """The devices and environments that the records quote, and who rendered the page's numbers."""
    facts = {**manifest["devices"], **manifest["environment"], voice.say("report.rendered_by"): manifest["rendered_by"]}
    rows = [[name, value] for name, value in flat(facts, voice)]
    return table(voice, "provenance", "fact value", rows)


def records(manifest: Record, voice: Voice) -> Table:
    """Every record with its hash."""
    rows = [
        [
            m["file"],
            voice.say(f"status.{m['status']}"),
            m["started_at"],
            voice.number(m["seconds"], "seconds"),
            m["sha256"][:16],
        ]
        for m in manifest["measurements"]
    ]
    return table(voice, "records", "record status started +seconds hash", rows)


def flat(tree: Mapping[str, Any], voice: Voice, prefix: str = "") -> list[tuple[str, Cell]]:
    """Every leaf with its dotted name."""
    found: list[tuple[str, Cell]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found += flat(value, voice, f"{prefix}{name}.")
        else:
            found.append((prefix + name, plain(value, voice)))
    return found


def plain(value: Any, voice: Voice) -> Cell:
    """Any JSON value as text: three digits for a float, entries after commas."""
    if value is None:
        return voice.say("report.none")
    if isinstance(value, bool):
        return flag(voice, value)
    if isinstance(value, float):
        return voice.number(value, "significant")
    if isinstance(value, list):
        return ", ".join(plain(each, voice) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(each, voice)}" for name, each in value.items())
    return str(value)

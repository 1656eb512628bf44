"""The tables of `report.html`: what `roofline.json` and `manifest.json` hold, as people read it. Computes nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rooflab.look import catalogue
from rooflab.look.style import Look, Record, ceiling_name, format_of

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


def tables(roofline: Record, manifest: Record, look: Look) -> list[Table]:
    """Every table of the page in its order; one without rows is left out."""
    made = [
        ceilings(roofline, look),
        products(roofline, look),
        decode(roofline, look),
        ladder(roofline, look),
        checks(manifest, look),
        paid(manifest, look),
        holes(manifest, look),
        notes(manifest, look),
        provenance(manifest, look),
        records(manifest, look),
    ]
    return [table for table in made if table.rows]


def table(look: Look, anchor: str, columns: str, rows: list[list[Cell]], note: str = "") -> Table:
    """A table whose heads are named in `columns`; a + before a name sets the column right."""
    names = columns.split()
    heads = [look.say(f"report.column.{name.removeprefix('+')}") for name in names]
    right = frozenset(i for i, name in enumerate(names) if name.startswith("+"))
    return Table(anchor, look.say(f"report.{anchor}"), heads, rows, look.say(note) if note else "", right)


def number(look: Look, value: float | None, unit: str) -> Cell:
    """A number with its unit, a dash where there is none."""
    return look.say("report.none") if value is None else look.number(value, unit)


def flag(look: Look, value: bool | None) -> Cell:
    """Yes, no, or a dash."""
    return look.say("report.none" if value is None else "report.yes" if value else "report.no")


def ceilings(roofline: Record, look: Look) -> Table:
    """Every measured ceiling of both sides, the main side's first."""
    rows = []
    for c in sorted(roofline["ceilings"], key=lambda c: (c["side"] != roofline["main_side"], c["kind"], -c["burst"])):
        unit = c["unit_of_value"]
        spread = tuple(c["burst_spread"]) if c["burst_spread"] else None
        rows.append([
            c["side"].upper(), ceiling_name(look, c), look.number(c["burst"], unit),
            look.say("report.none") if spread is None else look.number(spread, unit),
            number(look, c["sustained"], unit), number(look, c["fraction_of_vendor"], "percent"),
            flag(look, c["power_capped"]), number(look, c["sm_clock_hz"], "hertz"), c["file"],
        ])  # fmt: skip
    columns = "side ceiling +burst +spread +sustained +vendor capped +clock record"
    return table(look, "ceilings", columns, rows, "report.ceilings.note")


def products(roofline: Record, look: Look) -> Table:
    """The matrix products of both sides."""
    rows = [
        [p["side"].upper(), format_of(p).replace("_", " "), str(p["n"]), number(look, p["intensity"], "intensity"),
         number(look, p["median_s"], "seconds"), number(look, p["achieved_flop_per_s"], "flop_per_s"),
         number(look, p["fraction_of_ceiling"], "percent"), number(look, p["fraction_of_vendor"], "percent"),
         bound(look, p), number(look, p["relative_error"], "significant"), p["file"]]
        for p in ordered(roofline, lambda p: p["operator"] == "gemm")
    ]  # fmt: skip
    columns = "side dtype +n +intensity +median +achieved +of_ceiling +vendor bound +error record"
    return table(look, "products", columns, rows)


def decode(roofline: Record, look: Look) -> Table:
    """The plotted decode points of both sides."""
    rows = [
        [p["side"].upper(), p["name"], str(p["sequence"]), number(look, p["median_s"], "seconds"),
         look.number((p["p10_s"], p["p90_s"]), "seconds"), number(look, p["achieved_flop_per_s"], "flop_per_s"),
         number(look, p["achieved_bytes_per_s"], "bytes_per_s"), bound(look, p), p["tier"] or look.say("report.none"),
         number(look, p["fraction_of_attainable"], "percent"), number(look, p["fraction_of_fp16_peak"], "percent")]
        for p in ordered(roofline, lambda p: p["operator"] == "decode_attention" and p["lab_point"])
    ]  # fmt: skip
    columns = "side name +S +median +spread +achieved +bandwidth bound tier +attainable +peak"
    return table(look, "decode", columns, rows, "report.decode.note")


def ladder(roofline: Record, look: Look) -> Table:
    """Every way of the same decode step, in order of its time."""
    points = ordered(roofline, lambda p: p["operator"] == "decode_attention")
    points.sort(key=lambda p: (p["side"] != roofline["main_side"], p["dtype"], p["sequence"], p["name"], p["median_s"]))
    rows = [
        [p["side"].upper(), p["name"], way(look, p), number(look, p["median_s"], "seconds"), bound(look, p),
         number(look, p["fraction_of_attainable"], "percent")]
        for p in points
    ]  # fmt: skip
    return table(look, "ladder", "side name way +median bound +attainable", rows)


def ordered(roofline: Record, wanted: Callable[[Record], bool]) -> list[Record]:
    """The wanted points, the main side's first, by format and size."""
    points = [p for p in roofline["points"] if wanted(p)]
    return sorted(points, key=lambda p: (p["side"] != roofline["main_side"], p["dtype"], p["sequence"] or p["n"] or 0))


def bound(look: Look, point: Record) -> Cell:
    """What bounds a point; a warning where it lies above its roof."""
    told = look.say(f"chart.bound.{point['bound_by']}") if point["bound_by"] else look.say("report.none")
    return f"{told} ({look.say('chart.above_roof')})" if point["above_roof"] else told


def way(look: Look, point: Record) -> Cell:
    """How a point was computed and launched."""
    launch = look.say(f"chart.launch.{point['launch']}.{point['timing']}")
    cold = [look.say("chart.cold")] if point["cache"] == "cold" else []
    return ", ".join([point["implementation"].replace("_", " "), launch, *cold])


def checks(manifest: Record, look: Look) -> Table:
    """The stop conditions."""
    rows = [
        [check_title(c, look), look.say(f"check.{c['status']}"), plain(c["value"], look), plain(c["limit"], look),
         "; ".join(part for part in (c["reason"], c["advice"]) if part)]
        for c in manifest["checks"]
    ]  # fmt: skip
    return table(look, "checks", "check status value limit advice", rows)


def check_title(check: Record, look: Look) -> Cell:
    """What a check asks for, in the language of the page where the catalogue has it."""
    key = f"check.{check['name']}"
    return look.say(key) if key in catalogue.texts() else str(check["title"])


def paid(manifest: Record, look: Look) -> Table:
    """Paid seconds of each stage and in all, what they cost, and whether the instance is terminated."""
    spent = manifest["paid"]
    rows = [[stage, look.number(seconds, "seconds")] for stage, seconds in spent["stages"].items()]
    usd = spent["usd"]
    cost = look.say("report.no_price") if usd is None else look.say("report.usd", usd=f"{usd:.2f}")
    rows.append([look.say("report.total"), f"{look.number(spent['paid_s'], 'seconds')}, {cost}"])
    closing = manifest.get("terminated")
    ended = closing and look.say("report.terminated", at=closing["terminated_at"])
    rows.append([ended or look.say("report.not_terminated"), ""])
    return table(look, "ledger", "stage +seconds", rows)


def holes(manifest: Record, look: Look) -> Table:
    """What was planned and not measured."""
    rows = [
        [
            h["stage"],
            h["name"],
            h["side"].upper(),
            look.say(f"status.{h['status']}"),
            catalogue.translated(h["reason"], look.language) if h["reason"] else "",
            h["remedy"] or "",
        ]
        for h in manifest["holes"]
    ]
    return table(look, "holes", "stage name side status reason remedy", rows)


def notes(manifest: Record, look: Look) -> Table:
    """What the model noticed."""
    rows = [[catalogue.translated(note, look.language)] for note in manifest["notes"]]
    return Table("notes", look.say("report.notes"), [], rows)


def provenance(manifest: Record, look: Look) -> Table:
    """The devices and environments that the records quote, and who rendered the page's numbers."""
    facts = {**manifest["devices"], **manifest["environment"], look.say("report.rendered_by"): manifest["rendered_by"]}
    rows = [[name, value] for name, value in flat(facts, look)]
    return table(look, "provenance", "fact value", rows)


def records(manifest: Record, look: Look) -> Table:
    """Every record with its hash."""
    rows = [
        [
            m["file"],
            look.say(f"status.{m['status']}"),
            m["started_at"],
            look.number(m["seconds"], "seconds"),
            m["sha256"][:16],
        ]
        for m in manifest["measurements"]
    ]
    return table(look, "records", "record status started +seconds hash", rows)


def flat(tree: Mapping[str, Any], look: Look, prefix: str = "") -> list[tuple[str, Cell]]:
    """Every leaf with its dotted name."""
    found: list[tuple[str, Cell]] = []
    for name, value in tree.items():
        if isinstance(value, Mapping):
            found += flat(value, look, f"{prefix}{name}.")
        else:
            found.append((prefix + name, plain(value, look)))
    return found


def plain(value: Any, look: Look) -> Cell:
    """Any JSON value as text: three digits for a float, entries after commas."""
    if value is None:
        return look.say("report.none")
    if isinstance(value, bool):
        return flag(look, value)
    if isinstance(value, float):
        return look.number(value, "significant")
    if isinstance(value, list):
        return ", ".join(plain(each, look) for each in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {plain(each, look)}" for name, each in value.items())
    return str(value)

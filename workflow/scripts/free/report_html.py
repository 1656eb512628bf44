"""Writes `report.html`: chart, words and tables of a session on one page that needs no network. Computes nothing."""

import argparse
import json
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from rooflab.explain.hover import marks
from rooflab.explain.marked import paragraphs
from rooflab.explain.tables import tables
from rooflab.look.document import checked
from rooflab.look.style import Record
from rooflab.look.voice import Voice
from rooflab.record.publish import write_text

READ = ("roofline", "manifest", "svg", "prose", "figures")
DATA = Path(__file__).parents[1] / "rooflab" / "data"


def page(roofline: Record, manifest: Record, svg: str, prose: str, figures: str, language: str = "en") -> str:
    """The whole page. Raises ValueError for a file that is no roofline or no SVG."""
    voice = Voice(language)
    side = roofline["main_side"]
    device = roofline["devices"].get(side) or {}
    dated = {"date": str(device["measured_at"])[:10]} if device.get("measured_at") else {}
    environment = Environment(
        loader=FileSystemLoader(DATA), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        language=language,
        say=voice.say,
        title=voice.say("report.title", device=device.get("name", roofline["session"])),
        subtitle=voice.say("report.measured" if dated else "report.drawn", session=roofline["session"], **dated),
        paragraphs=paragraphs(prose, figures),
        chart=Markup(drawing(svg)),
        marks=Markup(embedded(marks(roofline, voice))),
        tables=tables(roofline, manifest, voice),
        style=Markup((DATA / "report.css").read_text(encoding="utf-8")),
        script=Markup((DATA / "report.js").read_text(encoding="utf-8")),
    )


def drawing(svg: str) -> str:
    """The `svg` element of a file, which scales with the page. Raises ValueError where there is none."""
    start = svg.find("<svg")
    if start < 0:
        raise ValueError("there is no svg element: pass the roofline.svg of the session")
    head, rest = svg[start:].split(">", 1)
    return re.sub(r' (?:width|height)="[^"]*"', "", head) + ' role="group">' + rest


def embedded(data: Record) -> str:
    """JSON that may stand inside a script element."""
    return json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in (*READ, "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--language", default="en")
    given = parser.parse_args()
    read = {name: getattr(given, name).read_text(encoding="utf-8") for name in READ}
    roofline = checked(json.loads(read["roofline"]))
    made = (read["svg"], read["prose"], read["figures"])
    write_text(given.out, page(roofline, json.loads(read["manifest"]), *made, given.language))


if __name__ == "__main__":
    main()

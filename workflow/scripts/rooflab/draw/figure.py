"""The roofline picture: from `roofline.json` to a figure. Coordinates are all that is computed here."""

from matplotlib.figure import Figure

from rooflab.draw.caption import caption_lines
from rooflab.draw.decode import draw_detail
from rooflab.draw.labels import Placer
from rooflab.draw.marks import Panel, of_side
from rooflab.draw.roof import draw_roof
from rooflab.look.style import THEMES, Look, Record

HEIGHT_IN = 8.4
WIDTH_IN, NARROW_IN = 14.4, 8.7  # with and without the enlarged half
SMALL_IN = (7.9, 4.8)
LINE_IN = 0.138


def draw(roofline: Record, title: str | None = None, language: str = "en", theme: str = "light") -> Figure:
    """The whole figure: the roofline, decode attention enlarged beside it where it was measured, the caption below."""
    look, mine = Look(language, THEMES[theme]), main_entries(roofline)
    detailed = any(p["operator"] == "decode_attention" for p in mine["points"])
    width = WIDTH_IN if detailed else NARROW_IN
    figure = Figure(figsize=(width, HEIGHT_IN), dpi=100, facecolor=look.theme.paper)
    caption = caption_lines(roofline, look, width - 0.65)
    bottom = (len(caption) * LINE_IN + 1.0) / HEIGHT_IN
    tall = 1 - bottom - 0.6 / HEIGHT_IN
    write_title(figure, roofline, look, title, 0.65 / width)
    figure.text(0.65 / width, 0.1 / HEIGHT_IN, "\n".join(caption), fontsize=6.8, va="bottom", linespacing=1.35,
                color=look.theme.muted)  # fmt: skip
    placer = Placer(figure)
    whole = figure.add_axes((0.65 / width, bottom, 5.2 / width, tall))
    draw_roof(Panel(whole, look, placer), mine, other_decode(roofline))
    if detailed:
        detail = figure.add_axes((9.0 / width, bottom, 3.2 / width, tall))
        draw_detail(Panel(detail, look, placer), mine)
    return figure


def draw_small(roofline: Record, title: str | None = None, language: str = "en", theme: str = "light") -> Figure:
    """The roofline alone, for a page that shows it at half size."""
    look = Look(language, THEMES[theme])
    figure = Figure(figsize=SMALL_IN, dpi=100, facecolor=look.theme.paper)
    width, height = SMALL_IN
    axes = figure.add_axes((0.62 / width, 0.5 / height, 4.85 / width, 1 - 0.95 / height))
    write_title(figure, roofline, look, title, 0.62 / width)
    draw_roof(Panel(axes, look, Placer(figure)), main_entries(roofline), [], small=True)
    return figure


def write_title(figure: Figure, roofline: Record, look: Look, title: str | None, left: float) -> None:
    """The given title, or the device's name."""
    device = (roofline["devices"].get(roofline["main_side"]) or {}).get("name", roofline["session"])
    text = title or look.say("chart.title", device=device)
    top = 1 - 0.14 / figure.get_size_inches()[1]
    # a dollar sign is a dollar sign
    figure.text(left, top, text, fontsize=13, weight="bold", va="top", color=look.theme.ink, parse_math=False)


def main_entries(roofline: Record) -> dict[str, list[Record]]:
    """Ceilings, floors, points and ridge points of the side that the picture is about."""
    side = roofline["main_side"]
    mine = {key: of_side(roofline[key], side) for key in ("ceilings", "floors", "points")}
    drawn = {c["id"] for c in mine["ceilings"]}
    return mine | {"ridge_points": [r for r in roofline["ridge_points"] if r["ceiling"] in drawn]}


def other_decode(roofline: Record) -> list[Record]:
    """The decode points of the other side."""
    return [p for p in roofline["points"]
            if p["side"] != roofline["main_side"] and p["operator"] == "decode_attention"]  # fmt: skip

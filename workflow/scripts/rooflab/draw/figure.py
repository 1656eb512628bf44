"""The roofline picture: one slide of three panels whose title is the finding. Coordinates are all that is computed here."""

from textwrap import wrap

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from rooflab.draw.finding import finding, state
from rooflab.draw.labels import Placer
from rooflab.draw.panel import SMALLEST, Panel, head
from rooflab.draw.roof import draw_roof
from rooflab.draw.save import STABLE
from rooflab.draw.shares import draw_shares, rows_of
from rooflab.draw.shown import Shown, side_of
from rooflab.draw.steps import draw_steps
from rooflab.look.style import THEMES, Look, Record

SIZE_IN = (13.33, 7.5)
DPI = 100  # at which the places of texts are found; what is saved may have more
MARGIN = 0.014
ROOF, ROOF_ROOM = Bbox.from_extents(0.082, 0.15, 0.508, 0.832), 0.118
SHARES = Bbox.from_extents(0.634, 0.545, 0.99, 0.832)
STEPS = Bbox.from_extents(0.682, 0.15, 0.99, 0.388)
STEPS_WIDTH = 0.16
RIGHT_PANELS = 0.634  # where the letters of B and C stand
HEAD = 0.024  # of a panel's question above it
FOOT_CHARACTERS, FOOT_LINES = 205, 3


def draw(roofline: Record, title: str | None = None, language: str = "en", theme: str = "light") -> Figure:
    """The whole slide. `title` None: the finding, by rule."""
    with rc_context(STABLE):  # texts are measured as they will be saved
        return _draw(roofline, title, language, theme)


def _draw(roofline: Record, title: str | None, language: str, theme: str) -> Figure:
    look = Look(language, THEMES[theme])
    figure = Figure(figsize=SIZE_IN, dpi=DPI, facecolor=look.theme.paper)
    placer = Placer(figure)
    shown, host = sides(roofline)
    write_head(placer, look, title or finding(roofline, shown, look), state(roofline, shown, look))
    a, b, c = (Panel(figure.add_axes((box.x0, box.y0, width, box.height)), look, placer)
               for box, width in ((ROOF, ROOF.width), (SHARES, SHARES.width), (STEPS, STEPS_WIDTH)))  # fmt: skip
    rated = "" if not shown.compute or rows_of(shown)[1] else ".own"
    for panel, letter, box, left in (
        (a, "A", ROOF, MARGIN),
        (b, "B", SHARES, RIGHT_PANELS),
        (c, "C", STEPS, RIGHT_PANELS),
    ):
        key = f"chart.question.{letter}{rated if letter == 'B' else ''}"
        head(panel, letter, look.say(key), left, box.y1 + HEAD)
    draw_roof(a, shown, host, roofline, ROOF_ROOM)
    draw_shares(b, shown, roofline["answers"]["gemm"], SHARES)
    draw_steps(c, shown, STEPS)
    write_foot(placer, look, roofline, shown)
    return figure


def sides(roofline: Record) -> tuple[Shown, Shown | None]:
    """What the picture holds of its main side; and of the host, below a GPU."""
    main = side_of(roofline, roofline["main_side"])
    host = side_of(roofline, "cpu") if main.side == "gpu" else None
    return main, host if host and (host.compute or host.memory or host.steps) else None


def write_head(placer: Placer, look: Look, title: str, subtitle: str) -> None:
    """The finding, and below it what was measured when and in which state; each in one line."""
    figure, room = placer.figure, (1 - 2 * MARGIN) * placer.figure.bbox.width
    # a dollar sign is a dollar sign
    first = figure.text(
        MARGIN, 0.955, title, fontsize=18, weight="bold", va="center", color=look.theme.ink, parse_math=False
    )
    second = figure.text(MARGIN, 0.911, subtitle, fontsize=10.5, va="center", color=look.theme.muted, parse_math=False)
    for text in (first, second):
        placer.fit(text, room, SMALLEST)


def write_foot(placer: Placer, look: Look, roofline: Record, shown: Shown) -> None:
    """How the figures were taken, and where all the others are."""
    parts = [look.say(f"chart.foot.{shown.side}"), look.say("chart.foot.page", count=len(roofline["holes"]))]
    lines = wrap(" ".join(parts), FOOT_CHARACTERS)[:FOOT_LINES]
    text = placer.figure.text(
        MARGIN, 0.014, "\n".join(lines), fontsize=SMALLEST, color=look.theme.muted, va="bottom", linespacing=1.35
    )
    room, width = (1 - 2 * MARGIN) * placer.figure.bbox.width, FOOT_CHARACTERS
    while text.get_window_extent(placer.renderer).width > room:
        width -= 5
        text.set_text("\n".join(wrap(" ".join(parts), width)[:FOOT_LINES]))

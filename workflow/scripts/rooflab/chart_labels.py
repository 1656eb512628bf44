"""Puts texts beside their points, in the first free place of a list: no two overlap, none leaves its region."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import hypot

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

Place = tuple[float, float]

RIGHT, LEFT, ABOVE, BELOW = (1, 0), (-1, 0), (0, 1), (0, -1)
CORNERS = (1, 1), (1, -1), (-1, 1), (-1, -1)
SAMPLES = 8  # boxes that stand for one stretch of a line
DISTANCES = (7, 13, 20, 28, 38, 50, 64, 80, 100, 120, 145, 170)  # points
PADDING = 1.5  # pixels kept free around a text
LEADER_FROM = 20  # points: a text moved this far is tied to its point by a thin line


@dataclass
class Placer:
    """Remembers every box taken so far on one figure, in pixels."""

    figure: Figure
    taken: list[Bbox] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.renderer = FigureCanvasAgg(self.figure).get_renderer()

    def avoid(self, axes: Axes, x: float, y: float, radius: float = 4.0) -> None:
        """Keeps texts off the marker at data coordinates (x, y); `radius` in pixels."""
        px, py = axes.transData.transform((x, y))
        self.taken.append(Bbox.from_extents(px - radius, py - radius, px + radius, py + radius))

    def avoid_line(self, axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Keeps texts off the straight lines between neighbouring points, given in data coordinates."""
        corners = axes.transData.transform(list(zip(xs, ys, strict=True)))
        for (x0, y0), (x1, y1) in zip(corners, corners[1:], strict=False):
            for step in range(SAMPLES + 1):
                x, y = x0 + (x1 - x0) * step / SAMPLES, y0 + (y1 - y0) * step / SAMPLES
                self.taken.append(Bbox.from_extents(x - 1.5, y - 1.5, x + 1.5, y + 1.5))

    def put(
        self,
        axes: Axes,
        text: str,
        at: tuple[float, float],
        places: tuple[Place, ...] | None = None,
        region: Bbox | None = None,
        color: str = "black",
        size: float = 6.5,
    ) -> Annotation:
        """Writes `text` beside the data point `at`, in the first free of `places`, or the first."""
        inside = region if region is not None else axes.get_window_extent(self.renderer)
        note = axes.annotate(text, at, (0, 0), textcoords="offset points", fontsize=size, color=color, zorder=6)
        for place in places or around(RIGHT, LEFT, ABOVE, BELOW):
            set_place(note, place)
            box = note.get_window_extent(self.renderer).padded(PADDING)
            if contains(inside, box) and not any(box.overlaps(other) for other in self.taken):
                break
        else:
            set_place(note, (places or around(RIGHT))[0])
            box = note.get_window_extent(self.renderer)
        self.taken.append(box)
        if hypot(*note.get_position()) >= LEADER_FROM:
            draw_leader(axes, note, at, color)
        return note


def around(*directions: Place) -> tuple[Place, ...]:
    """Places ever further from a point: in the wished directions, then on the diagonals between them."""
    corners = tuple(c for c in CORNERS if (c[0], 0) in directions or (0, c[1]) in directions)
    return tuple((dx * d, dy * d) for d in DISTANCES for dx, dy in dict.fromkeys(directions + corners))


def column() -> tuple[Place, ...]:
    """Places in one column right of a point, ever further up or down."""
    return tuple((8, sign * dy) for dy in range(0, 160, 3) for sign in (1, -1))


def set_place(note: Annotation, place: Place) -> None:
    """Moves the text off its point, in points, and turns its near edge to it."""
    dx, dy = place
    note.set_position(place)
    note.set_horizontalalignment("center" if dx == 0 else "left" if dx > 0 else "right")
    note.set_verticalalignment("center" if dx != 0 else "bottom" if dy > 0 else "top")


def contains(outer: Bbox, inner: Bbox) -> bool:
    """Whether `inner` lies wholly in `outer`."""
    return bool(outer.x0 <= inner.x0 and outer.y0 <= inner.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1)


def draw_leader(axes: Axes, note: Annotation, at: tuple[float, float], color: str) -> None:
    """A thin line from the point to its text."""
    axes.annotate(
        "", at, note.get_position(), textcoords="offset points",
        arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": color, "shrinkA": 0, "shrinkB": 2}, zorder=2,
    )  # fmt: skip

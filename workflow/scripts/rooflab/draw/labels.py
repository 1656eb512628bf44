"""Puts texts where nothing else stands: beside their points, along a line, in a column of rows, or fitted into a width.

No two texts overlap and none leaves its region: a text that finds no place is left out, except for rows, which move.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import atan2, degrees, hypot
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

Place = tuple[float, float]
Extent = tuple[float, float, float, float]  # x0, y0, x1, y1

RIGHT, LEFT, ABOVE, BELOW = (1, 0), (-1, 0), (0, 1), (0, -1)
CORNERS = (1, 1), (1, -1), (-1, 1), (-1, -1)
STEP_PX = 6.0  # distance of the boxes that stand for a line
DISTANCES = (7, 11, 16, 22, 29, 38, 50, 64, 80, 100, 120, 145, 170)  # points
LIFTS_PX = (3.0, 7.0, 11.0, 15.0, 20.0, 25.0, 30.0)  # of a text above or below the line that it names
PADDING = 1.5  # pixels kept free around a text
LEAD_PX = 9.0  # from the axes to a column of rows, at 100 dots an inch
LEADER_FROM = 20  # points: a text moved this far is tied to its point by a thin line
ALONG = tuple(
    sorted((step / 40 for step in range(6, 36)), key=lambda share: abs(share - 0.66))
)  # of a line, for its name


@dataclass
class Placer:
    """Remembers every box taken so far on one figure, in pixels."""

    figure: Figure
    taken: list[Extent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.renderer = FigureCanvasAgg(self.figure).get_renderer()

    def avoid(self, axes: Axes, x: float, y: float, radius: float = 4.0) -> None:
        """Keeps texts off the marker at data coordinates (x, y); `radius` in pixels."""
        px, py = axes.transData.transform((x, y))
        self.taken.append((px - radius, py - radius, px + radius, py + radius))

    def avoid_line(self, axes: Axes, xs: Sequence[float], ys: Sequence[float], half: float = 1.5) -> None:
        """Keeps texts off the lines between neighbouring points in data coordinates; `half` their width in pixels."""
        corners = axes.transData.transform(list(zip(xs, ys, strict=True)))
        for start, end in zip(corners, corners[1:], strict=False):
            self.taken += boxes_along(start, end, half)

    def free(self, box: Extent) -> bool:
        """Whether nothing stands in `box`."""
        x0, y0, x1, y1 = box
        return not any(x0 < right and left < x1 and y0 < top and low < y1 for left, low, right, top in self.taken)

    def put(
        self,
        axes: Axes,
        text: str,
        at: tuple[float, float],
        places: tuple[Place, ...] | None = None,
        region: Bbox | None = None,
        color: str = "black",
        size: float = 9,
        leader: bool = True,
        **style: Any,
    ) -> Annotation | None:
        """Writes `text` beside the data point `at`, in the first free of `places`; None where there is none."""
        inside = region if region is not None else axes.get_window_extent(self.renderer)
        paper = {"facecolor": self.figure.get_facecolor(), "edgecolor": "none", "pad": 0.8}
        note = axes.annotate(text, at, (0, 0), textcoords="offset points", fontsize=size, color=color, zorder=8, bbox=paper,
                             **style)  # fmt: skip
        for place in places or around(RIGHT, LEFT, ABOVE, BELOW):
            set_place(note, place)
            box = extent_of(note.get_window_extent(self.renderer).padded(PADDING))
            if contains(extent_of(inside), box) and self.free(box):
                self.taken.append(box)
                if leader and hypot(*place) >= LEADER_FROM:
                    draw_leader(axes, note, at, color)
                return note
        note.remove()
        return None

    def along(
        self, axes: Axes, text: str, start: Place, end: Place, above: bool = True, size: float = 9, color: str = "black",
        lifts: Sequence[float] = LIFTS_PX, **style: Any,
    ) -> Text | None:  # fmt: skip
        """Writes `text` along the line between two data points, above or below it; None where there is no room."""
        (x0, y0), (x1, y1) = axes.transData.transform([start, end])
        length, angle = hypot(x1 - x0, y1 - y0), degrees(atan2(y1 - y0, x1 - x0))
        note = axes.text(*start, text, fontsize=size, color=color, ha="center", va="bottom" if above else "top",
                         rotation_mode="anchor", zorder=6, **style)  # fmt: skip
        extent = note.get_window_extent(self.renderer)
        inside = extent_of(axes.get_window_extent(self.renderer))
        half, tall, sign = extent.width / 2, extent.height, 1 if above else -1
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        for lift in lifts:
            for share in ALONG:
                if min(share, 1 - share) * length < half:
                    continue
                x, y = x0 + ux * share * length, y0 + uy * share * length
                away = sign * (lift + tall / 2)
                middle = (x - uy * away, y + ux * away)
                boxes = boxes_along((middle[0] - ux * half, middle[1] - uy * half),
                                    (middle[0] + ux * half, middle[1] + uy * half), tall * 0.42)  # fmt: skip
                if all(contains(inside, box) and self.free(box) for box in boxes):
                    self.taken += boxes
                    lifted = (x - uy * sign * lift, y + ux * sign * lift)
                    note.set(position=axes.transData.inverted().transform(lifted), rotation=angle)
                    return note
        note.remove()
        return None

    def rows(self, axes: Axes, room: float, rows: list[tuple[float, str, dict[str, Any]]]) -> list[Text]:
        """Writes texts right of the axes, each as near to its y (data) as the others let it, tied to it by a thin line.

        `room`: the width there is, as a share of the figure's. A row is its y, its text and its style.
        """
        box, (width, height) = axes.get_window_extent(self.renderer), self.figure.bbox.size
        ordered = sorted(rows, key=lambda row: -row[0])
        edge = box.x1 + LEAD_PX * self.figure.dpi / 100
        texts = [self.figure.text(edge / width, 0, text, va="center", **style) for _, text, style in ordered]
        for text in texts:
            self.wrap(text, room * width - (edge - box.x1))
        wanted = [float(axes.transData.transform((1, y))[1]) for y, _, _ in ordered]
        heights = [text.get_window_extent(self.renderer).height + 2 * PADDING for text in texts]
        for text, start, y in zip(texts, wanted, spread(wanted, heights, box.y0, box.y1), strict=True):
            text.set_y(y / height)
            xs = [x / width for x in (box.x1 + 1, edge - 3)]
            self.figure.add_artist(Line2D(xs, [start / height, y / height], color=text.get_color(), linewidth=0.6))
            self.taken.append(extent_of(text.get_window_extent(self.renderer)))
        return texts

    def wrap(self, text: Text, room: float, most: int = 4) -> None:
        """Breaks a text at its blanks into as few lines as a width in pixels asks for, at most `most`."""
        whole = text.get_text()
        for lines in range(1, most + 1):
            text.set_text(fill(whole, -(-len(whole) // lines) + (2 if lines > 1 else 0)))
            if text.get_window_extent(self.renderer).width <= room:
                return

    def fit(self, text: Text, room: float, smallest: float) -> None:
        """Makes a text smaller until it is no wider than `room` pixels, then cuts it where `smallest` points are too wide."""
        while text.get_window_extent(self.renderer).width > room and float(text.get_fontsize()) > smallest:
            text.set_fontsize(max(float(text.get_fontsize()) - 0.25, smallest))
        while text.get_window_extent(self.renderer).width > room:
            text.set_text(f"{text.get_text().rstrip(' …')[:-1].rstrip()} …")


def spread(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Middles of stacked boxes, each as near to its wanted one as the others let it; from the top down.

    Least squares under an order (pool adjacent violators), then kept between `low` and `high`.
    """
    offsets = [0.0]
    for upper, lower in zip(heights, heights[1:], strict=False):
        offsets.append(offsets[-1] + (upper + lower) / 2)
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        pools.append((want + offset, 1))
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [((a * n + b * m) / (n + m), n + m)]
    tops = [top for top, count in pools for _ in range(count)]
    if not tops:
        return []
    least, most = low + heights[-1] / 2 + offsets[-1], high - heights[0] / 2
    return [min(max(top, least), max(most, least)) - offset for top, offset in zip(tops, offsets, strict=True)]


def boxes_along(start: Sequence[float], end: Sequence[float], half: float) -> list[Extent]:
    """Boxes of half width `half` that cover the line between two pixels."""
    count = max(1, round(hypot(end[0] - start[0], end[1] - start[1]) / max(STEP_PX, half)))
    centres = [[a + (b - a) * step / count for a, b in zip(start, end, strict=True)] for step in range(count + 1)]
    return [(x - half, y - half, x + half, y + half) for x, y in centres]


def around(*directions: Place) -> tuple[Place, ...]:
    """Places ever further from a point: in the wished directions, then on the diagonals between them."""
    corners = tuple(c for c in CORNERS if (c[0], 0) in directions or (0, c[1]) in directions)
    return tuple((dx * d, dy * d) for d in DISTANCES for dx, dy in dict.fromkeys(directions + corners))


def set_place(note: Annotation, place: Place) -> None:
    """Moves the text off its point, in points, and turns its near edge to it."""
    dx, dy = place
    note.set_position(place)
    note.set_horizontalalignment("center" if dx == 0 else "left" if dx > 0 else "right")
    note.set_verticalalignment("center" if dx != 0 else "bottom" if dy > 0 else "top")


def extent_of(box: Bbox) -> Extent:
    """The corners of a box as plain numbers, which are compared many times."""
    x0, y0, x1, y1 = map(float, box.extents)
    return x0, y0, x1, y1


def contains(outer: Extent, inner: Extent) -> bool:
    """Whether `inner` lies wholly in `outer`."""
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def draw_leader(axes: Axes, note: Annotation, at: tuple[float, float], color: str) -> None:
    """A thin line from the point to its text."""
    axes.annotate(
        "", at, note.get_position(), textcoords="offset points",
        arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": color, "shrinkA": 0, "shrinkB": 2}, zorder=2,
    )  # fmt: skip

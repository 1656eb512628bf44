"""A roofline in plain characters, for the closing lines of a run: readable without colour, at most 78 columns wide.

Computes coordinates only; every figure is one of `roofline.json`.
"""

from collections.abc import Sequence
from math import log10
from typing import Any

from rooflab.look import words
from rooflab.look.style import Record

COLUMNS, ROWS = 32, 11  # of the drawing, without its labels
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PLAIN, FINE = (
    {"roof": "-", "slope": "/", "point": "x", "decode": "o"},
    {"roof": "─", "slope": "╱", "point": "×", "decode": "●"},
)
LEGEND_ROWS = ROWS - 2


def lines(roofline: Record, encoding: str | None = "ascii") -> list[str]:
    """The drawing of the main side: slope and ceilings as lines, products as crosses, decode attention as dots.

    `encoding` is that of the terminal: where it lacks the fine characters plain ones are used. Without a
    ceiling and a slope there are no lines.
    """
    side = roofline["main_side"]
    compute, memory = (
        [c for c in roofline["ceilings"] if (c["side"], c["kind"]) == (side, kind)] for kind in ("compute", "memory")
    )
    points = [p for p in roofline["points"] if p["side"] == side and p["lab_point"]]
    slope = main_slope(memory)
    if not compute or slope is None:
        return []
    marks = FINE if can_show(FINE.values(), encoding) else PLAIN
    box = Box(compute, points, slope)
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    draw_roofs(grid, box, compute, slope, marks)
    for point in points:
        mark = marks["decode" if point["operator"] == "decode_attention" else "point"]
        box.put(grid, point["intensity"], point["achieved_flop_per_s"], mark)
    return framed(grid, box, legend(compute, slope, points, marks))


class Box:
    """The range of the axes, and where a point of them falls in the grid."""

    def __init__(self, compute: Sequence[Record], points: Sequence[Record], slope: Record) -> None:
        rates = [c["burst"] for c in compute] + [p["achieved_flop_per_s"] for p in points]
        widths = [p["intensity"] for p in points] + [c["burst"] / slope["burst"] for c in compute]
        self.left, self.right = log10(min(widths) / 2), log10(max(widths) * 2)
        self.low, self.high = log10(min(rates) / 1.5), log10(max(rates) * 1.2)

    def column(self, intensity: float) -> int:
        """The column of an intensity."""
        return round((log10(intensity) - self.left) / (self.right - self.left) * (COLUMNS - 1))

    def row(self, flop_per_s: float) -> int:
        """The row of a rate, from the top."""
        return ROWS - 1 - round((log10(flop_per_s) - self.low) / (self.high - self.low) * (ROWS - 1))

    def intensity(self, column: int) -> float:
        """The intensity in the middle of a column."""
        return float(10 ** (self.left + (self.right - self.left) * column / (COLUMNS - 1)))

    def put(self, grid: list[list[str]], intensity: float, flop_per_s: float, mark: str) -> None:
        """Writes a mark where a point falls, if that is inside."""
        row, column = self.row(flop_per_s), self.column(intensity)
        if 0 <= row < ROWS and 0 <= column < COLUMNS:
            grid[row][column] = mark


def main_slope(memory: Sequence[Record]) -> Record | None:
    """The copy slope of main memory, as the lab draws it; else the fastest that is no cache."""
    main = [c for c in memory if c["tier"] != "L2"]
    return min(main, key=lambda c: (c["pattern"] != "d2d", -c["burst"]), default=None)


def draw_roofs(
    grid: list[list[str]], box: Box, compute: Sequence[Record], slope: Record, marks: dict[str, str]
) -> None:
    """The slope up to the highest ceiling, and every ceiling right of it; letters name them at their end."""
    ordered = sorted(compute, key=lambda c: -c["burst"])
    for column in range(COLUMNS):
        intensity = box.intensity(column)
        if intensity * slope["burst"] <= ordered[0]["burst"]:
            box.put(grid, intensity, intensity * slope["burst"], marks["slope"])
        for ceiling in ordered:
            if intensity * slope["burst"] > ceiling["burst"]:
                grid[box.row(ceiling["burst"])][column] = marks["roof"]
    for row in range(ROWS):
        here = [letter for c, letter in zip(ordered, LETTERS, strict=False) if box.row(c["burst"]) == row]
        grid[row][COLUMNS - len(here) :] = here


def legend(compute: Sequence[Record], slope: Record, points: Sequence[Record], marks: dict[str, str]) -> list[str]:
    """What the letters and marks mean, with the rate of each ceiling."""
    ordered = sorted(compute, key=lambda c: -c["burst"])
    named = [
        f"{letter} {name_of(c)} {words.flop_per_s(c['burst'])}" for c, letter in zip(ordered, LETTERS, strict=False)
    ]
    if len(named) > LEGEND_ROWS - 2:
        named = [*named[: LEGEND_ROWS - 3], f"  and {len(named) - LEGEND_ROWS + 3} more ceilings"]
    told = [*named, f"{marks['slope']} {slope['tier']} {words.bytes_per_s(slope['burst'])}"]
    shown = {p["operator"] for p in points}
    kinds = {"gemm": f"{marks['point']} GEMM", "decode_attention": f"{marks['decode']} decode"}
    return [*told, "  ".join(text for operator, text in kinds.items() if operator in shown)]


def name_of(ceiling: Record) -> str:
    """The short name of a compute ceiling."""
    return str(ceiling.get("variant") or ceiling["dtype"]).replace("_", " ")


def framed(grid: list[list[str]], box: Box, told: Sequence[str]) -> list[str]:
    """The drawing with its highest and lowest rate at the left, the legend at the right and intensities below."""
    ends = {0: words.flop_per_s(10**box.high), ROWS - 1: words.flop_per_s(10**box.low)}
    left = max(map(len, ends.values()))
    rows = [
        f"  {ends.get(i, ''):>{left}} |{''.join(row)}  {told[i] if i < len(told) else ''}".rstrip()
        for i, row in enumerate(grid)
    ]
    first, last = words.significant(10**box.left, 2), words.significant(10**box.right, 2)
    middle = "FLOP/byte".center(COLUMNS - len(first) - len(last))
    return [*rows, f"  {'':>{left}} +{'-' * COLUMNS}", f"  {'':>{left}}  {first}{middle}{last}"]


def can_show(marks: Any, encoding: str | None) -> bool:
    """Whether a terminal of that encoding has every mark."""
    try:
        "".join(marks).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True

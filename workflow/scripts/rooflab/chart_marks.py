"""How a point looks on the chart: colour, marker, place, and the words beside it."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rooflab import words

Record = dict[str, Any]

# Okabe and Ito's palette, readable with any colour vision; marker and dash keep the dtypes apart in grey
STYLES: dict[str, tuple[str, str, str]] = {
    "fp32": ("#0072B2", "o", "-"),
    "tf32": ("#2A8FC4", "p", "-."),
    "fp16": ("#D55E00", "s", "-"),
    "bf16": ("#00805F", "^", "--"),
    "fp8_e4m3": ("#B0568A", "D", "-."),
    "int8": ("#B87900", "v", ":"),
    "fp64": ("#5A5A5A", "X", ":"),
}
SLOPE_DASHES = {"d2d": "-", "read": "--", "triad": "-.", "write": ":"}
SLOPE_GREY = "#404040"
MUTED = "#A0A0A0"
ALARM = "#C00000"
SLOT = 10**0.14  # factor on x between two dtypes of one intensity
STEP = 10**0.015  # factor on x between two S of one dtype


def of_side(entries: Iterable[Record], side: str) -> list[Record]:
    """The entries of the GPU or of the CPU."""
    return [entry for entry in entries if entry["side"] == side]


def of_kind(ceilings: Iterable[Record], kind: str) -> list[Record]:
    """The compute or the memory ceilings."""
    return [ceiling for ceiling in ceilings if ceiling["kind"] == kind]


def limits(values: Iterable[float], below: float, above: float) -> tuple[float, float]:
    """Axis limits that hold every value, with a factor to spare on either side; (1, 10) without values."""
    known = list(values)
    return (min(known) / below, max(known) * above) if known else (1.0, 10.0)


def mark(axes: Axes, point: Record, x: float, named: bool) -> None:
    """The marker of one point: filled for the plotted lab point, hollow otherwise, ringed in red above its roof."""
    color, marker, _ = STYLES[point["dtype"]]
    y, face = point["achieved_flop_per_s"], color if point["lab_point"] else "white"
    axes.plot(x, y, marker, color=face, markeredgecolor=color, markeredgewidth=0.9, markersize=5, zorder=5,
              gid=point["id"] if named else None)  # fmt: skip
    if point["above_roof"]:
        axes.plot(x, y, "o", mfc="none", mec=ALARM, markeredgewidth=1.4, markersize=11, zorder=5)


def fan_out(decode: list[Record]) -> dict[str, float]:
    """The x of each decode point by id: points of one intensity stand side by side, by dtype and then by S."""
    places: dict[str, float] = {}
    for intensity, same in groupby(sorted(decode, key=lambda p: p["intensity"]), key=lambda p: p["intensity"]):
        points = list(same)
        dtypes = [d for d in STYLES if any(p["dtype"] == d for p in points)]
        lengths = sorted({p["sequence"] for p in points})
        for point in points:
            slot = dtypes.index(point["dtype"]) - (len(dtypes) - 1) / 2
            step = lengths.index(point["sequence"]) - (len(lengths) - 1) / 2
            places[point["id"]] = intensity * SLOT**slot * STEP**step
    return places


def columns(decode: list[Record]) -> dict[str, float]:
    """The x of each decode point by id in the detail: a column for each dtype, S from left to right."""
    dtypes = [d for d in STYLES if any(p["dtype"] == d for p in decode)]
    lengths = sorted({p["sequence"] for p in decode})
    return {p["id"]: dtypes.index(p["dtype"]) + 0.07 * lengths.index(p["sequence"]) for p in decode}


def decode_groups(decode: list[Record]) -> list[list[Record]]:
    """The points of one implementation, launch and dtype, in order of S."""

    def kind(point: Record) -> tuple[str, ...]:
        return tuple(str(point[field]) for field in ("dtype", "implementation", "launch", "timing", "cache"))

    return [list(group) for _, group in groupby(sorted(decode, key=lambda p: (kind(p), p["sequence"])), key=kind)]


def fraction_text(point: Record) -> str:
    """A GEMM's fraction of its own ceiling; a decode point's of the fp16 peak, where one was measured."""
    fraction = point["fraction_of_ceiling"]
    if point["operator"] == "decode_attention" and point["fraction_of_fp16_peak"] is not None:
        fraction = point["fraction_of_fp16_peak"]
    return "no ceiling measured" if fraction is None else words.percent(fraction)


def peak_name(decode: list[Record]) -> str:
    """The peak that the percentages of the decode points refer to."""
    return "the fp16" if any(p["fraction_of_fp16_peak"] is not None for p in decode) else "its dtype's"


def roof_text(point: Record) -> str:
    """The warning beside a point that lies above its roof, which no true measurement can."""
    return " above its roof" if point["above_roof"] else ""


def group_text(group: list[Record]) -> str:
    """Implementation and tier of a group; the range of its fractions where they are not written singly."""
    first, last = group[0], group[-1]
    name = first["implementation"].replace("_", " ")
    if first["launch"] == "graph":
        name += " in a graph"
    tags = sorted({f"in {p['tier']}" for p in group if p["tier"]})
    tags.append("/".join(sorted({p["bound_by"] for p in group})) + "-bound")
    fractions = words.span(fraction_text(first), fraction_text(last))
    return f"{name}\n{', '.join(tags)}" + ("" if any(p["lab_point"] for p in group) else f"\n{fractions}")


def frame(axes: Axes, x_limits: tuple[float, float], y_limits: tuple[float, float], compute: list[Record]) -> None:
    """Log-log axes; y in TFLOP/s, or in GFLOP/s where no ceiling reaches 1 TFLOP/s."""
    factor, unit = (1e9, "GFLOP/s") if max((c["burst"] for c in compute), default=1e12) < 1e12 else (1e12, "TFLOP/s")
    axes.set(xscale="log", yscale="log", xlim=x_limits, ylim=y_limits)
    axes.set_xlabel("arithmetic intensity (FLOP/byte)", fontsize=9)
    axes.set_ylabel(f"achieved ({unit})", fontsize=9)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words.significant(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words.significant(value / factor)))
    if y_limits[1] / y_limits[0] < 1e3:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    axes.grid(True, which="major", color="#E4E4E4", linewidth=0.5)
    axes.set_axisbelow(True)

"""Numbers as people read them: at most three significant digits, a prefix, a unit. Input is in SI base units."""

from math import floor, log10

LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def significant(value: float, digits: int = 3) -> str:
    """`value` in plain decimals, rounded to `digits` significant digits: 798.4 → 798, 0.00312 → 0.00312, 2.0 → 2."""
    if value == 0:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    text = f"{round(value, decimals):.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def flop_per_s(value: float) -> str:
    """A rate in TFLOP/s, or with the prefix that fits below it: 1.42e15 is 1420 TFLOP/s, 2.6e10 is 26 GFLOP/s."""
    factor, prefix = next(((f, p) for f, p in LARGE if value >= f), (1.0, ""))
    return f"{significant(value / factor)} {prefix}FLOP/s"


def bytes_per_s(value: float) -> str:
    """A bandwidth in GB/s (1e9 bytes each second)."""
    return f"{significant(value / 1e9)} GB/s"


def seconds(value: float) -> str:
    """A duration in s, ms, µs or ns."""
    factor, prefix = next(((f, p) for f, p in SMALL if value >= f), SMALL[-1])
    return f"{significant(value / factor)} {prefix}s"


def hertz(value: float) -> str:
    """A clock in MHz."""
    return f"{value / 1e6:.0f} MHz"


def percent(fraction: float) -> str:
    """A fraction as a percentage: 0.813 → 81.3 %."""
    return f"{significant(fraction * 100)} %"


def times(ratio: float) -> str:
    """A ratio: 12.3×."""
    return f"{significant(ratio)}×"


def intensity(value: float) -> str:
    """An arithmetic intensity in FLOP per byte."""
    return f"{significant(value)} FLOP/byte"


def span(low: str, high: str) -> str:
    """Two texts with one unit as a range: '3 %', '5 %' → '3–5 %'; equal ends are said once."""
    if low == high:
        return low
    (first, unit_low), (last, unit_high) = low.rsplit(" ", 1), high.rsplit(" ", 1)
    return f"{first}–{last} {unit_high}" if unit_low == unit_high else f"{low} – {high}"


def listed(items: list[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"

"""Numbers as people read them: at most three significant digits, a prefix, a unit. Input is in SI base units."""

import re
from math import floor, log10

LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
LEADING_NUMBER = re.compile(r"([\d.]+)(\D.*)", re.DOTALL)


def significant(value: float, digits: int = 3) -> str:
    """`value` in plain decimals, rounded to `digits` significant digits: 798.4 → 798, 0.00312 → 0.00312, 2.0 → 2."""
    if value == 0:
        return "0"
    decimals = digits - 1 - floor(log10(abs(value)))
    text = f"{round(value, decimals):.{max(decimals, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def flop(value: float) -> str:
    """A count of operations in TFLOP, or with the prefix that fits below it."""
    factor, prefix = next(((f, p) for f, p in LARGE if value >= f), (1.0, ""))
    return f"{significant(value / factor)} {prefix}FLOP"


def flop_per_s(value: float) -> str:
    """A rate in TFLOP/s, or with the prefix that fits below it: 1.42e15 is 1420 TFLOP/s, 2.6e10 is 26 GFLOP/s."""
    return f"{flop(value)}/s"


def bytes_per_s(value: float) -> str:
    """A bandwidth in GB/s (1e9 bytes each second)."""
    return f"{significant(value / 1e9)} GB/s"


def nbytes(value: float) -> str:
    """A size in B, KiB, MiB or GiB (powers of 1024)."""
    factor, unit = next(((f, u) for f, u in BINARY if value >= f), BINARY[-1])
    return f"{significant(value / factor)} {unit}"


def seconds(value: float) -> str:
    """A duration in s, ms, µs or ns."""
    factor, prefix = next(((f, p) for f, p in SMALL if value >= f), SMALL[-1])
    return f"{significant(value / factor)} {prefix}s"


def hertz(value: float) -> str:
    """A clock in MHz."""
    return f"{value / 1e6:.0f} MHz"


def watts(value: float) -> str:
    """A power in W."""
    return f"{value:.0f} W"


def percent(fraction: float) -> str:
    """A fraction as a percentage: 0.813 → 81.3 %."""
    return f"{significant(fraction * 100)} %"


def hundredths(fraction: float) -> str:
    """A fraction in whole hundredths, without a sign: 0.813 → 81."""
    return f"{fraction * 100:.0f}"


def times(ratio: float) -> str:
    """A ratio: 12.3×."""
    return f"{significant(ratio)}×"


def intensity(value: float) -> str:
    """An arithmetic intensity in FLOP per byte; a whole one is exact and written out: 2048 FLOP/byte."""
    return f"{value:.0f} FLOP/byte" if value == round(value) else f"{significant(value)} FLOP/byte"


def span(low: str, high: str) -> str:
    """Two texts with one unit as a range: '3 %', '5 %' → '3–5 %'; equal ends are said once."""
    if low == high:
        return low
    first, last = LEADING_NUMBER.fullmatch(low), LEADING_NUMBER.fullmatch(high)
    if first is None or last is None or first[2] != last[2]:
        return f"{low} – {high}"
    return f"{first[1]}–{high}"

"""Numbers as people read them: three significant digits, a prefix, a unit. Input is in SI base units.

A figure that hangs on the host's speed of the moment (a step launched from Python, a step of NumPy) gets two digits.
"""

import re
from math import floor, log10

DIGITS, HOST_DIGITS = 3, 2
LARGE = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
BINARY = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
WIDTHS = ((1e12, "TB/s"), (1e9, "GB/s"))
ROUNDED_UP = 0.9995  # from here on three digits round to the next prefix: 999.7 GB/s is 1.00 TB/s
LEADING_NUMBER = re.compile(r"([\d.]+)(\D.*)?", re.DOTALL)


def significant(value: float, digits: int = DIGITS) -> str:
    """`value` in plain decimals with `digits` significant digits, zeros kept: 798.4 → 798, 0.00312 → 0.00312, 2.0 → 2.00."""
    if value == 0:
        return "0"
    rounded = round(value, digits - 1 - floor(log10(abs(value))))
    return f"{rounded:.{max(digits - 1 - floor(log10(abs(rounded))), 0)}f}"


def exact(value: float) -> str:
    """A number that nobody measured, as short as it is: 0.3, 70, 100."""
    return f"{value:.0f}" if value == round(value) else f"{value:.6g}"


def flop(value: float, digits: int = DIGITS) -> str:
    """A count of operations with the prefix that fits: 1.42e15 is 1.42 PFLOP, 2.6e10 is 26.0 GFLOP."""
    factor, prefix = next(((f, p) for f, p in LARGE if value >= f * ROUNDED_UP), (1.0, ""))
    return f"{significant(value / factor, digits)} {prefix}FLOP"


def flop_per_s(value: float, digits: int = DIGITS) -> str:
    """A rate with the prefix that fits: 1.42e15 is 1.42 PFLOP/s."""
    return f"{flop(value, digits)}/s"


def tick_flop_per_s(value: float) -> str:
    """A rate on an axis, as short as it is: 10 TFLOP/s."""
    factor, prefix = next(((f, p) for f, p in LARGE if value >= f * ROUNDED_UP), (1.0, ""))
    return f"{exact(value / factor)} {prefix}FLOP/s"


def tick_seconds(value: float) -> str:
    """A duration on an axis, as short as it is: 10 µs."""
    factor, prefix = next(((f, p) for f, p in SMALL if value >= f * ROUNDED_UP), SMALL[-1])
    return f"{exact(value / factor)} {prefix}s"


def bytes_per_s(value: float) -> str:
    """A bandwidth in TB/s or GB/s (powers of 1000)."""
    factor, unit = next(((f, u) for f, u in WIDTHS if value >= f * ROUNDED_UP), WIDTHS[-1])
    return f"{significant(value / factor)} {unit}"


def nbytes(value: float) -> str:
    """A size in B, KiB, MiB or GiB (powers of 1024); a whole one is exact and written out."""
    factor, unit = next(((f, u) for f, u in BINARY if value >= f), BINARY[-1])
    scaled = value / factor
    return f"{scaled:.0f} {unit}" if scaled == round(scaled) else f"{significant(scaled)} {unit}"


def seconds(value: float, digits: int = DIGITS) -> str:
    """A duration in s, ms, µs or ns."""
    factor, prefix = next(((f, p) for f, p in SMALL if value >= f * ROUNDED_UP), SMALL[-1])
    return f"{significant(value / factor, digits)} {prefix}s"


def hertz(value: float) -> str:
    """A clock in GHz."""
    return f"{significant(value / 1e9)} GHz"


def watts(value: float) -> str:
    """A power in W."""
    return f"{value:.0f} W"


def percent(fraction: float, digits: int = DIGITS) -> str:
    """A fraction as a percentage: 0.813 → 81.3 %."""
    return f"{significant(fraction * 100, digits)} %"


def exact_percent(fraction: float) -> str:
    """A share that nobody measured: 0.7 → 70 %."""
    return f"{exact(fraction * 100)} %"


def times(ratio: float, digits: int = DIGITS) -> str:
    """A ratio: 12.3×."""
    return f"{significant(ratio, digits)}×"


def intensity(value: float) -> str:
    """An arithmetic intensity in FLOP per byte; a whole or half one is exact and written out: 2048 FLOP/byte."""
    return f"{exact(value) if 2 * value == round(2 * value) else significant(value)} FLOP/byte"


def span(low: str, high: str) -> str:
    """Two texts with one unit as a range: '3 %', '5 %' → '3–5 %'; equal ends are said once."""
    return "".join(part for part in pieces(low, high) if part)


def pieces(low: str, high: str) -> tuple[str, str, str]:
    """The two ends of a range and what stands between them; the first two are empty where the ends are equal."""
    if low == high:
        return "", "", high
    first, last = LEADING_NUMBER.fullmatch(low), LEADING_NUMBER.fullmatch(high)
    if first is None or last is None or first[2] != last[2]:
        return low, " – ", high
    return first[1], "–", high

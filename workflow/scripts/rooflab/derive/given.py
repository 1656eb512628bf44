"""The CPU's ceilings from a roofline measured elsewhere, given instead of records."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rooflab.derive.chip.clock import UNCLOCKED
from rooflab.derive.memory import PATTERN_LABEL, UNSWEPT
from rooflab.record.types import Ceiling
from rooflab.theory.dtypes import DTYPES, dtype


def read_cpu_roofline(path: Path) -> list[Ceiling]:
    """The ceilings of such a file. Raises ValueError for a file that is none."""
    return given_ceilings(json.loads(path.read_text(encoding="utf-8")), path.name)


def given_ceilings(given: Mapping[str, Any], file: str) -> list[Ceiling]:
    """Expects {"flop_per_s": {dtype: rate}, "bytes_per_s": {"read": rate, "triad": rate}}, SI units. Raises ValueError."""
    try:
        compute, memory = dict(given["flop_per_s"]), dict(given["bytes_per_s"])
        rates = [float(rate) for rate in [*compute.values(), *memory.values()]]
        valid = min(rates, default=0.0) > 0 and set(compute) <= set(DTYPES) and set(memory) <= {"read", "triad"}
    except (KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f'{file}: not a CPU roofline: expected {{"flop_per_s": {{"fp32": 8e11}}, "bytes_per_s": {{"read": 4e10, '
            '"triad": 3e10}} in SI units, rates above 0'
        )
    tops = [_given(file, "compute", name, float(rate)) for name, rate in compute.items()]
    return tops + [_given(file, "memory", name, float(rate)) for name, rate in memory.items()]


def _given(file: str, kind: str, name: str, rate: float) -> Ceiling:
    is_compute = kind == "compute"
    return {
        "id": f"cpu-{kind}-{name}",
        "side": "cpu",
        "kind": kind,
        "label": f"{dtype(name).label} CPU" if is_compute else f"DRAM {PATTERN_LABEL[name]}",
        "dtype": name if is_compute else None,
        "variant": name if is_compute else None,
        "unit": "CPU" if is_compute else None,
        "accumulator": None,
        "tier": None if is_compute else "DRAM",
        "pattern": None if is_compute else name,
        "burst": rate,
        "burst_spread": [rate, rate],
        "sustained": None,
        "unit_of_value": "flop_per_s" if is_compute else "bytes_per_s",
        "vendor": None,
        "fraction_of_vendor": None,
        "sustained_fraction_of_vendor": None,
        "power_capped": None,
        "sm_clock_hz": None,
        **UNCLOCKED,
        **UNSWEPT,
        "of_physical_limit": None,
        "impossible": False,
        "implementation": "given",
        "series": None,
        "samples": 0,
        "n": None,
        "file": file,
    }

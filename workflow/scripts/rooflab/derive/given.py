"""The CPU's ceilings from a roofline measured elsewhere, given instead of records."""

from pathlib import Path

from rooflab.derive.chip.clock import UNCLOCKED
from rooflab.derive.memory import PATTERN_LABEL, UNSWEPT
from rooflab.plan.cpu_roofline import read_cpu_roofline
from rooflab.record.roof_types import Ceiling
from rooflab.theory.dtypes import dtype


def given_ceilings(path: Path) -> list[Ceiling]:
    """The ceilings of such a file. Raises ValueError for a file that is none."""
    given = read_cpu_roofline(path)
    tops = [_given(path.name, "compute", name, rate) for name, rate in given["flop_per_s"].items()]
    return tops + [_given(path.name, "memory", name, rate) for name, rate in given["bytes_per_s"].items()]


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

"""The file of `cpu.roofline_file`: a CPU roofline that was measured elsewhere, read and checked in one place."""

import json
from pathlib import Path
from typing import Any

from rooflab.record.records import validator

FORM = '{"flop_per_s": {"fp32": 8e11}, "bytes_per_s": {"read": 4e10, "triad": 3e10}}'
GIGA = 1e9


def read_cpu_roofline(path: Path) -> dict[str, dict[str, float]]:
    """{"flop_per_s": {format: rate}, "bytes_per_s": {pattern: rate}}. Raises ValueError, one line that names the place."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error})") from error
    check_cpu_roofline(given, str(path))
    return {section: {name: float(rate) for name, rate in rates.items()} for section, rates in given.items()}


def check_cpu_roofline(given: Any, file: str) -> None:
    """Raises ValueError for what is no CPU roofline, or holds a rate that no CPU has."""
    error = min(validator("cpu_roofline").iter_errors(given), key=lambda e: len(e.absolute_path), default=None)
    if error is None:
        return
    where = ".".join(map(str, error.absolute_path)) or "the top level"
    if error.validator not in ("minimum", "maximum"):
        raise ValueError(
            f"{file} is not a CPU roofline: {where}: {error.message}; expected the form {FORM}, in SI units"
        )
    unit = error.schema["description"]
    hint = (
        f": in G{unit} it would be {error.instance * GIGA:g}"
        if error.validator == "minimum" and error.instance > 0
        else ""
    )
    low, high = (f"{error.schema[end]:g}" for end in ("minimum", "maximum"))
    raise ValueError(f"{file}: {where}: {error.instance:g} {unit} is no CPU's (expected {low} to {high}){hint}")

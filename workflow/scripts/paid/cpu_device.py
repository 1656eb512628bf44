"""Paid: what CPU this host is, as the kernel describes it. No series."""

from typing import Any

import numpy as np
from rooflab.machine import host_cpu
from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.outcome import Measurement
from rooflab.measure.station import open_cpu_station


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """The CPU's description, with the BLAS that NumPy multiplies with."""
    return Measurement(details=host_cpu.describe() | {"blas": host_cpu.blas_threads(), "numpy": np.__version__})


if __name__ == "__main__":
    program.main(measure, "cpu", open_cpu_station)

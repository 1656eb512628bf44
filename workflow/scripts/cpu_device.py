"""Paid: what CPU this host is, as the kernel describes it. No series."""

from typing import Any

import numpy as np
from rooflab import host_cpu, paid
from rooflab.protocol import Bench


def measure(spec: dict[str, Any], bench: Bench) -> paid.Measurement:
    """The CPU's description, with the BLAS that NumPy multiplies with."""
    return paid.Measurement(details=host_cpu.describe() | {"blas": host_cpu.blas_threads(), "numpy": np.__version__})


if __name__ == "__main__":
    paid.main(measure, side="cpu")

"""Paid: which GPU and which driver this is, from CUDA and NVML."""

from typing import Any

from rooflab import paid
from rooflab.protocol import Bench


def measure(spec: dict[str, Any], bench: Bench) -> paid.Measurement:
    """No series; the whole description under details."""
    from rooflab.cuda_station import describe

    return paid.Measurement(details=describe(bench.device))


if __name__ == "__main__":
    paid.main(measure, side="gpu")

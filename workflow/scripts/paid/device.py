"""Paid: which GPU and which driver this is, from CUDA and NVML."""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.station import open_cuda_station


def measure(spec: dict[str, Any], bench: Bench) -> program.Measurement:
    """No series; the whole description under details."""
    from rooflab.measure.cuda.station import describe

    return program.Measurement(details=describe(bench.device))


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

"""Paid: which GPU and which driver this is, from CUDA and NVML."""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.station import describe, open_cuda_station
from rooflab.measure.outcome import Measurement


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """No series; the whole description under details."""
    return Measurement(details=describe(bench.device))


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

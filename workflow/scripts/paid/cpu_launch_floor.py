"""Paid: the cost of a call that does nothing, through the loop that times everything else on the CPU."""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.outcome import Measurement
from rooflab.measure.station import open_cpu_station


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """One series, `sync_each`: a Python function with an empty body. `spec` needs warmups and iterations."""
    series = bench.sync_each(
        _empty,
        name="sync_each",
        implementation="empty Python function",
        warmups=spec["warmups"],
        iterations=spec["iterations"],
        cache=None,
    )
    return Measurement(operator="empty_launch", series=[series])


def _empty() -> None:
    return None


if __name__ == "__main__":
    program.main(measure, "cpu", open_cpu_station)

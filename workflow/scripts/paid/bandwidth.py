"""Paid: the GPU's memory bandwidth in one pattern: on buffers far above L2, or, for l2, over a sweep of sizes."""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.bandwidth import READS_WRITES, Pattern, buffers, l2_read, pattern
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Failed, Measurement
from rooflab.measure.search import fastest, refuse_cached
from rooflab.theory.protocol import (
    BANDWIDTH_BLOCK_S,
    BANDWIDTH_SEARCH_GAP_S,
    L2_LAUNCH_S,
    MEMORY_LAUNCHES,
    SEARCH_BLOCK_S,
)

L2_GUESS_BYTES_PER_S = 5e12
Search = list[dict[str, Any]]


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """One series of the fastest launch configuration (l2: one per size), each result checked bit by bit.

    Raises Failed when the memory is not there or the result is wrong, Unsupported for buffers that a cache holds.
    """
    return _l2(spec, bench) if spec["pattern"] == "l2" else _memory(spec, bench)


def _memory(spec: dict[str, Any], bench: Bench) -> Measurement:
    device, name = bench.device, spec["pattern"]
    free, _ = device.memory()
    size = min(spec["buffer_bytes"], free // 4) // 4096 * 4096
    reads, writes = READS_WRITES[name]
    refuse_cached("bandwidth", size * (reads + writes), device.properties()["l2_bytes"])
    on = buffers(device, name, size)
    ways = [pattern(device, name, size, launch, on) for launch in MEMORY_LAUNCHES[name] or (None,)]
    chosen, search = _fastest(bench, ways)
    series = _series(spec, bench, chosen, name, "cold")
    shape = {"bytes_per_array": size, "reads": reads, "writes": writes}
    return Measurement(operator=name, shape=shape, series=[series], details={"search": search})


def _l2(spec: dict[str, Any], bench: Bench) -> Measurement:
    """Reads of ever larger buffers, past L1: where L2 ends shows in the rates."""
    device = bench.device
    series, search, sizes = [], {}, {}
    for size in spec["sizes_bytes"]:
        name = f"{size // 1024} KiB"
        passes = max(1, round(L2_LAUNCH_S * L2_GUESS_BYTES_PER_S / size))
        on = buffers(device, "l2", size)
        ways = [l2_read(device, size, passes, launch, on) for launch in MEMORY_LAUNCHES["l2"]]
        chosen, search[name] = _fastest(bench, ways)
        series.append(_series(spec, bench, chosen, name, "warm"))
        sizes[name] = size
    shape = {"bytes_per_array": max(sizes.values()), "reads": 1, "writes": 0}
    details = {"search": search, "bytes_per_series": sizes}
    return Measurement(operator="read", shape=shape, series=series, details=details)


def _fastest(bench: Bench, ways: list[Pattern]) -> tuple[Pattern, Search]:
    """The pattern of the fastest way, and what every way took per pass."""

    def seconds(way: Pattern) -> float:
        bench.sleep(BANDWIDTH_SEARCH_GAP_S)
        return bench.seconds_per_call(way.call, at_least_s=SEARCH_BLOCK_S) / way.passes

    named = {str(way.config): way for way in ways}
    best, search = fastest(named, seconds)
    return named[best], search


def _series(spec: dict[str, Any], bench: Bench, chosen: Pattern, name: str, cache: str) -> dict[str, Any]:
    """Short blocks with idle gaps, of a pattern whose result is right."""
    if not chosen.check():
        raise Failed(f"the {chosen.name} kernel's result is wrong", "check the card's ECC counters, then run again")
    taken = bench.burst(
        chosen.call,
        name=name,
        implementation="cudaMemcpyAsync" if chosen.config is None else f"{chosen.name} kernel",
        warmups=spec["warmups"],
        block_s=BANDWIDTH_BLOCK_S,
        blocks=spec["samples"],
        gap_s=spec["gap_s"],
        cache=cache,
        nodes=chosen.passes,
    )
    return taken | {"relative_error": 0.0, "tolerance": 0.0}


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

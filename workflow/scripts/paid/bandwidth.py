"""Paid: the GPU's memory bandwidth in one pattern: on buffers far above L2, or, for l2, over a sweep of sizes."""

from functools import partial
from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.station import open_cuda_station

BLOCK_S = 0.01
SEARCH_BLOCK_S = 0.005
SEARCH_GAP_S = 0.01
L2_LAUNCH_S = 0.002  # one launch reads its buffer over and over for about this long: launching does not count then
L2_GUESS_BYTES_PER_S = 5e12


def measure(spec: dict[str, Any], bench: Bench) -> program.Measurement:
    """One series of the fastest launch configuration (l2: one per size), each result checked bit by bit.

    Raises paid.Failed when the memory is not there or the result is wrong.
    """
    return _l2(spec, bench) if spec["pattern"] == "l2" else _memory(spec, bench)


def _memory(spec: dict[str, Any], bench: Bench) -> program.Measurement:
    from rooflab.measure.cuda.bandwidth import CONFIGS, buffers, pattern

    device, name = bench.device, spec["pattern"]
    free, _ = device.memory()
    size = min(spec["buffer_bytes"], free // 4) // 4096 * 4096
    on = buffers(device, name, size)
    ways = [partial(pattern, device, name, size, config, on) for config in CONFIGS[name] or (None,)]
    chosen, search = _fastest(bench, ways)
    series = _series(spec, bench, chosen, name, "cold")
    shape = {"bytes_per_array": size, "reads": chosen.reads, "writes": chosen.writes}
    return program.Measurement(operator=name, shape=shape, series=[series], details={"search": search})


def _l2(spec: dict[str, Any], bench: Bench) -> program.Measurement:
    """Reads of ever larger buffers, past L1: where L2 ends shows in the rates."""
    from rooflab.measure.cuda.bandwidth import CONFIGS, buffers, l2_read

    device = bench.device
    series, search, sizes = [], {}, {}
    for size in spec["sizes_bytes"]:
        name = f"{size // 1024} KiB"
        passes = max(1, round(L2_LAUNCH_S * L2_GUESS_BYTES_PER_S / size))
        on = buffers(device, "l2_read", size)
        ways = [partial(l2_read, device, size, passes, config, on) for config in CONFIGS["l2_read"]]
        chosen, search[name] = _fastest(bench, ways)
        series.append(_series(spec, bench, chosen, name, "warm"))
        sizes[name] = size
    shape = {"bytes_per_array": max(sizes.values()), "reads": 1, "writes": 0}
    details = {"search": search, "bytes_per_series": sizes}
    return program.Measurement(operator="read", shape=shape, series=series, details=details)


def _fastest(bench: Bench, ways: list[Any]) -> tuple[Any, list[dict[str, Any]]]:
    """The pattern of the fastest way, and what every way took per pass."""
    tried = []
    for made in [way() for way in ways]:
        bench.sleep(SEARCH_GAP_S)
        tried.append((bench.seconds_per_call(made.call, at_least_s=SEARCH_BLOCK_S) / made.passes, made))
    best = min(tried, key=lambda each: each[0])[1]
    return best, [{"name": str(made.config), "seconds_per_call": seconds} for seconds, made in tried]


def _series(spec: dict[str, Any], bench: Bench, chosen: Any, name: str, cache: str) -> dict[str, Any]:
    """Short blocks with idle gaps, of a pattern whose result is right."""
    if not chosen.check():
        raise program.Failed(
            f"the {chosen.name} kernel's result is wrong", "check the card's ECC counters, then run again"
        )
    taken = bench.burst(
        chosen.call,
        name=name,
        implementation="cudaMemcpyAsync" if chosen.config is None else f"{chosen.name} kernel",
        warmups=spec["warmups"],
        block_s=BLOCK_S,
        blocks=spec["samples"],
        gap_s=spec["gap_s"],
        cache=cache,
        nodes=chosen.passes,
    )
    return taken | {"relative_error": 0.0, "tolerance": 0.0}


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

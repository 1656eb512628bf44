"""Paid: the GPU's memory bandwidth in one pattern, on buffers far above L2."""

from typing import Any

from rooflab import paid
from rooflab.protocol import Bench

BLOCK_S = 0.01


def measure(spec: dict[str, Any], bench: Bench) -> paid.Measurement:
    """One series, of the launch configuration that was fastest, its result checked bit by bit.

    Raises paid.Failed when the memory is not there or the result is wrong.
    """
    from rooflab.cuda_bandwidth import CONFIGS, pattern

    device, name = bench.device, spec["pattern"]
    free, _ = device.memory()
    size = min(spec["buffer_bytes"], free // 4) // 4096 * 4096
    search = []
    best = None
    for config in CONFIGS[name] or (None,):
        made = pattern(device, name, size, config)
        seconds = bench.seconds_per_call(made.call)
        search.append({"name": str(config or "cudaMemcpyAsync"), "seconds_per_call": seconds, "config": None})
        best = min(best or (seconds, config), (seconds, config), key=lambda pair: pair[0])
        del made
        device.free_pool()
    assert best is not None
    chosen = pattern(device, name, size, best[1])
    if not chosen.check():
        raise paid.Failed(f"the {name} kernel's result is wrong", "check the card's ECC counters, then run again")
    count = max(1, round(BLOCK_S / best[0]))
    series = bench.blocks(
        chosen.call,
        name=name,
        implementation="cudaMemcpyAsync" if best[1] is None else f"{name} kernel",
        warmups=spec["warmups"],
        iterations_per_block=count,
        blocks=spec["samples"],
        cache="cold",
    ) | {"relative_error": 0.0, "tolerance": 0.0}
    shape = {"bytes_per_array": size, "reads": chosen.reads, "writes": chosen.writes}
    return paid.Measurement(operator=name, shape=shape, series=[series], details={"search": search})


if __name__ == "__main__":
    paid.main(measure, side="gpu")

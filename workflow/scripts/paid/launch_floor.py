"""Paid: what a step costs when its kernel does nothing, in each way of launching."""

from functools import partial
from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.bandwidth import empty
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Measurement


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """Series sync_each, back_to_back, graph of one, and graph (of `graph_nodes` empty kernels)."""
    device, nodes, iterations = bench.device, spec["graph_nodes"], spec["iterations"]
    call = empty(device)
    one, many = device.capture([call]), device.capture([call] * nodes)
    common = {"implementation": "empty kernel", "warmups": spec["warmups"]}
    series = [
        bench.sync_each(call, name="sync_each", iterations=iterations, cache=None, **common),
        bench.blocks(call, name="back_to_back", iterations_per_block=iterations, blocks=5, **common),
        bench.sync_each(
            partial(device.launch, one),
            name="graph of one",
            iterations=iterations,
            launch="graph",
            cache=None,
            **common,
        ),
        bench.sync_each(
            partial(device.launch, many), name="graph", iterations=30, launch="graph", cache=None, nodes=nodes, **common
        ),
    ]
    return Measurement(operator="empty_launch", series=series)


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

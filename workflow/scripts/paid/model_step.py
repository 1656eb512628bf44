"""Paid: everything but attention of one decode step at one batch: each product with weights, each element-wise kernel.

One layer's weights, in copies that together are several times L2, as a real model's layers would be. One series a part.
"""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import cold_graphs
from rooflab.measure.cuda.elementwise import ElementwiseCase
from rooflab.measure.cuda.products import timed_product
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Measurement
from rooflab.measure.search import refuse_format, refuse_too_big
from rooflab.measure.series import Series
from rooflab.theory import step
from rooflab.theory.dtypes import dtype as format_of
from rooflab.theory.geometry import decoder

WARM_NODES = 50  # launches of a kernel of a microsecond in a graph, so that starting the graph weighs nothing


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """A series per part, `details` with its search; a part that the library does not have stands in `details.missing`.

    Raises Unsupported where the chip has no such arithmetic or the weights exceed its memory, Failed for a wrong
    result.
    """
    model, dtype, batch = decoder(spec["geometry"]), spec["dtype"], spec["batch"]
    refuse_format(bench.device.compute_capability, dtype)
    series: list[Series] = []
    details: dict[str, Any] = {"parts": {}, "missing": {}, "inputs": "random normal"}
    for part in step.products(model, batch):
        asked = part.weight_elements() * format_of(dtype).bytes
        refuse_too_big(f"the weights of {part.part} take", asked, bench.device.memory()[1])
        sizes = (part.rows, part.n, part.k, part.groups)
        _add(series, details, part.part, lambda s=sizes, p=part.part: timed_product(bench, spec, p, *s))
        bench.device.free_pool()
    for kernel in step.elementwise(model, batch):
        _add(series, details, kernel.part, lambda k=kernel: _timed_kernel(bench, spec, k))
        bench.device.free_pool()
    shape = {"batch": batch, "parts": len(series)}
    return Measurement("decode_step", dtype, shape, series, details)


def _add(series: list[Series], details: dict[str, Any], part: str, timed: Any) -> None:
    try:
        taken, known = timed()
    except ValueError as error:
        details["missing"][part] = str(error)
        return
    series.append(taken)
    details["parts"][part] = known


def _timed_kernel(bench: Bench, spec: dict[str, Any], part: step.Elementwise) -> tuple[Series, dict[str, Any]]:
    dtype = format_of(spec["dtype"]).between  # fp8 is for products
    case = ElementwiseCase(bench.device, part.kernel, part.rows, part.width, dtype)
    ways = {f"{threads} threads": [(case.call(threads),)] * WARM_NODES for threads in case.threads}
    best, search = cold_graphs.fastest(bench, ways, spec["graph_nodes"])
    error = cold_graphs.proof(bench, case, ways[best][0], case.tolerance, part.part)
    series = cold_graphs.timed(bench, spec, ways[best], part.part, f"{part.kernel} kernel", cache="warm") | error
    return series, {"search": search, "dtype": dtype}


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

"""Paid: the walk up the slope: one product (n, k) over many batches in one dtype, its weights cold in L2.

From one row, whose time is that of reading the weights, to where the Tensor Cores are the limit: the roof itself, measured
point by point.
"""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.products import timed_product
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Measurement, Unsupported
from rooflab.measure.search import refuse_format


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """One series per batch, called `m1`, `m2`, ...; `details` holds what was tried for each.

    Raises Unsupported where the chip or the library has no such product, Failed for a wrong result.
    """
    refuse_format(bench.device.compute_capability, spec["dtype"])
    series, parts = [], {}
    for rows in spec["batches"]:
        name = f"m{rows}"
        try:
            taken, parts[name] = timed_product(bench, spec, name, rows, spec["n"], spec["k"])
        except ValueError as error:
            raise Unsupported(str(error)) from error
        series.append(taken)
        bench.device.free_pool()
    return Measurement("projection", spec["dtype"], {"n": spec["n"], "k": spec["k"]}, series, {"parts": parts})


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

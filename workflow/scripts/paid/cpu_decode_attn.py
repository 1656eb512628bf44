"""Paid: decode attention on the host CPU with NumPy, one token of a MiniGPT against a filled KV cache.

Outside the timed region: the weights, K and V, and the query W_q h + b_q of a hidden state the model computed. Inside:
q K^T, scale, softmax, p V, into buffers allocated before.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rooflab.machine import host_cpu
from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.inputs import load, query, sizes
from rooflab.measure.outcome import Measurement, Unsupported
from rooflab.measure.search import ANOTHER_BLAS, verified
from rooflab.measure.station import open_cpu_station
from rooflab.reference import minigpt
from rooflab.reference.attention import decode_attention_into, random_kv, reference_attention, relative_error

# fp32 sums of up to a few thousand terms; a sound BLAS is an order of magnitude better
TOLERANCE = 1e-5

Array = NDArray[np.float32]


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """One series, `numpy`, verified against float64 before it is timed.

    Raises Unsupported for a dtype other than fp32, Failed for weights that cannot be used or a wrong result.
    """
    if spec["dtype"] != "fp32":
        raise Unsupported(f"NumPy's BLAS has no fast {spec['dtype']} product: decode runs in fp32 on the CPU")
    geometry = minigpt.geometry_of(**spec["geometry"])
    loaded, source = load(spec["weights"], geometry, bench.weights_path)
    q = query(loaded, geometry)
    k, v = random_kv(1, geometry.kv_heads, spec["sequence"], geometry.head_dim, seed=0)
    with host_cpu.blas_limited(host_cpu.threads()) as blas:
        series = _timed(spec, bench, q, k, v)
    return Measurement(
        operator="decode_attention",
        dtype="fp32",
        shape=sizes(spec),
        series=[series],
        details={"threads": host_cpu.threads(), "blas": blas, "weights_source": source},
    )


def _timed(spec: dict[str, Any], bench: Bench, q: Array, k: Array, v: Array) -> dict[str, Any]:
    scores = np.empty((*q.shape[:2], k.shape[2]), np.float32)
    out = np.empty_like(q)

    def call() -> None:
        decode_attention_into(q, k, v, scores, out)

    call()
    error = relative_error(out, reference_attention(q, k, v))
    proof = verified(error, TOLERANCE, "decode attention", ANOTHER_BLAS)
    series = bench.sync_each(
        call,
        name="numpy",
        implementation="numpy.matmul",
        warmups=spec["warmups"],
        iterations=spec["iterations"],
    )
    return series | proof


if __name__ == "__main__":
    program.main(measure, "cpu", open_cpu_station)

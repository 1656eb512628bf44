"""Paid: decode attention on the GPU, one token of a MiniGPT against a filled KV cache, in two implementations.

Outside the timed region: weights from disk to host to device, K and V, the query. Every implementation is verified
against float64 before it is timed.
"""

from functools import partial
from typing import Any

from rooflab import minigpt, paid
from rooflab.decode_inputs import load, query, shape
from rooflab.operators import random_kv
from rooflab.protocol import Bench

# rounding of the result in its dtype, and of the probabilities where a product takes them in that dtype
TOLERANCE = {"fp32": 1e-5, "fp16": 3e-3, "bf16": 1.5e-2}
CANDIDATES = 8


def measure(spec: dict[str, Any], bench: Bench) -> paid.Measurement:
    """Series cupy_chain, fused, fused graph of one, fused graph.

    Raises paid.Failed for a wrong result, paid.Unsupported for a head size that the kernel does not have.
    """
    from rooflab.cuda_decode import DecodeCase

    dtype, geometry = spec["dtype"], minigpt.Geometry(**spec["geometry"])
    loaded, source = load(spec["weights"], geometry, bench.weights_path)
    q = query(_on_device(bench.device, loaded, geometry), geometry)
    k, v = random_kv(1, geometry.cached_heads, spec["sequence"], geometry.head_dim, seed=0)
    try:
        case = DecodeCase.from_host(bench.device, q, k, v, dtype)
    except ValueError as error:
        raise paid.Unsupported(str(error)) from error
    config, search = _fastest(bench, case, spec["graph_nodes"])
    chain, fused = case.chain(), case.fused(config)
    chain_proof, fused_proof = _verified(case, chain), _verified(case, fused)
    series = [
        _stepwise(spec, bench, chain, "cupy_chain", "cupy_chain") | chain_proof,
        _stepwise(spec, bench, fused, "fused", "fused") | fused_proof,
        *[each | fused_proof for each in _graphs(spec, bench, fused)],
    ]
    details = {"search": search, "configuration": str(config), "weights_source": source}
    return paid.Measurement("decode_attention", dtype, shape(geometry, spec["sequence"]), series, details)


def _on_device(device: Any, loaded: dict[str, Any], geometry: minigpt.Geometry) -> dict[str, Any]:
    """The weights through the device and back: what is measured starts from what the device holds."""
    uploaded = {name: device.xp.asarray(array) for name, array in loaded.items()}
    device.synchronize()
    return {name: device.xp.asnumpy(array) for name, array in uploaded.items()}


def _fastest(bench: Bench, case: Any, nodes: int) -> tuple[Any, list[dict[str, Any]]]:
    """The launch configuration with the shortest device time, by graphs of `nodes` steps, and what was tried."""
    tried = []
    for config in case.fused_candidates(CANDIDATES):
        replay = partial(bench.device.launch, bench.device.capture([case.fused(config)] * nodes))
        tried.append((bench.seconds_per_call(replay) / nodes, config))
    best = min(tried, key=lambda pair: pair[0])[1]
    return best, [{"name": str(config), "seconds_per_call": seconds, "config": None} for seconds, config in tried]


def _verified(case: Any, call: Any) -> dict[str, float]:
    """The relative error of one more run on a poisoned result. Raises paid.Failed beyond the tolerance or for NaN."""
    case.poison()
    call()
    case.device.synchronize()
    error, tolerance = case.relative_error(), TOLERANCE[case.dtype]
    if not error <= tolerance:
        raise paid.Failed(
            f"decode attention in {case.dtype} is off by {error:.2g} relative to float64: expected at most {tolerance:.2g}",
            "report this with the record: the kernel is wrong on this chip",
        )
    return {"relative_error": error, "tolerance": tolerance}


def _stepwise(spec: dict[str, Any], bench: Bench, call: Any, name: str, implementation: str) -> dict[str, Any]:
    return bench.sync_each(
        call, name=name, implementation=implementation, warmups=spec["warmups"], iterations=spec["iterations"]
    )


def _graphs(spec: dict[str, Any], bench: Bench, fused: Any) -> list[dict[str, Any]]:
    """The step replayed by a CUDA graph: alone, as often as from Python, and many in a row for the device time."""
    device, nodes = bench.device, spec["graph_nodes"]
    one, many = device.capture([fused]), device.capture([fused] * nodes)
    common = {"implementation": "fused", "warmups": spec["warmups"], "launch": "graph"}
    return [
        bench.sync_each(
            partial(device.launch, one), name="fused graph of one", iterations=spec["iterations"], **common
        ),
        bench.sync_each(
            partial(device.launch, many), name="fused graph", iterations=spec["graph_samples"], nodes=nodes, **common
        ),
    ]


if __name__ == "__main__":
    paid.main(measure, side="gpu")

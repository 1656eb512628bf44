"""Paid: decode attention of one of the config's operators at one S, batch and cache dtype, cold in L2, in CUDA graphs.

Keys and values go through the fused kernel; a latent cache through a fused kernel of its own, or through a chain of
cuBLASLt and a softmax where that is faster.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import cold_graphs
from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
from rooflab.measure.cuda.attention.latent import LatentCase, LatentShape
from rooflab.measure.cuda.cublaslt import LtError
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Measurement, Unsupported
from rooflab.measure.search import Search, refuse_too_big
from rooflab.theory.dtypes import attention_error
from rooflab.theory.dtypes import dtype as format_of
from rooflab.theory.geometry import Decoder, decoder
from rooflab.theory.step import cached_elements

IMPLEMENTATIONS = {"fused": "fused", "chain": "cublasLt, softmax, cublasLt"}


@dataclass(frozen=True)
class Taken:
    """The fastest way that was found: its operands, the sizes, a step on each copy of the cache, what was tried."""

    case: Any
    shape: dict[str, int]
    steps: Sequence[cold_graphs.Step]
    search: Search
    way: str


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """One series, `fused cold` or, where that is faster for a latent cache, `chain cold`.

    Raises Unsupported for a cache beyond the card's total memory or a shape that the kernel does not have, Failed for a
    wrong result.
    """
    model, device = decoder(spec["geometry"]), bench.device
    cache_bytes = spec["batch"] * spec["sequence"] * cached_elements(model) * format_of(spec["dtype"]).bytes
    refuse_too_big("one layer's cache takes", cache_bytes, device.memory()[1])
    l2_bytes = device.properties()["l2_bytes"]
    copies = cold_graphs.copies_for(cache_bytes, l2_bytes)
    cache = cold_graphs.cache_state(copies, cache_bytes, l2_bytes)
    build = _latent if model.latent else _grouped
    try:
        taken = build(spec, bench, model, copies)
    except (ValueError, LtError) as error:
        raise Unsupported(str(error)) from error
    proof = cold_graphs.proof(bench, taken.case, taken.steps[0], attention_error(spec["dtype"]), "decode attention")
    name, implementation = f"{taken.way} {cache}", IMPLEMENTATIONS[taken.way]
    series = cold_graphs.timed(bench, spec, taken.steps, name, implementation, cache) | proof
    details = {"search": taken.search, "copies": copies, "inputs": "random normal"}
    return Measurement("decode_attention", spec["dtype"], taken.shape, [series], details)


def _grouped(spec: dict[str, Any], bench: Bench, model: Decoder, copies: int) -> Taken:
    sizes = {"batch": spec["batch"], "query_heads": model.heads, "kv_heads": model.kv_heads}
    sizes |= {"sequence": spec["sequence"], "head_dim": model.head_dim}
    case = DecodeCase.random(bench.device, DecodeShape(**sizes), spec["dtype"], seed=0, copies=copies)
    ways = {
        str(config): [(case.fused(config, copy),) for copy in range(copies)]
        for config in case.fused_candidates(spec["configurations"])
    }
    best, search = cold_graphs.fastest(bench, ways, spec["graph_nodes"])
    return Taken(case, sizes, ways[best], search, "fused")


def _latent(spec: dict[str, Any], bench: Bench, model: Decoder, copies: int) -> Taken:
    latent = model.latent
    assert latent is not None
    sizes = {"batch": spec["batch"], "query_heads": model.heads, "sequence": spec["sequence"]}
    sizes |= {"rank": latent.rank, "rope_dim": latent.rope_dim}
    scale = 1 / math.sqrt(latent.nope_dim + latent.rope_dim)
    case = LatentCase(bench.device, LatentShape(**sizes), spec["dtype"], scale, copies)
    ways: dict[str, Sequence[cold_graphs.Step]] = {
        f"fused {config}": [case.fused(config, copy) for copy in range(copies)]
        for config in case.fused_candidates(spec["configurations"])
    }
    chain, chain_search = _chain(spec, bench, case)
    ways |= {"chain": chain} if chain else {}
    if not ways:
        raise ValueError(f"neither a kernel nor cuBLASLt for {case.shape} in {spec['dtype']}")
    best, search = cold_graphs.fastest(bench, ways, spec["graph_nodes"])
    return Taken(case, sizes, ways[best], chain_search + search, best.split()[0])


def _chain(spec: dict[str, Any], bench: Bench, case: Any) -> tuple[list[cold_graphs.Step], Search]:
    """Scores, softmax and sum with the fastest of cuBLASLt's proposals for each product, and what was tried; no steps where
    it has none."""
    limit, nodes = spec["configurations"], spec["graph_nodes"]
    scores = {f"scores {i}": case.score_calls(each) for i, each in enumerate(case.score_algorithms(limit))}
    sums = {f"sum {i}": case.mix_calls(each) for i, each in enumerate(case.mix_algorithms(limit))}
    tried: Search = []
    chosen = []
    if not scores or not sums:
        return [], tried
    for calls in (scores, sums):
        best, search = cold_graphs.fastest(bench, {k: [(call,) for call in v] for k, v in calls.items()}, nodes)
        chosen.append(calls[best])
        tried += search
    normalise = case.softmax_call()
    return [(first, normalise, last) for first, last in zip(*chosen, strict=True)], tried


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

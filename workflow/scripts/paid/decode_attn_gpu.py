"""Paid: decode attention on the GPU, one token against a filled KV cache: a chain of CuPy calls and one fused kernel,
each from Python and in CUDA graphs, with the cache warm in L2 and cold.

Outside the timed region: weights from disk to host to device, K and V, the query. Every implementation is verified
against float64 before it is timed.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.clock import Call
from rooflab.measure.cuda import cold_graphs
from rooflab.measure.cuda.attention.configs import FusedConfig
from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
from rooflab.measure.cuda.attention.grouped import GroupedConfig
from rooflab.measure.cuda.bandwidth import empty
from rooflab.measure.cuda.kernel_names import kernel_names
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.inputs import load, query, sizes
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.search import Search, computed, fastest, refuse_too_big, verified
from rooflab.measure.series import Series, joined
from rooflab.reference import minigpt
from rooflab.reference.attention import random_kv
from rooflab.theory.dtypes import attention_error
from rooflab.theory.geometry import Sizes

ROUNDS = 5  # in which the samples of every way are taken, the steps of a program in turns
COMPILERS = 4
EMPTY, FLOOR_LAUNCHES = "empty kernel", 500
PARTS = ("batch", "query_heads", "kv_heads", "sequence", "head_dim")

Rung = Callable[[], list[Series]]  # takes a round of one way of launching, or of two


@dataclass
class Step:
    """A step that is ready to be timed: its operands, what was tried, and its rungs with the proof of each."""

    spec: dict[str, Any]
    case: DecodeCase
    details: dict[str, Any]
    ways: dict[str, Callable[[int], Call]]
    rungs: list[tuple[Rung, dict[str, float]]]
    taken: list[list[Series]]

    def take_round(self) -> None:
        """A round of every rung."""
        self.taken.append([series | proof for rung, proof in self.rungs for series in rung()])

    def measurement(self, floors: list[Series]) -> Measurement:
        """What was taken, beside what launching nothing cost meanwhile."""
        series = [joined(rounds) for rounds in zip(*self.taken, strict=True)]
        kernels = {name: kernel_names(self.case.device, way(0)) for name, way in self.ways.items()}
        shape = {part: getattr(self.case.shape, part) for part in PARTS}
        details = self.details | {"kernels": kernels}
        return Measurement("decode_attention", self.spec["dtype"], shape, [*series, *floors], details)


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """The ladder of one step: cupy_chain and fused; from Python synchronised each, from Python back to back, in a graph
    of one and in a graph of many; warm, and cold where the cache fits into L2 at all. Beside it, the same ways of
    launching nothing: what launching costs differs from program to program with the state of the host. The steps that the
    bench was handed to be measured beside this one are timed in turns with it.

    Raises Failed for a wrong result, Unsupported for a head size that the kernel does not have or a cache that
    the card cannot hold.
    """
    own = _step(spec, bench)
    others = [_step_if_possible(each, bench) for each in bench.beside]
    steps = [own, *(each for each in others if each is not None)]
    floors = _floors(spec, bench)
    empty_rounds = []
    for _ in range(ROUNDS):
        for step in steps:
            step.take_round()
        empty_rounds.append([series for rung in floors for series in rung()])
    taken = [joined(rounds) for rounds in zip(*empty_rounds, strict=True)]
    made = own.measurement(taken)
    made.beside = [each.measurement(taken) if each else None for each in others]
    return made


def _step_if_possible(spec: dict[str, Any], bench: Bench) -> Step | None:
    """A further step; None where it cannot be taken here: its own program says why."""
    try:
        return _step(spec, bench)
    except (Failed, Unsupported, MemoryError):
        return None


def _step(spec: dict[str, Any], bench: Bench) -> Step:
    case, source = _case(spec, bench)
    config, search = _fastest(spec, bench, case)
    ways: dict[str, Callable[[int], Call]] = {"fused": lambda copy: case.fused(config, copy)}
    if case.has_chain:
        ways = {"cupy_chain": case.chain} | ways
    rungs: list[tuple[Rung, dict[str, float]]] = []
    for name, way in ways.items():
        proof = _verified(case, way(0))
        rungs += [(rung, proof) for rung in _ladder(spec, bench, case, name, way)]
    details = {"search": search, "configuration": str(config), "weights_source": source, "copies": len(case.caches)}
    return Step(spec, case, details | {"rounds": ROUNDS}, ways, rungs, [])


def _case(spec: dict[str, Any], bench: Bench) -> tuple[DecodeCase, str]:
    """The step's operands on the device, with enough copies of the cache to be cold, and where the query comes from."""
    device, dtype = bench.device, spec["dtype"]
    try:
        shape = DecodeShape(**sizes(spec, device.memory()[1]))
    except ValueError as error:
        raise Unsupported(str(error)) from error
    copies = cold_graphs.copies_for(shape.kv_bytes(dtype), device.properties()["l2_bytes"])
    refuse_too_big("K and V take", shape.kv_bytes(dtype), device.memory()[1])
    if "weights" not in spec:
        return DecodeCase.random(device, shape, dtype, seed=0, copies=copies), "random query"
    geometry = minigpt.geometry_of(**spec["geometry"])
    loaded, source = load(spec["weights"], geometry, bench.weights_path)
    q = query(_on_device(device, loaded, geometry), geometry)
    k, v = random_kv(1, geometry.kv_heads, spec["sequence"], geometry.head_dim, seed=0)
    return DecodeCase.from_host(device, q, k, v, dtype, copies), source


def _on_device(device: Any, loaded: dict[str, Any], geometry: Sizes) -> dict[str, Any]:
    """The weights through the device and back: what is measured starts from what the device holds."""
    uploaded = {name: device.xp.asarray(array) for name, array in loaded.items()}
    device.synchronize()
    return {name: device.xp.asnumpy(array) for name, array in uploaded.items()}


def _fastest(spec: dict[str, Any], bench: Bench, case: DecodeCase) -> tuple[FusedConfig | GroupedConfig, Search]:
    """The launch configuration with the shortest device time, by graphs of many steps, and what was tried."""
    device, nodes = bench.device, spec["graph_nodes"]
    candidates = {str(config): config for config in case.fused_candidates(spec["configurations"])}
    with ThreadPoolExecutor(COMPILERS) as pool:  # NVRTC compiles beside itself; what is measured is measured alone
        calls = dict(zip(candidates, pool.map(case.fused, candidates.values()), strict=True))

    def seconds(call: Call) -> float:
        return bench.seconds_per_call(partial(device.launch, device.capture([call] * nodes))) / nodes

    best, search = fastest(calls, seconds)
    return candidates[best], search


def _verified(case: DecodeCase, call: Call) -> dict[str, float]:
    """The relative error of one more run on a poisoned result. Raises Failed beyond the tolerance or for NaN."""
    what = f"decode attention in {case.dtype}"
    return verified(computed(case, [call], case.device.synchronize), attention_error(case.dtype), what)


def _floors(spec: dict[str, Any], bench: Bench) -> list[Rung]:
    """An empty kernel, launched in each of the ways that the step is."""
    call = empty(bench.device)
    common = {"implementation": EMPTY, "warmups": spec["warmups"], "cache": None}
    few = spec | {"iterations": min(spec["iterations"], FLOOR_LAUNCHES)}
    return [
        partial(_from_python, few, bench, [call], "empty", "", common),
        _in_graphs(few, bench, [call], "empty", "", common),
    ]


def _ladder(spec: dict[str, Any], bench: Bench, case: DecodeCase, name: str, way: Callable[[int], Call]) -> list[Rung]:
    """The rungs of one implementation; cold ones go round the copies of the cache, if these are cold when they come back."""
    calls = {"warm": [way(0)]}
    copies, l2_bytes = len(case.caches), bench.device.properties()["l2_bytes"]
    if copies > 1 and cold_graphs.cache_state(copies, case.shape.kv_bytes(case.dtype), l2_bytes) == "cold":
        calls["cold"] = [way(copy) for copy in (*range(1, copies), 0)]  # copy 0 has just been used
    rungs: list[Rung] = []
    for cache, each in calls.items():
        suffix = "" if cache == "warm" else " cold"
        common = {"implementation": name, "warmups": spec["warmups"], "cache": cache}
        rungs.append(partial(_from_python, spec, bench, each, name, suffix, common))
        if name == "fused":  # CuPy does not let its cuBLAS calls be captured
            rungs.append(_in_graphs(spec, bench, each, name, suffix, common))
    return rungs


def _in_turn(calls: list[Call]) -> Call:
    if len(calls) == 1:
        return calls[0]
    turn = cycle(calls)
    return lambda: next(turn)()


def _a_round(samples: int) -> int:
    return -(-samples // ROUNDS)


def _from_python(
    spec: dict[str, Any], bench: Bench, calls: list[Call], name: str, suffix: str, common: dict[str, Any]
) -> list[Series]:
    """Synchronised on both sides of every step, as the lab asks; and back to back, synchronised around a block, which goes
    on where the other stopped in going round."""
    call, count = _in_turn(calls), _a_round(spec["iterations"])
    each = bench.sync_each(call, name=f"{name}{suffix}", iterations=count, **common)
    label = f"{name} back to back{suffix}"
    return [each, bench.blocks(call, name=label, iterations_per_block=count, blocks=1, **common)]


def _in_graphs(
    spec: dict[str, Any], bench: Bench, calls: list[Call], name: str, suffix: str, common: dict[str, Any]
) -> Rung:
    """The step replayed by CUDA graphs: many in a row for the device time; and alone, as often as from Python, where it is
    one step: going round graphs of other steps would time the change of graphs. One replay at least is untimed: it goes
    round what the launches before have left in L2."""
    device, common = bench.device, common | {"launch": "graph", "warmups": max(1, spec["warmups"])}
    many = cold_graphs.replay(bench, [(call,) for call in calls], spec["graph_nodes"])
    alone = partial(device.launch, device.capture(calls)) if len(calls) == 1 else None

    def rung() -> list[Series]:
        count, label = _a_round(spec["iterations"]), f"{name} graph of one{suffix}"
        single = [bench.sync_each(alone, name=label, iterations=count, **common)] if alone else []
        count, label = _a_round(spec["graph_samples"]), f"{name} graph{suffix}"
        return [*single, bench.sync_each(many.call, name=label, iterations=count, nodes=many.nodes, **common)]

    return rung


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

"""Timing as a real model meets it: launched by a CUDA graph, each launch on another copy of what it reads, out of L2.

The replays of a sample follow each other without a gap, so that launching and synchronising weigh nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rooflab.measure import search
from rooflab.measure.bench import Bench
from rooflab.measure.search import Search
from rooflab.measure.series import Series

COLD_L2S = 4  # the copies together are this many times L2: each has left it before its turn comes again
LEAST_L2S = 2  # of it that must lie between two uses of a byte for it to come from memory
MANY_COPIES = 1024  # beyond these, no more than LEAST_L2S asks for
MOST_COPIES = 8192
BLOCK_S = 0.002
Step = tuple[Callable[[], Any], ...]  # the launches of one step, in order


@dataclass(frozen=True)
class Replay:
    """A captured graph: `call` launches it, and it takes `nodes` steps."""

    call: Callable[[], None]
    nodes: int


def copies_for(bytes_each: int, l2_bytes: int) -> int:
    """How many copies of `bytes_each` keep every launch from finding its own in L2, as far as MOST_COPIES do."""
    wanted, least = (-(-times * l2_bytes // bytes_each) for times in (COLD_L2S, LEAST_L2S))
    return min(MOST_COPIES, max(1, min(wanted, max(MANY_COPIES, least + 1))))


def cache_state(copies: int, bytes_each: int, l2_bytes: int) -> str:
    """`cold` where more than LEAST_L2S times L2 lies between two uses of a byte, going round the copies; else `warm`."""
    return "cold" if copies * bytes_each > LEAST_L2S * l2_bytes else "warm"


def rounds(copies: int, least_nodes: int) -> int:
    """Steps of a graph that goes round all copies, as often as it takes for `least_nodes`: only whole rounds keep a replay
    from beginning with what the one before has just read."""
    return math.ceil(least_nodes / copies) * copies


def replay(bench: Bench, steps: Sequence[Step], least_nodes: int) -> Replay:
    """Captures `steps`, one on each copy, as many rounds as it takes for `least_nodes` of them."""
    nodes = rounds(len(steps), least_nodes)
    graph = bench.device.capture([call for step in steps for call in step] * (nodes // len(steps)))
    return Replay(partial(bench.device.launch, graph), nodes)


def fastest(bench: Bench, ways: Mapping[str, Sequence[Step]], least_nodes: int) -> tuple[str, Search]:
    """The name of the way whose graph takes least a step, and what each took."""

    def seconds(steps: Sequence[Step]) -> float:
        captured = replay(bench, steps, least_nodes)
        return bench.seconds_per_call(captured.call) / captured.nodes

    return search.fastest(ways, seconds)


def proof(bench: Bench, case: search.Checkable, step: Step, tolerance: float, what: str) -> dict[str, float]:
    """The relative error against float64 of one more step on a poisoned result. Raises Failed beyond the tolerance."""
    return search.verified(search.computed(case, step, bench.synchronize), tolerance, what)


def timed(
    bench: Bench, spec: dict[str, Any], steps: Sequence[Step], name: str, implementation: str, cache: str = "cold"
) -> Series:
    """One series: `spec`'s graph_samples samples of about BLOCK_S each."""
    captured = replay(bench, steps, spec["graph_nodes"])
    once = bench.seconds_per_call(captured.call)
    return bench.blocks(
        captured.call,
        name=name,
        implementation=implementation,
        warmups=spec["warmups"],
        iterations_per_block=max(1, math.ceil(BLOCK_S / once)),
        blocks=spec["graph_samples"],
        launch="graph",
        cache=cache,
        nodes=captured.nodes,
        call_s=once,
    )

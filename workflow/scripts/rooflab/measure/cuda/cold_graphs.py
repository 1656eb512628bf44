"""Timing as a real model meets it: launched by a CUDA graph, each launch on another copy of what it reads, out of L2.

The replays of a sample follow each other without a gap, so that launching and synchronising weigh nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench, Series

COLD_L2S = 4  # the copies together are this many times L2: each has left it before its turn comes again
MOST_COPIES = 1024
BLOCK_S = 0.002
Step = tuple[Callable[[], Any], ...]  # the launches of one step, in order


@dataclass(frozen=True)
class Replay:
    """A captured graph: `call` launches it, and it takes `nodes` steps."""

    call: Callable[[], None]
    nodes: int


def copies_for(bytes_each: int, l2_bytes: int) -> int:
    """How many copies of `bytes_each` keep every launch from finding its own in L2."""
    return min(MOST_COPIES, max(1, -(-COLD_L2S * l2_bytes // bytes_each)))


def replay(bench: Bench, steps: Sequence[Step], least_nodes: int) -> Replay:
    """Captures `steps`, one on each copy, as many rounds as it takes for `least_nodes` of them."""
    rounds = math.ceil(least_nodes / len(steps))
    graph = bench.device.capture([call for step in steps for call in step] * rounds)
    return Replay(partial(bench.device.launch, graph), rounds * len(steps))


def fastest(bench: Bench, ways: Mapping[str, Sequence[Step]], least_nodes: int) -> tuple[str, list[dict[str, Any]]]:
    """The name of the way whose graph takes least a step, and what each took."""
    tried: list[dict[str, Any]] = []
    for name, steps in ways.items():
        captured = replay(bench, steps, least_nodes)
        tried.append({"name": name, "seconds_per_call": bench.seconds_per_call(captured.call) / captured.nodes})
    best = min(tried, key=lambda each: float(each["seconds_per_call"]))
    return str(best["name"]), tried


def proof(bench: Bench, case: Any, step: Step, tolerance: float, what: str) -> dict[str, float]:
    """The relative error against float64 of one more step on a poisoned result. Raises paid.Failed beyond the tolerance
    or for NaN."""
    case.poison()
    for call in step:
        call()
    bench.device.synchronize()
    error = case.relative_error()
    if not error <= tolerance:
        raise program.Failed(
            f"{what} is off by {error:.2g} relative to float64: expected at most {tolerance:.2g}",
            "report this with the record: another arithmetic ran, or the kernel is wrong on this chip",
        )
    return {"relative_error": error, "tolerance": tolerance}


def timed(
    bench: Bench, spec: dict[str, Any], steps: Sequence[Step], name: str, implementation: str, cache: str = "cold"
) -> Series:
    """One series: `spec`'s graph_samples samples of about BLOCK_S each."""
    captured = replay(bench, steps, spec["graph_nodes"])
    return bench.blocks(
        captured.call,
        name=name,
        implementation=implementation,
        warmups=spec["warmups"],
        iterations_per_block=max(1, math.ceil(BLOCK_S / bench.seconds_per_call(captured.call))),
        blocks=spec["graph_samples"],
        launch="graph",
        cache=cache,
        nodes=captured.nodes,
    )

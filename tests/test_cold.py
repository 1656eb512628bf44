"""Cold means cold: more than twice L2 lies between two uses of a byte, whatever the chip and the configuration."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paid import decode_attn_gpu
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import cold_graphs

MIB = 2**20
SIZES = st.integers(4 * MIB, 126 * MIB)  # of L2: T4's to B200's


class Tape:
    """A device that writes down which copy each launch reads, and whether a timed launch does that expects it cold."""

    def __init__(self, l2_bytes: int) -> None:
        self.l2_bytes, self.used, self.untimed, self.ways = l2_bytes, [], False, 0

    def properties(self) -> dict[str, Any]:
        return {"l2_bytes": self.l2_bytes}

    def capture(self, calls: list[Any]) -> list[Any]:
        """As the real one, which makes every call once before."""
        self.untimed = True
        for call in dict.fromkeys(calls):
            call()
        self.untimed = False
        return list(calls)

    def launch(self, graph: list[Any]) -> None:
        for call in graph:
            call()

    def reading(self, copy: int) -> Any:
        """A launch on a copy; the first one asked for is the warm rungs'."""
        self.ways += 1
        cold = self.ways > 1
        return lambda: self.used.append((copy, cold and not self.untimed))


class Untimed(Bench):
    """A bench that tells its tape what is not timed."""

    def warm_up(self, call: Any, times: int) -> None:
        self.device.untimed = True
        super().warm_up(call, times)
        self.device.untimed = False

    def _state_under_load(self, call: Any, calls: int | None = None) -> dict[str, Any]:
        self.device.untimed = True
        state = super()._state_under_load(call, calls)
        self.device.untimed = False
        return state


def least_bytes_between_uses(used: list[tuple[int, bool]], bytes_each: int) -> float:
    """Bytes read from one use of a copy to a launch that reads it again, at the least."""
    last: dict[int, int] = {}
    least = float("inf")
    for position, (copy, timed_cold) in enumerate(used):
        if timed_cold and copy in last:
            least = min(least, (position - last[copy]) * bytes_each)
        last[copy] = position
    return least


@settings(max_examples=20, deadline=None)
@given(
    l2_bytes=SIZES,
    kv_bytes=st.integers(128 * 1024, 600 * MIB),
    nodes=st.sampled_from([1, 7, 10, 100]),
    iterations=st.sampled_from([1, 3, 40]),
)
def test_every_cold_rung_of_a_decode_step(l2_bytes: int, kv_bytes: int, nodes: int, iterations: int) -> None:
    device = Tape(l2_bytes)
    copies = cold_graphs.copies_for(kv_bytes, l2_bytes)
    shape = SimpleNamespace(kv_bytes=lambda dtype: kv_bytes)
    case: Any = SimpleNamespace(caches=[None] * copies, shape=shape, dtype="fp16")
    spec = {"warmups": 1, "iterations": iterations, "graph_nodes": nodes, "graph_samples": 2}
    rungs = decode_attn_gpu._ladder(spec, Untimed(device=device), case, "fused", device.reading)
    series = [each for _ in range(decode_attn_gpu.ROUNDS) for rung in rungs for each in rung()]
    assert not any(each["name"] == "fused graph of one cold" for each in series)
    if any(each["cache"] == "cold" for each in series):
        assert least_bytes_between_uses(device.used, kv_bytes) > 2 * l2_bytes
    else:
        assert copies == 1 or copies * kv_bytes <= 2 * l2_bytes


@pytest.mark.parametrize("nodes", [4, 10, 100])
@settings(max_examples=20, deadline=None)
@given(l2_bytes=SIZES, bytes_each=st.integers(1024, 800 * MIB))
def test_every_graph_over_copies_that_is_called_cold(nodes: int, l2_bytes: int, bytes_each: int) -> None:
    device = Tape(l2_bytes)
    copies = cold_graphs.copies_for(bytes_each, l2_bytes)
    device.reading(0)
    steps = [(device.reading(copy),) for copy in range(copies)]
    if cold_graphs.cache_state(copies, bytes_each, l2_bytes) == "cold":
        replay = cold_graphs.replay(Bench(device=device), steps, nodes)
        replay.call()
        replay.call()
        assert replay.nodes % copies == 0 and len(device.used) == copies + 2 * replay.nodes
        assert least_bytes_between_uses(device.used, bytes_each) > 2 * l2_bytes
    else:
        assert copies == cold_graphs.MOST_COPIES

"""The fused decode kernel against every backend of torch's scaled_dot_product_attention, and against reading alone."""

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from functools import partial
from itertools import cycle
from typing import Any

from alternate import Call, alternate, block, fastest, row
from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
from rooflab.measure.cuda.bandwidth import buffers, pattern
from rooflab.theory.protocol import MEMORY_LAUNCHES

# batch, heads, S, dtype; head size 64
CASES = [
    *[(1, 8, s, dtype) for dtype in ("fp32", "fp16", "bf16") for s in (128, 256, 512, 1024)],
    *[(1, heads, s, "fp16") for heads in (4, 12) for s in (128, 1024)],
    (8, 12, 1024, "fp16"),
    (1, 32, 8192, "fp16"),
    (1, 8, 1000, "fp16"),
    (1, 8, 131, "fp32"),
    (16, 32, 4096, "fp16"),
    (64, 32, 4096, "fp16"),
    (64, 32, 4096, "bf16"),
    (64, 32, 4096, "fp32"),
]
BACKENDS = ("default", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
QUICK = {"blocks": 7, "block_s": 0.004, "gap_s": 0.02}
COLD_BYTES = 4 * 60 * 2**20  # four times the L2 of an H200


def decode_rows(device: Any, torch: Any) -> Iterator[dict[str, Any]]:
    """For each case: warm and cold, from Python and in a graph; and the read kernel on a buffer of the same size."""
    for batch, heads, sequence, dtype in CASES:
        shape = DecodeShape(batch, heads, heads, sequence, 64)
        size = shape.kv_bytes(dtype)
        nodes = 100 if size < 2**26 else 10
        copies = -(-max(1, -(-COLD_BYTES // size)) // nodes) * nodes if size < COLD_BYTES else 1
        case = DecodeCase.random(device, shape, dtype, seed=0, copies=copies)
        name = f"B{batch} H{heads} S{sequence} {dtype}"
        yield from _case_rows(device, torch, case, name, nodes)
        yield _read_row(device, case, name, size, nodes)
        del case
        device.free_pool()
        torch.cuda.empty_cache()


def _case_rows(device: Any, torch: Any, case: DecodeCase, name: str, nodes: int) -> Iterator[dict[str, Any]]:
    theirs = _Torch(torch, case, nodes)
    for cache, copies in (("warm", 1), ("cold", len(case.caches))):
        if cache == "cold" and copies == 1:
            continue
        config = _config(device, case, copies, nodes)
        ours = [case.fused(config, copy) for copy in range(copies)]
        backend = fastest(device, theirs.eager(copies))
        with theirs.chosen(backend):
            taken = alternate(device, _in_turn(ours), theirs.calls(copies), **QUICK)
        yield row(f"decode {name} python {cache}", f"SDPA {backend}", taken)
        replays = theirs.graphs(copies)
        backend = fastest(device, replays, 2)
        taken = alternate(device, _in_turn(_graphs(device, ours, nodes)), replays[backend], **QUICK)
        yield row(f"decode {name} graph {cache}", f"SDPA {backend}", taken, nodes)


def _config(device: Any, case: DecodeCase, copies: int, nodes: int) -> Any:
    def seconds(config: Any) -> float:
        calls = [case.fused(config, copy) for copy in range(min(copies, nodes))]
        return min(block(device, _in_turn(_graphs(device, calls, nodes)), 2) for _ in range(3))

    return min(case.fused_candidates(12), key=seconds)


def _graphs(device: Any, calls: list[Call], nodes: int) -> list[Call]:
    longer = calls * -(-nodes // len(calls))
    groups = [longer[start : start + nodes] for start in range(0, len(longer), nodes)]
    return [partial(device.launch, device.capture(group)) for group in groups]


def _in_turn(calls: list[Call]) -> Call:
    turn = cycle(calls)
    return calls[0] if len(calls) == 1 else lambda: next(turn)()


def _read_row(device: Any, case: DecodeCase, name: str, size: int, nodes: int) -> dict[str, Any]:
    """The read kernel, in graphs too, on as many bytes: what is left to gain. Above 1 would mean faster than reading."""
    on = buffers(device, "read", size)
    ways = {str(c): [pattern(device, "read", size, c, on).call] * nodes for c in MEMORY_LAUNCHES["read"]}
    graphs = {key: _graphs(device, calls, nodes)[0] for key, calls in ways.items()}
    config = _config(device, case, 1, nodes)
    ours = _graphs(device, [case.fused(config)] * nodes, nodes)[0]
    taken = alternate(device, ours, graphs[fastest(device, graphs, 2)], **QUICK)
    return row(f"decode {name} graph warm", "read kernel, same bytes", taken, nodes)


class _Torch:
    """SDPA on copies of the case's operands, by every backend that takes them."""

    def __init__(self, torch: Any, case: DecodeCase, nodes: int) -> None:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        self.torch, self.nodes = torch, nodes
        self.chosen = lambda name: nullcontext() if name == "default" else sdpa_kernel(getattr(SDPBackend, name))
        dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[case.dtype]
        shape = case.shape
        self.q = torch.randn(shape.batch, shape.query_heads, 1, shape.head_dim, device="cuda", dtype=dtype)
        self.k, self.v = (torch.randn(len(case.caches), *shape.kv_shape, device="cuda", dtype=dtype) for _ in range(2))
        self.able = [name for name in BACKENDS if self._takes(name)]

    def _call(self, copy: int) -> Any:
        attention = self.torch.nn.functional.scaled_dot_product_attention
        return attention(self.q, self.k[copy], self.v[copy])

    def _takes(self, name: str) -> bool:
        try:
            with self.chosen(name), self.torch.no_grad():
                self._call(0)
        except RuntimeError:
            return False
        return True

    def calls(self, copies: int) -> Call:
        """From Python, going round the copies, by the backend that is chosen around it."""
        attention = self.torch.nn.functional.scaled_dot_product_attention
        return _in_turn([partial(attention, self.q, self.k[copy], self.v[copy]) for copy in range(copies)])

    def eager(self, copies: int) -> dict[str, Call]:
        """The same with the choice inside, for finding the fastest backend: choosing costs the same for all."""
        calls = self.calls(copies)

        def under(name: str) -> None:
            with self.chosen(name):
                calls()

        return {name: partial(under, name) for name in self.able}

    def graphs(self, copies: int) -> dict[str, Call]:
        """In CUDA graphs of `nodes` steps, going round the copies."""
        found = {}
        for name in self.able:
            with ExitStack() as stack:
                stack.enter_context(self.chosen(name))
                found[name] = _in_turn([self._graph(start, copies) for start in range(0, copies, self.nodes)])
        return found

    def _graph(self, start: int, copies: int) -> Call:
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.no_grad(), self.torch.cuda.graph(graph):
            kept = [self._call((start + node) % copies) for node in range(self.nodes)]
        return lambda: (graph.replay(), kept)[0]

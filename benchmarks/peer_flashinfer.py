"""The fused attention kernels against FlashInfer's, and against reading as many bytes: cold caches, in CUDA graphs.

FlashInfer compiles its kernels on first use, with nvcc. Where it has no kernel for a head size, the next larger one that it has
stands for it, and the peer's name says so. A row's peer is the fastest of its kernels that take the case.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from alternate import Call, alternate, block, fastest, row
from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
from rooflab.measure.cuda.attention.latent import LatentCase, LatentShape
from rooflab.measure.cuda.bandwidth import buffers, pattern
from rooflab.theory.protocol import MEMORY_LAUNCHES

# batch, query heads, KV heads, S, head size
GROUPED = [
    *[
        (1, 8, 8, 1024, 64),
        (1, 32, 8, 1024, 128),
        (1, 32, 8, 8192, 128),
        (1, 32, 8, 32768, 128),
        (1, 64, 8, 32768, 128),
    ],
    *[
        (1, 28, 4, 8192, 128),
        (1, 40, 8, 8192, 128),
        (1, 32, 32, 8192, 96),
        (1, 16, 8, 8192, 256),
        (1, 32, 2, 32768, 128),
    ],
    *[
        (4, 32, 8, 1024, 128),
        (4, 32, 8, 8192, 128),
        (4, 64, 8, 8192, 128),
        (4, 28, 4, 32768, 128),
        (4, 40, 8, 8192, 64),
    ],
    *[(4, 32, 32, 8192, 96), (4, 32, 2, 8192, 128), (4, 16, 4, 8192, 256), (4, 40, 8, 32768, 128)],
    *[
        (16, 32, 8, 1024, 128),
        (16, 32, 8, 8192, 128),
        (16, 32, 32, 1024, 128),
        (16, 64, 8, 8192, 128),
        (16, 28, 4, 8192, 128),
    ],
    *[
        (16, 40, 8, 8192, 128),
        (16, 32, 2, 8192, 128),
        (16, 16, 8, 8192, 256),
        (16, 32, 8, 8192, 64),
        (16, 32, 8, 8192, 96),
    ],
    *[(16, 32, 8, 32768, 128), (16, 16, 1, 8192, 256)],
    *[
        (64, 32, 8, 1024, 128),
        (64, 32, 8, 8192, 128),
        (64, 28, 4, 8192, 128),
        (64, 64, 8, 1024, 128),
        (64, 32, 2, 8192, 64),
    ],
    *[(64, 40, 8, 1024, 128), (64, 32, 8, 1024, 96), (64, 32, 2, 32768, 128), (64, 28, 4, 1024, 128)],
    *[
        (256, 32, 8, 1024, 128),
        (256, 28, 4, 1024, 128),
        (256, 64, 8, 1024, 64),
        (256, 32, 2, 8192, 128),
        (256, 8, 1, 1024, 256),
    ],
]
# batch, heads, S; rank 512, rotary key 64
LATENT = [(1, 16, 8192), (16, 16, 8192), (64, 16, 8192), (64, 16, 1024), (16, 128, 8192), (64, 128, 8192)]
RANK, ROPE, LATENT_SCALE = 512, 64, 1 / math.sqrt(192)
DTYPE, ELEMENT_BYTES = "bf16", 2
HEAD_SIZES = (64, 128, 256)  # that FlashInfer has
PAGE, LATENT_PAGE, WORKSPACE_BYTES = 16, 64, 256 << 20
COLD_L2S, CONFIGURATIONS, COMPILERS = 4, 12, 16
QUICK = {"blocks": 7, "block_s": 0.004, "gap_s": 0.01}


def flashinfer_rows(device: Any, torch: Any) -> Iterator[dict[str, Any]]:
    """Rows for each case. Raises ModuleNotFoundError where FlashInfer is not installed."""
    import flashinfer

    theirs = _FlashInfer(torch, flashinfer)
    for sizes in GROUPED:
        yield from _grouped_rows(device, theirs, *sizes)
        _release(device, torch)
    for sizes in LATENT:
        yield _latent_row(device, theirs, *sizes)
        _release(device, torch)


def _grouped_rows(
    device: Any, theirs: "_FlashInfer", batch: int, heads: int, kv_heads: int, sequence: int, head_dim: int
) -> Iterator[dict[str, Any]]:
    shape = DecodeShape(batch, heads, kv_heads, sequence, head_dim)
    copies, nodes = _rounds(device, shape.kv_bytes(DTYPE))
    case = DecodeCase.random(device, shape, DTYPE, seed=0, copies=copies)
    candidates = case.fused_candidates(CONFIGURATIONS)
    with ThreadPoolExecutor(COMPILERS) as pool:
        list(pool.map(case.fused, candidates))
    ours = _quickest(
        device, {str(each): _graph(device, [case.fused(each, c) for c in range(copies)], nodes) for each in candidates}
    )
    name = f"decode B{batch} {heads}/{kv_heads} S{sequence} D{head_dim} {DTYPE} graph cold"
    graphs = theirs.grouped(shape, copies, nodes)
    peer = fastest(device, graphs, 2)
    yield row(name, f"FlashInfer {peer}", alternate(device, ours, graphs[peer], **QUICK), nodes)
    reading = _quickest(device, _read_graphs(device, shape.kv_bytes(DTYPE), copies, nodes))
    yield row(name, "read kernel, same bytes", alternate(device, ours, reading, **QUICK), nodes)


def _latent_row(device: Any, theirs: "_FlashInfer", batch: int, heads: int, sequence: int) -> dict[str, Any]:
    copies, nodes = _rounds(device, batch * sequence * (RANK + ROPE) * ELEMENT_BYTES)
    case = LatentCase(device, LatentShape(batch, heads, sequence, RANK, ROPE), DTYPE, LATENT_SCALE, copies)
    ways = {}
    for config in case.fused_candidates(CONFIGURATIONS):
        steps = [case.fused(config, copy) for copy in range(copies)] * (nodes // copies)
        ways[str(config)] = partial(device.launch, device.capture([call for step in steps for call in step]))
    graphs = theirs.latent(batch, heads, sequence, copies, nodes)
    peer = fastest(device, graphs, 2)
    taken = alternate(device, _quickest(device, ways), graphs[peer], **QUICK)
    return row(f"MLA B{batch} H{heads} S{sequence} {DTYPE} graph cold", f"FlashInfer {peer}", taken, nodes)


def _rounds(device: Any, size: int) -> tuple[int, int]:
    """Copies of a cache of `size` bytes that keep it out of L2, and the steps of a graph that goes round them."""
    l2_bytes = device.properties()["l2_bytes"]
    copies = 1 if size >= COLD_L2S * l2_bytes else max(2, min(64, -(-COLD_L2S * l2_bytes // size)))
    least = 2 if size > 1 << 29 else 20 if size > 1 << 25 else 96
    return copies, -(-max(copies, least) // copies) * copies


def _graph(device: Any, calls: list[Call], nodes: int) -> Call:
    return partial(device.launch, device.capture(calls * (nodes // len(calls))))


def _quickest(device: Any, ways: dict[str, Call]) -> Call:
    return ways[min(ways, key=lambda name: min(block(device, ways[name], 2) for _ in range(3)))]


def _read_graphs(device: Any, size: int, copies: int, nodes: int) -> dict[str, Call]:
    each = [buffers(device, "read", size) for _ in range(copies)]
    return {
        str(config): _graph(device, [pattern(device, "read", size, config, on).call for on in each], nodes)
        for config in MEMORY_LAUNCHES["read"]
    }


def _release(device: Any, torch: Any) -> None:
    device.free_pool()
    torch.cuda.empty_cache()


class _FlashInfer:
    """FlashInfer's kernels on random operands, each as the replay of a graph over the copies of the cache."""

    def __init__(self, torch: Any, flashinfer: Any) -> None:
        self.torch, self.flashinfer = torch, flashinfer

    def grouped(self, shape: DecodeShape, copies: int, nodes: int) -> dict[str, Call]:
        """Paged decode, with and without Tensor Cores."""
        torch, wrapper = self.torch, self.flashinfer.BatchDecodeWithPagedKVCacheWrapper
        head_dim = min(size for size in HEAD_SIZES if size >= shape.head_dim)
        padded = "" if head_dim == shape.head_dim else f", head size {head_dim} for {shape.head_dim}"
        pages, heads = shape.sequence // PAGE, (shape.query_heads, shape.kv_heads)
        query = torch.randn(shape.batch, heads[0], head_dim, device="cuda", dtype=torch.bfloat16)
        size = (shape.batch * pages, 2, PAGE, heads[1], head_dim)
        caches = [torch.randn(size, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
        starts = torch.arange(shape.batch + 1, dtype=torch.int32, device="cuda") * pages
        indices = torch.arange(shape.batch * pages, dtype=torch.int32, device="cuda")
        last = torch.full((shape.batch,), PAGE, dtype=torch.int32, device="cuda")
        types = {"q_data_type": torch.bfloat16, "kv_data_type": torch.bfloat16}

        def made(tensor_cores: bool) -> Callable[[int], Any]:
            names = ("paged_kv_indptr_buffer", "paged_kv_indices_buffer", "paged_kv_last_page_len_buffer")
            kept = dict(zip(names, (starts.clone(), indices.clone(), last.clone()), strict=True))
            each = wrapper(self._workspace(), "NHD", use_cuda_graph=True, use_tensor_cores=tensor_cores, **kept)
            each.plan(starts, indices, last, *heads, head_dim, PAGE, **types)
            return lambda copy: each.run(query, caches[copy])

        kinds = {"paged decode": partial(made, False), "paged decode on Tensor Cores": partial(made, True)}
        return {f"{name}{padded}": graph for name, graph in self._graphs(kinds, copies, nodes).items()}

    def latent(self, batch: int, heads: int, sequence: int, copies: int, nodes: int) -> dict[str, Call]:
        """Paged latent attention by its fa2 and fa3 kernels."""
        torch, pages = self.torch, sequence // LATENT_PAGE
        options = {"device": "cuda", "dtype": torch.bfloat16}
        latents = [torch.randn(batch * pages, LATENT_PAGE, RANK, **options) for _ in range(copies)]
        keys = [torch.randn(batch * pages, LATENT_PAGE, ROPE, **options) for _ in range(copies)]
        query, rotary = torch.randn(batch, heads, RANK, **options), torch.randn(batch, heads, ROPE, **options)
        starts = torch.arange(batch + 1, dtype=torch.int32, device="cuda")
        indices = torch.arange(batch * pages, dtype=torch.int32, device="cuda")
        lengths = torch.full((batch,), sequence, dtype=torch.int32, device="cuda")

        def made(backend: str) -> Callable[[int], Any]:
            names = ("qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr")
            values = (starts, starts * pages, indices, lengths)
            kept = {name: value.clone() for name, value in zip(names, values, strict=True)}
            wrapper = self.flashinfer.mla.BatchMLAPagedAttentionWrapper
            each = wrapper(self._workspace(), use_cuda_graph=True, backend=backend, **kept)
            types = (torch.bfloat16, torch.bfloat16)
            each.plan(*values, heads, RANK, ROPE, LATENT_PAGE, False, LATENT_SCALE, *types)
            out = torch.empty_like(query)
            return lambda copy: each.run(query, rotary, latents[copy], keys[copy], out=out)

        return self._graphs({f"MLA {each}": partial(made, each) for each in ("fa2", "fa3")}, copies, nodes)

    def _workspace(self) -> Any:
        return self.torch.zeros(WORKSPACE_BYTES, dtype=self.torch.uint8, device="cuda")

    def _graphs(self, kinds: dict[str, Callable[[], Any]], copies: int, nodes: int) -> dict[str, Call]:
        """Those that take the operands. A graph's wrapper, workspace and results live as long as its replay."""
        found = {}
        for name, make in kinds.items():
            try:
                found[name] = self._captured(make(), copies, nodes)
            except (RuntimeError, ValueError) as error:
                print(f"FlashInfer {name}: {str(error).splitlines()[0][:120]}", flush=True)
        return found

    def _captured(self, run: Callable[[int], Any], copies: int, nodes: int) -> Call:
        torch = self.torch
        with torch.cuda.stream(torch.cuda.Stream()):
            run(0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            kept = [run(node % copies) for node in range(nodes)]
        return lambda: (graph.replay(), kept, run)[0]

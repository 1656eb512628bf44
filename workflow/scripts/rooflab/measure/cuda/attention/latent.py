"""Absorbed latent attention on a device: one token per sequence against a cache of latents that all heads share.

q (B, H, R + P), cache (B, S, R + P), result (B, H, R), in fp16 or bf16, or the cache in fp8_e4m3 and the others in fp16. Two ways,
both of which a CUDA graph can capture: a fused kernel, latent.cu or latent_staged.cu in kernels/, which reads the cache once; and
a chain, which reads it twice: scores by cuBLASLt in fp32, softmax, and the weighted sum by cuBLASLt over the first R elements
of the same rows. The chain has no fp8.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from functools import partial as partial_call
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda import cublaslt_abi as abi
from rooflab.measure.cuda.arrays import FORMATS, decode, normal, poison, to_host
from rooflab.measure.cuda.attention.latent_configs import (
    BLOCK_HEADS,
    MERGE_COLUMNS,
    MOST_MERGE_SHARES,
    PLAIN_THREADS,
    STAGED_DTYPES,
    STAGED_THREADS,
    LatentConfig,
    latent_configs,
    shared_bytes,
)
from rooflab.measure.cuda.cublaslt import Lt, LtError, MatmulPlan, Pointers, open_library
from rooflab.measure.cuda.cublaslt_abi import KINDS, Heuristic, Kind
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.measure.cuda.elementwise import softmax
from rooflab.reference.attention import relative_error
from rooflab.reference.step import latent_attention

CHAIN_DTYPES = ("fp16", "bf16")
WORKSPACE_BYTES = 64 << 20
CHECKED_SEQUENCES = 2


@dataclass(frozen=True)
class LatentShape:
    """Sizes of one step."""

    batch: int
    query_heads: int
    sequence: int
    rank: int
    rope_dim: int

    @property
    def row(self) -> int:
        """Elements cached per token."""
        return self.rank + self.rope_dim


class LatentCase:
    """One step in a dtype, its cache on the device `copies` times over."""

    def __init__(self, device: CudaDevice, shape: LatentShape, dtype: str, scale: float, copies: int) -> None:
        """`scale` multiplies the scores. Raises ValueError for another dtype."""
        if dtype not in STAGED_DTYPES:
            raise ValueError(f"latent attention has no {dtype} cache: expected {' or '.join(STAGED_DTYPES)}")
        self.device, self.shape, self.dtype, self.scale = device, shape, dtype, scale
        b, h, s = shape.batch, shape.query_heads, shape.sequence
        self.query_dtype = dtype if dtype in CHAIN_DTYPES else "fp16"
        self.q = normal(device, (b, h, shape.row), self.query_dtype, (2, 1))
        self.caches = normal(device, (copies, b, s, shape.row), dtype, (2, 2))
        self.scores = device.xp.empty((b, h, s), np.float32)
        self.weights = device.xp.empty((b, h, s), self.q.dtype)
        self.out = device.xp.empty((b, h, shape.rank), self.q.dtype)
        self._workspace = device.xp.empty(WORKSPACE_BYTES, np.uint8)
        lt = Lt(open_library(), device.stream.ptr, self._workspace.data.ptr, WORKSPACE_BYTES)
        chained = self.caches if dtype in CHAIN_DTYPES else []
        self._score_plans = [self._score_plan(lt, cache) for cache in chained]
        self._mix_plans = [self._mix_plan(lt, cache) for cache in chained]

    def fused_candidates(self, limit: int) -> list[LatentConfig]:
        """Ways to launch a fused kernel, the most promising first; none where none exists."""
        shape, device = self.shape, self.device
        sizes = (shape.batch, shape.query_heads, shape.sequence, shape.rank, shape.rope_dim)
        return latent_configs(self.dtype, sizes, device.compute_capability, device.sm_count, limit)

    def fused(self, config: LatentConfig, copy: int) -> tuple[Call, ...]:
        """The launches of a kernel on one copy of the cache: one, and another that merges where there are splits."""
        shape, xp, splits = self.shape, self.device.xp, np.int32(config.splits)
        attention, merge = self._kernels(config)
        blocks = shape.batch * -(-shape.query_heads // BLOCK_HEADS) * config.splits
        kept = blocks * BLOCK_HEADS if config.splits > 1 and not config.cluster else 1
        partial, scales = xp.empty(kept * shape.rank, np.float32), xp.empty(kept * 2, np.float32)
        heads, scale = np.int32(shape.query_heads), np.float32(self.scale * math.log2(math.e))
        arrays = (self.q, self.caches[copy], self.out, partial, scales)
        memory = shared_bytes(self.dtype, shape.rank, shape.rope_dim, config)
        attention.max_dynamic_shared_size_bytes = memory
        threads = STAGED_THREADS if config.staged else PLAIN_THREADS
        arguments = (*arrays, heads, np.int32(shape.sequence), splits, scale)
        first = partial_call(attention, (blocks,), (threads,), arguments, shared_mem=memory)
        if config.splits == 1 or config.cluster:
            return (first,)
        results = shape.batch * shape.query_heads
        shares = min(config.splits, MOST_MERGE_SHARES)
        grid = (results if config.staged else results * shape.rank // MERGE_COLUMNS,)
        block = (shape.rank // 4, shares) if config.staged else (PLAIN_THREADS, 1)
        return first, partial_call(merge, grid, block, (partial, scales, self.out, heads, splits))

    def _kernels(self, config: LatentConfig) -> tuple[Any, Any]:
        """The attention and the merge."""
        name, form = ("latent_staged", "KV_FORMAT") if config.staged else ("latent", "FORMAT")
        shape = self.shape
        defines = {form: FORMATS[self.dtype], "RANK": shape.rank, "ROPE": shape.rope_dim, "STAGES": config.stages}
        if config.staged:
            defines["CLUSTER_SPLITS"] = config.splits if config.cluster else 1
            defines["SHARED_BYTES"] = shared_bytes(self.dtype, shape.rank, shape.rope_dim, config)
        return (
            self.device.kernel(name, "latent_attention", **defines),
            self.device.kernel(name, "merge_splits", **defines),
        )

    def score_algorithms(self, limit: int) -> list[Heuristic]:
        """What cuBLASLt proposes for q times the cache; nothing where it has no such product."""
        return _proposals(self._score_plans, limit)

    def mix_algorithms(self, limit: int) -> list[Heuristic]:
        """What cuBLASLt proposes for the weighted sum; nothing where it has no such product."""
        return _proposals(self._mix_plans, limit)

    def score_calls(self, algorithm: Heuristic) -> list[Call]:
        """q times each copy of the cache."""
        return [plan.call(algorithm) for plan in self._score_plans]

    def mix_calls(self, algorithm: Heuristic) -> list[Call]:
        """The weighted sum over each copy of the cache."""
        return [plan.call(algorithm) for plan in self._mix_plans]

    def softmax_call(self) -> Call:
        """Scores to weights."""
        return softmax(self.device, self.scores, self.weights, self.query_dtype, self.scale)

    def poison(self) -> None:
        """Fills scores, weights and result with NaN."""
        for array in (self.scores, self.weights, self.out):
            poison(self.device, array)

    def relative_error(self) -> float:
        """Of what the result on the first copy holds, against float64, on the first and the last sequence."""
        found = [decode(to_host(self.out[b]), self.query_dtype) for b in self._sequences]
        return relative_error(np.stack(found), self._reference)

    @property
    def _sequences(self) -> list[int]:
        return sorted({0, self.shape.batch - 1})[:CHECKED_SEQUENCES]

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        made = []
        for b in self._sequences:
            q = decode(to_host(self.q[b]), self.query_dtype)[None]
            cache = decode(to_host(self.caches[0, b]), self.dtype)[None]
            made.append(latent_attention(np, q, cache, self.shape.rank, self.scale)[0])
        return np.stack(made)

    def _score_plan(self, lt: Lt, cache: Any) -> MatmulPlan:
        shape, operand = self.shape, KINDS[self.dtype].operand
        pointers = Pointers(self.q.data.ptr, cache.data.ptr, self.scores.data.ptr, owners=self._owners)
        kind = Kind(operand, abi.R_32F, abi.COMPUTE_32F, abi.R_32F)
        return MatmulPlan(lt, kind, shape.query_heads, shape.sequence, shape.row, pointers, True, shape.batch)

    def _mix_plan(self, lt: Lt, cache: Any) -> MatmulPlan:
        shape = self.shape
        pointers = Pointers(self.weights.data.ptr, cache.data.ptr, self.out.data.ptr, owners=self._owners)
        sizes = (shape.query_heads, shape.rank, shape.sequence)
        return MatmulPlan(lt, KINDS[self.dtype], *sizes, pointers, False, shape.batch, b_leading=shape.row)

    @property
    def _owners(self) -> tuple[Any, ...]:
        return (self.q, self.caches, self.scores, self.weights, self.out, self._workspace)


def _proposals(plans: list[MatmulPlan], limit: int) -> list[Heuristic]:
    try:
        return plans[0].heuristics(limit) if plans else []
    except LtError:
        return []

"""Absorbed latent attention on a device: one token per sequence against a cache of latents that all heads share.

q (B, H, R + P), cache (B, S, R + P), result (B, H, R), in fp16 or bf16. Two ways, both of which a CUDA graph can capture:
kernels/latent.cu, which reads the cache once; and a chain, which reads it twice: scores by cuBLASLt in fp32, softmax, and
the weighted sum by cuBLASLt over the first R elements of the same rows.
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
from rooflab.measure.cuda.cublaslt import Lt, LtError, MatmulPlan, Pointers, open_library
from rooflab.measure.cuda.cublaslt_abi import KINDS, Heuristic, Kind
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.measure.cuda.elementwise import softmax
from rooflab.reference.attention import relative_error
from rooflab.reference.step import latent_attention

DTYPES = ("fp16", "bf16")
WORKSPACE_BYTES = 64 << 20
CHECKED_SEQUENCES = 2

# of kernels/latent.cu
KERNEL_CAPABILITY = 80
BLOCK_HEADS, TILE_ROWS, THREADS, MERGE_COLUMNS = 16, 32, 128, 32
STAGES = (2, 3)
BLOCKS_PER_SM = (1, 2, 4)
# Shared memory that a block may ask for, KiB, by compute capability; NVIDIA, "CUDA C++ Programming Guide", technical
# specifications per compute capability. What is not listed has at least the smallest of these.
SHARED_KIB = {80: 163, 87: 163, 90: 227, 100: 227, 103: 227}
LEAST_SHARED_KIB = 99


@dataclass(frozen=True)
class LatentConfig:
    """How the kernel is compiled and launched: `splits` ranges of the sequence, a block each, merged by a second kernel;
    `stages` tiles of rows in shared memory."""

    splits: int
    stages: int


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
        if dtype not in DTYPES:
            raise ValueError(f"latent attention has no {dtype} cache: expected {' or '.join(DTYPES)}")
        self.device, self.shape, self.dtype, self.scale = device, shape, dtype, scale
        b, h, s = shape.batch, shape.query_heads, shape.sequence
        self.q = normal(device, (b, h, shape.row), dtype, (2, 1))
        self.caches = normal(device, (copies, b, s, shape.row), dtype, (2, 2))
        self.scores = device.xp.empty((b, h, s), np.float32)
        self.weights = device.xp.empty((b, h, s), self.q.dtype)
        self.out = device.xp.empty((b, h, shape.rank), self.q.dtype)
        self._workspace = device.xp.empty(WORKSPACE_BYTES, np.uint8)
        lt = Lt(open_library(), device.stream.ptr, self._workspace.data.ptr, WORKSPACE_BYTES)
        self._score_plans = [self._score_plan(lt, cache) for cache in self.caches]
        self._mix_plans = [self._mix_plan(lt, cache) for cache in self.caches]

    def fused_candidates(self, limit: int) -> list[LatentConfig]:
        """Ways to launch the kernel, the one that fills the chip once first; none where it does not exist."""
        capability, shape = self.device.compute_capability, self.shape
        if capability < KERNEL_CAPABILITY or shape.row % 32 or shape.rank % THREADS:
            return []
        units = shape.batch * -(-shape.query_heads // BLOCK_HEADS)
        most = -(-shape.sequence // TILE_ROWS)
        wanted = [min(most, max(1, -(-self.device.sm_count * blocks // units))) for blocks in BLOCKS_PER_SM]
        allowed = SHARED_KIB.get(capability, LEAST_SHARED_KIB) * 1024
        stages = [each for each in STAGES if shared_bytes(shape.row, each) <= allowed]
        return [LatentConfig(splits, each) for splits in dict.fromkeys(wanted) for each in stages][:limit]

    def fused(self, config: LatentConfig, copy: int) -> tuple[Call, ...]:
        """The launches of the kernel on one copy of the cache: one, and another that merges where there are splits."""
        shape, xp, splits = self.shape, self.device.xp, np.int32(config.splits)
        defines = {"FORMAT": FORMATS[self.dtype], "RANK": shape.rank, "ROPE": shape.rope_dim, "STAGES": config.stages}
        attention, merge = (
            self.device.kernel("latent", function, **defines) for function in ("latent_attention", "merge_splits")
        )
        blocks = shape.batch * -(-shape.query_heads // BLOCK_HEADS) * config.splits
        kept = blocks * BLOCK_HEADS if config.splits > 1 else 1
        partial, scales = xp.empty(kept * shape.rank, np.float32), xp.empty(kept * 2, np.float32)
        heads, scale = np.int32(shape.query_heads), np.float32(self.scale * math.log2(math.e))
        arguments = (
            self.q,
            self.caches[copy],
            self.out,
            partial,
            scales,
            heads,
            np.int32(shape.sequence),
            splits,
            scale,
        )
        memory = shared_bytes(shape.row, config.stages)
        attention.max_dynamic_shared_size_bytes = memory
        first = partial_call(attention, (blocks,), (THREADS,), arguments, shared_mem=memory)
        if config.splits == 1:
            return (first,)
        merged = (shape.batch * shape.query_heads * shape.rank // MERGE_COLUMNS,)
        return first, partial_call(merge, merged, (THREADS,), (partial, scales, self.out, heads, splits))

    def score_algorithms(self, limit: int) -> list[Heuristic]:
        """What cuBLASLt proposes for q times the cache; nothing where it has no such product."""
        return _proposals(self._score_plans[0], limit)

    def mix_algorithms(self, limit: int) -> list[Heuristic]:
        """What cuBLASLt proposes for the weighted sum; nothing where it has no such product."""
        return _proposals(self._mix_plans[0], limit)

    def score_calls(self, algorithm: Heuristic) -> list[Call]:
        """q times each copy of the cache."""
        return [plan.call(algorithm) for plan in self._score_plans]

    def mix_calls(self, algorithm: Heuristic) -> list[Call]:
        """The weighted sum over each copy of the cache."""
        return [plan.call(algorithm) for plan in self._mix_plans]

    def softmax_call(self) -> Call:
        """Scores to weights."""
        return softmax(self.device, self.scores, self.weights, self.dtype, self.scale)

    def poison(self) -> None:
        """Fills scores, weights and result with NaN."""
        for array in (self.scores, self.weights, self.out):
            poison(self.device, array)

    def relative_error(self) -> float:
        """Of what the result on the first copy holds, against float64, on the first and the last sequence."""
        found = [decode(to_host(self.out[b]), self.dtype) for b in self._sequences]
        return relative_error(np.stack(found), self._reference)

    @property
    def _sequences(self) -> list[int]:
        return sorted({0, self.shape.batch - 1})[:CHECKED_SEQUENCES]

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        made = []
        for b in self._sequences:
            q, cache = (decode(to_host(array), self.dtype)[None] for array in (self.q[b], self.caches[0, b]))
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


def _proposals(plan: MatmulPlan, limit: int) -> list[Heuristic]:
    try:
        return plan.heuristics(limit)
    except LtError:
        return []


def shared_bytes(row: int, stages: int) -> int:
    """Shared memory of a block of kernels/latent.cu: tiles and queries of `row` elements, weights, scores and scales."""
    rows = 2 * (stages * TILE_ROWS + BLOCK_HEADS) * (row + 8)
    return rows + 2 * BLOCK_HEADS * (TILE_ROWS + 8) + 4 * BLOCK_HEADS * (TILE_ROWS + 1) + 3 * 4 * BLOCK_HEADS

"""Decode attention on a device: one token per sequence against a KV cache, several ways, each checked against float64.

q (B, Hq, D), K and V (B, Hkv, S, D), result (B, Hq, D); query heads share KV heads evenly, neighbours first. In
fp8_e4m3 only K and V are fp8; query and result are fp16. `lengths` says how many rows of each sequence count, where not all do:
only the kernel on Tensor Cores takes them. `copies` caches of equal content let a caller keep each launch
from finding its data in L2. Nothing here writes to a cache, times anything, or knows how fast it should be.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda.arrays import (
    FORMATS,
    TILE_ELEMENTS,
    decode,
    encode,
    normal,
    poison,
    repeated,
    to_device,
    to_host,
)
from rooflab.measure.cuda.attention.chain import CUBLAS_TYPES, Chain
from rooflab.measure.cuda.attention.configs import FusedConfig, fused_configs, kernel_defines
from rooflab.measure.cuda.attention.grouped import GroupedConfig, grouped_call, grouped_configs
from rooflab.measure.cuda.attention.shape import DecodeShape
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.reference.attention import random_normal, reference_attention, relative_error

SMALL_BYTES = 16 << 20  # up to here one query head per KV head leaves nothing to Tensor Cores
CHECKED_HEADS = 32  # KV heads compared with float64 where there are more: the first and the last ones


class DecodeCase:
    """One decode step in a dtype, its operands on the device."""

    def __init__(
        self,
        device: CudaDevice,
        shape: DecodeShape,
        dtype: str,
        q: Any,
        caches: list[tuple[Any, Any]],
        lengths: Sequence[int] | None = None,
    ) -> None:
        """`q` and `caches` (K, V) are device arrays; `from_host` and `random` make them. Raises ValueError for lengths
        that are not one per sequence, from 1 to the rows there are."""
        self.device, self.shape, self.dtype, self.q, self.caches = device, shape, dtype, q, caches
        if lengths is not None and (
            len(lengths) != shape.batch or not 1 <= min(lengths) <= max(lengths) <= shape.sequence
        ):
            raise ValueError(f"lengths {list(lengths)}: expected {shape.batch} numbers from 1 to {shape.sequence}")
        self._lengths = [shape.sequence] * shape.batch if lengths is None else list(lengths)
        self._ragged = lengths is not None
        self.out = device.xp.empty(shape.query_shape, q.dtype)
        self.poison()

    @classmethod
    def from_host(
        cls,
        device: CudaDevice,
        q: NDArray[np.float32],
        k: NDArray[np.float32],
        v: NDArray[np.float32],
        dtype: str,
        copies: int = 1,
        lengths: Sequence[int] | None = None,
    ) -> "DecodeCase":
        """From fp32 host arrays, converted to `dtype` here. Raises ValueError for shapes, a dtype or lengths that do not
        fit."""
        if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape or (q.shape[0], q.shape[2]) != k.shape[::3]:
            raise ValueError(
                f"decode got q {q.shape}, k {k.shape}, v {v.shape}: expected (B, Hq, D), (B, Hkv, S, D) twice"
            )
        shape = DecodeShape(q.shape[0], q.shape[1], k.shape[1], k.shape[2], k.shape[3])
        query = to_device(device, encode(q, _query_dtype(dtype)))
        stored = [to_device(device, encode(cache, dtype)) for cache in (k, v)]
        return cls(device, shape, dtype, query, _copies(device, stored, copies), lengths)

    @classmethod
    def random(cls, device: CudaDevice, shape: DecodeShape, dtype: str, seed: int, copies: int = 1) -> "DecodeCase":
        """From random normal numbers, made on the device out of a host tile: for caches too big to make on the host."""
        query = normal(device, shape.query_shape, _query_dtype(dtype), (seed, 0))
        size = min(math.prod(shape.kv_shape), TILE_ELEMENTS)
        tiles = [encode(random_normal((size,), (seed, part)), dtype) for part in (1, 2)]
        stored = [repeated(device, tile, shape.kv_shape) for tile in tiles]
        return cls(device, shape, dtype, query, _copies(device, stored, copies))

    # ---- implementations

    @property
    def has_chain(self) -> bool:
        """Whether CuPy's cuBLAS multiplies this dtype; fp8 it does not."""
        return self.dtype in CUBLAS_TYPES

    def fused_candidates(self, limit: int = 24) -> list[FusedConfig | GroupedConfig]:
        """Ways to launch a fused kernel that may be fastest here, most promising first; the caller measures.

        Where heads share a KV head or the cache is big, two on Tensor Cores for each of the others."""
        shape, capability, sm_count = self.shape, self.device.compute_capability, self.device.sm_count
        units = shape.batch * shape.kv_heads
        on_tensor_cores = grouped_configs(
            self.dtype, shape.head_dim, shape.group, units, shape.sequence, capability, sm_count, limit
        )
        if self._ragged:
            return list(on_tensor_cores)
        others = fused_configs(
            self.dtype, shape.head_dim, shape.group, units, shape.sequence, capability, sm_count, limit
        )
        if shape.group == 1 and shape.kv_bytes(self.dtype) <= SMALL_BYTES:
            return list(others)
        in_turn = chain.from_iterable(zip_longest(on_tensor_cores[::2], on_tensor_cores[1::2], others))
        return [config for config in in_turn if config is not None][:limit]

    def fused(self, config: FusedConfig | GroupedConfig, copy: int = 0) -> Call:
        """A fused kernel, one launch, on one of the caches. CuPy raises where it does not compile or fit."""
        if isinstance(config, GroupedConfig):
            lengths = self._lengths if self._ragged else None
            return grouped_call(
                self.device, self.shape, self.dtype, (self.q, *self.caches[copy], self.out), config, lengths
            )
        if self._ragged:
            raise ValueError(f"{config} takes no sequences of different lengths: expected a GroupedConfig")
        shape, xp = self.shape, self.device.use()
        kernel = self.device.kernel(
            "decode", "decode_attention", **kernel_defines(self.dtype, shape.head_dim, shape.group, config)
        )
        blocks = shape.batch * shape.query_heads // config.heads * config.splits
        merged_in_memory = config.splits > 1 and not config.cluster
        floats = blocks * config.heads * (shape.head_dim + 2) if merged_in_memory else 1
        arguments = (
            *(self.q, *self.caches[copy], self.out),
            *(xp.empty(floats, np.float32), xp.zeros(blocks // config.splits, np.uint32)),
            *(np.int32(shape.sequence), np.float32(math.log2(math.e) / math.sqrt(shape.head_dim))),
        )
        grid, block = (blocks,), (config.warps * 32,)
        return lambda: kernel(grid, block, arguments)

    def chain(self, copy: int = 0) -> Call:
        """The textbook chain in CuPy: cuBLAS, softmax kernels, cuBLAS, on preallocated buffers.

        Scores and sums are fp32; operands stay in their dtype (cupy.matmul would widen fp16 first). Raises ValueError
        for fp8, which it has not."""
        if self.dtype not in CUBLAS_TYPES:
            raise ValueError(f"the CuPy chain has no {self.dtype}: expected one of {', '.join(CUBLAS_TYPES)}")
        return Chain(self.device, self.shape, self.dtype, (self.q, *self.caches[copy], self.out))

    # ---- checks

    def poison(self) -> None:
        """Fills the result with NaN, so that `relative_error` speaks of what is computed from now on."""
        poison(self.device, self.out)

    def result(self) -> NDArray[np.float64]:
        """What the result holds now (B, Hq, D)."""
        return decode(to_host(self.out), _query_dtype(self.dtype))

    def relative_error(self) -> float:
        """Of what the result holds now, against float64 on the same stored operands; NaN where it was not written."""
        shape = self.shape
        heads = self.result().reshape(-1, shape.group, shape.head_dim)
        return relative_error(heads[self._checked], self._reference)

    @cached_property
    def _checked(self) -> list[int]:
        """The KV heads, counted over all sequences, that are compared."""
        count = self.shape.batch * self.shape.kv_heads
        if count <= CHECKED_HEADS:
            return list(range(count))
        return [*range(CHECKED_HEADS // 2), *range(count - CHECKED_HEADS // 2, count)]

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        """float64 result of the checked KV heads: (heads, group, D)."""
        shape, (k, v) = self.shape, self.caches[0]
        queries = decode(to_host(self.q), _query_dtype(self.dtype)).reshape(-1, shape.group, shape.head_dim)
        keys, values = (cache.reshape(-1, shape.sequence, shape.head_dim) for cache in (k, v))
        return np.concatenate(
            [
                reference_attention(
                    queries[head][None],
                    decode(to_host(keys[head, :length]), self.dtype)[None, None],
                    decode(to_host(values[head, :length]), self.dtype)[None, None],
                )
                for head in self._checked
                for length in [self._lengths[head // shape.kv_heads]]
            ]
        )


def _copies(device: CudaDevice, stored: list[Any], count: int) -> list[tuple[Any, Any]]:
    """`count` pairs of equal content: the stored K and V, and copies of them one after the other in memory."""
    k, v = (_repeat(device, cache, count - 1) for cache in stored)
    return [(stored[0], stored[1]), *zip(k, v, strict=True)]


def _repeat(device: CudaDevice, array: Any, count: int) -> list[Any]:
    if not count:
        return []
    bits = f"u{array.dtype.itemsize}"
    every = device.xp.empty((count, *array.shape), array.dtype)
    every.view(bits)[...] = array.view(bits)
    return list(every)


def _query_dtype(dtype: str) -> str:
    if dtype not in FORMATS:
        raise ValueError(f"decode attention has no {dtype!r}: expected one of {', '.join(FORMATS)}")
    return "fp16" if dtype == "fp8_e4m3" else dtype

"""Decode attention on a device: one token per sequence against a KV cache, several ways, each checked against float64.

q (B, Hq, D), K and V (B, Hkv, S, D), result (B, Hq, D); query heads share KV heads evenly, neighbours first. In
fp8_e4m3 only K and V are fp8; query and result are fp16. `copies` caches of equal content let a caller keep each launch
from finding its data in L2. Nothing here writes to a cache, times anything, or knows how fast it should be.
"""

import math
from dataclasses import dataclass
from functools import cached_property
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
from rooflab.measure.cuda.attention.configs import FusedConfig, fused_configs, kernel_defines
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.reference.attention import random_normal, reference_attention, relative_error
from rooflab.theory import dtypes

CHECKED_HEADS = 32  # KV heads compared with float64 where there are more: the first and the last ones

# cudaDataType_t and cublasComputeType_t of the strided-batched products
_CUBLAS_TYPES = {"fp32": 0, "fp16": 2, "bf16": 14}
_COMPUTE_32F, _NO_TRANSPOSE, _TRANSPOSE, _DEFAULT_ALGORITHM = 68, 0, 1, -1


@dataclass(frozen=True)
class DecodeShape:
    """Sizes of one decode step. Raises ValueError where heads do not divide evenly, or a row is not whole vectors."""

    batch: int
    query_heads: int
    kv_heads: int
    sequence: int
    head_dim: int

    def __post_init__(self) -> None:
        if min(self.batch, self.query_heads, self.kv_heads, self.sequence) < 1 or self.query_heads % self.kv_heads:
            raise ValueError(f"decode shape {self}: expected sizes above 0, query heads a multiple of KV heads")
        if self.head_dim % 16 or not 16 <= self.head_dim <= 256:
            raise ValueError(f"head size {self.head_dim}: expected a multiple of 16, at most 256")

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return self.query_heads // self.kv_heads

    def kv_bytes(self, dtype: str) -> int:
        """Bytes of K and V together."""
        return 2 * math.prod(self.kv_shape) * dtypes.dtype(dtype).bytes

    @property
    def query_shape(self) -> tuple[int, int, int]:
        """Shape of the query and of the result."""
        return (self.batch, self.query_heads, self.head_dim)

    @property
    def kv_shape(self) -> tuple[int, int, int, int]:
        """Shape of K, and of V."""
        return (self.batch, self.kv_heads, self.sequence, self.head_dim)


class DecodeCase:
    """One decode step in a dtype, its operands on the device."""

    def __init__(
        self, device: CudaDevice, shape: DecodeShape, dtype: str, q: Any, caches: list[tuple[Any, Any]]
    ) -> None:
        """`q` and `caches` (K, V) are device arrays; `from_host` and `random` make them."""
        self.device, self.shape, self.dtype, self.q, self.caches = device, shape, dtype, q, caches
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
    ) -> "DecodeCase":
        """From fp32 host arrays, converted to `dtype` here. Raises ValueError for shapes or a dtype that do not fit."""
        if q.ndim != 3 or k.ndim != 4 or k.shape != v.shape or (q.shape[0], q.shape[2]) != k.shape[::3]:
            raise ValueError(
                f"decode got q {q.shape}, k {k.shape}, v {v.shape}: expected (B, Hq, D), (B, Hkv, S, D) twice"
            )
        shape = DecodeShape(q.shape[0], q.shape[1], k.shape[1], k.shape[2], k.shape[3])
        query = to_device(device, encode(q, _query_dtype(dtype)))
        stored = [to_device(device, encode(cache, dtype)) for cache in (k, v)]
        return cls(device, shape, dtype, query, _copies(device, stored, copies))

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
        return self.dtype in _CUBLAS_TYPES

    def fused_candidates(self, limit: int = 24) -> list[FusedConfig]:
        """Ways to launch the fused kernel that may be fastest here, most promising first; the caller measures."""
        shape = self.shape
        units, capability = shape.batch * shape.kv_heads, self.device.compute_capability
        return fused_configs(
            self.dtype, shape.head_dim, shape.group, units, shape.sequence, capability, self.device.sm_count, limit
        )

    def fused(self, config: FusedConfig, copy: int = 0) -> Call:
        """The fused kernel, one launch, on one of the caches. CuPy raises where it does not compile or fit."""
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
        if self.dtype not in _CUBLAS_TYPES:
            raise ValueError(f"the CuPy chain has no {self.dtype}: expected one of {', '.join(_CUBLAS_TYPES)}")
        return _Chain(self, *self.caches[copy])

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
                    decode(to_host(keys[head]), self.dtype)[None, None],
                    decode(to_host(values[head]), self.dtype)[None, None],
                )
                for head in self._checked
            ]
        )


class _Chain:
    """q K^T and p V as strided-batched cuBLAS products over the KV heads, softmax between them."""

    def __init__(self, case: DecodeCase, keys: Any, values: Any) -> None:
        shape, xp = case.shape, case.device.xp
        self._case, self._keys, self._values = case, keys, values
        self._scores = xp.empty((shape.batch * shape.kv_heads, shape.group, shape.sequence), np.float32)
        self._weights = self._scores if case.dtype == "fp32" else xp.empty(self._scores.shape, case.q.dtype)
        self._one, self._zero = np.array(1, np.float32), np.array(0, np.float32)
        self._scale = np.array(1 / math.sqrt(shape.head_dim), np.float32)
        self._type = _CUBLAS_TYPES[case.dtype]

    def __call__(self) -> None:
        xp, scores = self._case.device.xp, self._scores
        self._score()
        xp.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
        xp.exp(scores, out=scores)
        xp.divide(scores, scores.sum(axis=-1, keepdims=True), out=scores)
        if self._weights is not scores:
            self._weights[...] = scores
        self._weigh()

    def _score(self) -> None:
        """Column-major: scores (S x group) = K^T (S x D) q (D x group)."""
        shape, case = self._case.shape, self._case
        s, d, group = shape.sequence, shape.head_dim, shape.group
        keys, queries = (self._keys.data.ptr, self._type, d, s * d), (case.q.data.ptr, self._type, d, group * d)
        result = (self._scores.data.ptr, 0, s, group * s)
        self._multiply(_TRANSPOSE, (s, group, d), self._scale, keys, queries, result)

    def _weigh(self) -> None:
        """Column-major: out (D x group) = V (D x S) weights (S x group)."""
        shape, case = self._case.shape, self._case
        s, d, group = shape.sequence, shape.head_dim, shape.group
        values = (self._values.data.ptr, self._type, d, s * d)
        weights = (self._weights.data.ptr, self._type, s, group * s)
        result = (case.out.data.ptr, self._type, d, group * d)
        self._multiply(_NO_TRANSPOSE, (d, group, s), self._one, values, weights, result)

    def _multiply(
        self, transpose: int, sizes: tuple[int, int, int], factor: Any, first: Any, second: Any, result: Any
    ) -> None:
        """`first`, `second` and `result` are (address, type, leading dimension, stride between KV heads)."""
        device, heads = self._case.device, self._case.shape.batch * self._case.shape.kv_heads
        device.cublas.gemmStridedBatchedEx(
            *(device.cublas_handle, transpose, _NO_TRANSPOSE, *sizes),
            *(factor.ctypes.data, *first, *second, self._zero.ctypes.data, *result),
            *(heads, _COMPUTE_32F, _DEFAULT_ALGORITHM),
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

"""The textbook chain of decode attention in CuPy: two cuBLAS products, and softmax kernels between them."""

import math
from typing import Any

import numpy as np

from rooflab.measure.cuda.attention.shape import DecodeShape
from rooflab.measure.cuda.device import CudaDevice

# cudaDataType_t and cublasComputeType_t of the strided-batched products
CUBLAS_TYPES = {"fp32": 0, "fp16": 2, "bf16": 14}
_COMPUTE_32F, _NO_TRANSPOSE, _TRANSPOSE, _DEFAULT_ALGORITHM = 68, 0, 1, -1


class Chain:
    """q K^T and p V as strided-batched cuBLAS products over the KV heads, softmax between them."""

    def __init__(self, device: CudaDevice, shape: DecodeShape, dtype: str, arrays: tuple[Any, Any, Any, Any]) -> None:
        """`arrays`: query, K, V and result."""
        self._device, self._shape = device, shape
        self._query, self._keys, self._values, self._out = arrays
        xp = device.xp
        self._scores = xp.empty((shape.batch * shape.kv_heads, shape.group, shape.sequence), np.float32)
        self._weights = self._scores if dtype == "fp32" else xp.empty(self._scores.shape, self._query.dtype)
        self._one, self._zero = np.array(1, np.float32), np.array(0, np.float32)
        self._scale = np.array(1 / math.sqrt(shape.head_dim), np.float32)
        self._type = CUBLAS_TYPES[dtype]

    def __call__(self) -> None:
        xp, scores = self._device.xp, self._scores
        self._score()
        xp.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
        xp.exp(scores, out=scores)
        xp.divide(scores, scores.sum(axis=-1, keepdims=True), out=scores)
        if self._weights is not scores:
            self._weights[...] = scores
        self._weigh()

    def _score(self) -> None:
        """Column-major: scores (S x group) = K^T (S x D) q (D x group)."""
        shape = self._shape
        s, d, group = shape.sequence, shape.head_dim, shape.group
        keys, queries = (self._keys.data.ptr, self._type, d, s * d), (self._query.data.ptr, self._type, d, group * d)
        result = (self._scores.data.ptr, 0, s, group * s)
        self._multiply(_TRANSPOSE, (s, group, d), self._scale, keys, queries, result)

    def _weigh(self) -> None:
        """Column-major: out (D x group) = V (D x S) weights (S x group)."""
        shape = self._shape
        s, d, group = shape.sequence, shape.head_dim, shape.group
        values = (self._values.data.ptr, self._type, d, s * d)
        weights = (self._weights.data.ptr, self._type, s, group * s)
        result = (self._out.data.ptr, self._type, d, group * d)
        self._multiply(_NO_TRANSPOSE, (d, group, s), self._one, values, weights, result)

    def _multiply(
        self, transpose: int, sizes: tuple[int, int, int], factor: Any, first: Any, second: Any, result: Any
    ) -> None:
        """`first`, `second` and `result` are (address, type, leading dimension, stride between KV heads)."""
        device, heads = self._device, self._shape.batch * self._shape.kv_heads
        device.cublas.gemmStridedBatchedEx(
            *(device.cublas_handle, transpose, _NO_TRANSPOSE, *sizes),
            *(factor.ctypes.data, *first, *second, self._zero.ctypes.data, *result),
            *(heads, _COMPUTE_32F, _DEFAULT_ALGORITHM),
        )

"""Decode attention over an array module handed in (NumPy or CuPy), its float64 truth, and the narrow number formats.

Shapes everywhere: q (B, Hq, D), k and v (B, Hkv, S, D), result (B, Hq, D). B sequences each decode one token against
S cached ones; query heads share KV heads evenly, neighbours first (query head h reads KV head h // (Hq / Hkv)).
Grouped-query attention: J. Ainslie et al., arXiv:2305.13245.
"""

import math
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

E4M3_MOST = 448.0

# an array of the module handed in, which this room does not know
Array = Any


def softmax(xp: ModuleType, scores: Array) -> Array:
    """Softmax over the last axis, with its maximum subtracted first so that no exponential overflows."""
    weights = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def decode_attention(xp: ModuleType, q: Array, k: Array, v: Array, scale: float | None = None) -> Array:
    """softmax(scale * q k^T) v for one token per sequence; `scale` is 1 / sqrt(D) unless given.

    fp32 and fp64 operands are computed in their own dtype. fp16 and bf16 operands are widened to fp32, everything is
    computed in fp32, and the result is rounded once to the operands' dtype. That holds for both array modules: CPU
    BLAS has no half formats, and cupy.matmul widens batched fp16 operands itself and cannot multiply batched bf16.
    Raises ValueError where the shapes or dtypes do not fit.
    """
    group = _group_size(q, k, v)
    batch, query_heads, head_dim = q.shape
    compute = xp.float32 if q.dtype.itemsize == 2 else q.dtype
    queries, keys, values = (operand.astype(compute, copy=False) for operand in (q, k, v))
    grouped = queries.reshape(batch, query_heads // group, group, head_dim)
    scores = xp.matmul(grouped, keys.swapaxes(-1, -2)) * _scale(scale, head_dim)
    mixed = xp.matmul(softmax(xp, scores), values)
    return mixed.reshape(q.shape).astype(q.dtype, copy=False)


def decode_attention_into(
    q: NDArray[np.float32],
    k: NDArray[np.float32],
    v: NDArray[np.float32],
    scores: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """The same in fp32 NumPy, written to `out` (B, Hq, D) through the work buffer `scores` (B, Hq, S).

    Allocates B * Hq numbers, never anything of the size of K or V. Raises ValueError where the shapes do not fit or an
    array is not C-contiguous fp32.
    """
    group = _group_size(q, k, v)
    batch, query_heads, head_dim = q.shape
    _require_buffers(q=q, k=k, v=v, scores=scores, out=out)
    _require_shape("scores", scores, (batch, query_heads, k.shape[2]))
    _require_shape("out", out, q.shape)
    heads = (batch, query_heads // group, group)
    grouped_scores = scores.reshape(*heads, -1)
    np.matmul(q.reshape(*heads, head_dim), k.swapaxes(-1, -2), out=grouped_scores)
    scores *= np.float32(_scale(None, head_dim))
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    np.matmul(grouped_scores, v, out=out.reshape(*heads, head_dim))


def reference_attention(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], scale: float | None = None
) -> NDArray[np.float64]:
    """The truth that every other implementation is checked against: float64 on host arrays of any float dtype.

    One sequence and KV head at a time, so that only one head's keys and values exist in float64. NaN in an operand
    reaches every result that reads it. Raises ValueError where the shapes or dtypes do not fit.
    """
    group = _group_size(q, k, v)
    out = np.empty(q.shape, np.float64)
    for sequence in range(k.shape[0]):
        for kv_head in range(k.shape[1]):
            queries = slice(kv_head * group, (kv_head + 1) * group)
            keys = k[sequence, kv_head].astype(np.float64)
            logits = q[sequence, queries].astype(np.float64) @ keys.T * _scale(scale, q.shape[-1])
            out[sequence, queries] = softmax(np, logits) @ v[sequence, kv_head].astype(np.float64)
    return out


def relative_error(got: NDArray[Any], want: NDArray[Any]) -> float:
    """Frobenius norm of got - want over that of want, in float64; NaN if `got` holds a NaN.

    Against a `want` of zeros: 0 where `got` is zero as well, else infinity. Raises ValueError if the shapes differ.
    """
    _require_shape("got", got, want.shape)
    exact = want.astype(np.float64)
    error = float(np.linalg.norm((got.astype(np.float64) - exact).ravel()))
    size = float(np.linalg.norm(exact.ravel()))
    if size == 0 and not math.isnan(error):
        return 0.0 if error == 0 else math.inf
    return error / size if size else error


def random_normal(shape: tuple[int, ...], seed: int | Sequence[int]) -> NDArray[np.float32]:
    """fp32 host array of standard normal numbers; the same `seed` and `shape` give the same numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def random_kv(
    batch: int, kv_heads: int, sequence: int, head_dim: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Random keys and values (B, Hkv, S, D), independent of each other and of `random_normal` with the same seed."""
    shape = (batch, kv_heads, sequence, head_dim)
    return random_normal(shape, (seed, 1)), random_normal(shape, (seed, 2))


def to_bf16_bits(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bf16 bit patterns of fp32 `values`, rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> 16) & np.uint32(1))) >> 16
    quiet_nan = (bits >> 16) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet_nan, rounded).astype(np.uint16)


@cache
def e4m3_decode_table() -> NDArray[np.float32]:
    """The fp32 value of each of the 256 fp8 e4m3 codes; read-only.

    One sign, four exponent bits with bias 7, three mantissa bits, no infinity, 0x7F and 0xFF are NaN, largest value
    448: P. Micikevicius et al., arXiv:2209.05433, table 1.
    """
    codes = np.arange(256)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    significand = np.where(exponent == 0, mantissa, mantissa + 8)
    table = np.ldexp(significand.astype(np.float32), np.maximum(exponent, 1) - 10)
    table[(codes & 0x7F) == 0x7F] = np.nan
    table = np.where(codes >= 128, -table, table)
    table.flags.writeable = False
    return table


def encode_e4m3(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """The fp8 e4m3 code nearest to each value, ties to the even code; beyond 448 saturates, NaN becomes NaN."""
    return np.clip(values, -E4M3_MOST, E4M3_MOST).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def _scale(scale: float | None, head_dim: int) -> float:
    return 1 / math.sqrt(head_dim) if scale is None else scale


def _group_size(q: Array, k: Array, v: Array) -> int:
    """How many query heads share one KV head. Raises ValueError where q, k and v do not fit together."""
    seen = f"q {q.shape} {q.dtype}, k {k.shape} {k.dtype}, v {v.shape} {v.dtype}"
    if len(q.shape) != 3 or len(k.shape) != 4 or k.shape != v.shape or (q.shape[0], q.shape[2]) != k.shape[::3]:
        raise ValueError(f"attention got {seen}: expected q (B, Hq, D), k and v (B, Hkv, S, D)")
    if 0 in k.shape or q.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"attention got {seen}: expected S >= 1 and query heads that are a multiple of the KV heads")
    if not (q.dtype == k.dtype == v.dtype) or q.dtype.kind not in "fV" or q.dtype.itemsize not in (2, 4, 8):
        raise ValueError(f"attention got {seen}: expected one dtype for all three, of fp16, bf16, fp32, fp64")
    return int(q.shape[1] // k.shape[1])


def _require_shape(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}: expected {shape}")


def _require_buffers(**arrays: NDArray[Any]) -> None:
    for name, array in arrays.items():
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            layout = "C-contiguous" if array.flags.c_contiguous else "not contiguous"
            raise ValueError(f"{name} is {layout} {array.dtype}: expected a C-contiguous float32 array")

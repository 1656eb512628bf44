"""The parts of a decode step over an array module handed in (NumPy or CuPy): norms, activations, products, latent attention.

These are the truth that the kernels and library calls are checked against, in float64. Letters in shapes: B rows, E
elements of a row, H heads, S cached tokens, R the latent's rank, P elements of the rotary key.
"""

import math
from types import ModuleType
from typing import Any

from rooflab.reference.attention import softmax

EPSILON = 1e-5

# an array of the module handed in, which this room does not know
Array = Any


def rmsnorm(xp: ModuleType, x: Array, gain: Array) -> Array:
    """Each row (B, E) over its root mean square, times the gain: B. Zhang, R. Sennrich, arXiv:1910.07467."""
    return x / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + EPSILON) * gain


def layernorm(xp: ModuleType, x: Array, gain: Array, bias: Array) -> Array:
    """Each row (B, E) with mean 0 and variance 1, times the gain, plus the bias: J. L. Ba et al., arXiv:1607.06450."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / xp.sqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON) * gain + bias


def silu(xp: ModuleType, x: Array) -> Array:
    """x / (1 + exp(-x)): S. Elfwing et al., arXiv:1702.03118."""
    return x / (1 + xp.exp(-x))


def gelu(xp: ModuleType, x: Array) -> Array:
    """GELU in its tanh approximation: D. Hendrycks, K. Gimpel, arXiv:1606.08415, section 2."""
    return 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def activation(xp: ModuleType, kernel: str, x: Array) -> Array:
    """`silu` or `gelu` of x (B, E); `silu_gated` and `gelu_gated` of the first half of x (B, 2E), times the second:
    N. Shazeer, arXiv:2002.05202. Raises ValueError for another kernel."""
    name, _, gated = kernel.partition("_")
    if name not in ("silu", "gelu") or gated not in ("", "gated"):
        raise ValueError(f"unknown activation {kernel!r}: expected silu, gelu, silu_gated or gelu_gated")
    function = silu if name == "silu" else gelu
    if not gated:
        return function(xp, x)
    half = x.shape[-1] // 2
    return function(xp, x[..., :half]) * x[..., half:]


def projection(xp: ModuleType, x: Array, weight: Array) -> Array:
    """Y = X W^T for a weight (N, K) as models store it; groups of them where both have a leading axis."""
    return xp.matmul(x, weight.swapaxes(-1, -2))


def latent_attention(xp: ModuleType, q: Array, cache: Array, rank: int, scale: float) -> Array:
    """Absorbed multi-head latent attention of one token: q (B, H, R + P), cache (B, S, R + P), result (B, H, R).

    All heads read the same cached rows; scores are taken over the whole row, values are its first R elements:
    DeepSeek-AI, arXiv:2405.04434, section 2.1.2. `scale` belongs to the size of the heads before absorbing, so it is
    given. Raises ValueError where the shapes do not fit.
    """
    fits = q.ndim == 3 and cache.ndim == 3 and (q.shape[0], q.shape[2]) == (cache.shape[0], cache.shape[2])
    if not fits or not 0 < rank <= cache.shape[2]:
        raise ValueError(
            f"latent attention got q {q.shape}, cache {cache.shape}, rank {rank}: expected (B, H, R + P), (B, S, R + P), R"
        )
    scores = xp.matmul(q, cache.swapaxes(-1, -2)) * scale
    return xp.matmul(softmax(xp, scores), cache[..., :rank])

"""How many FLOP and bytes an operation needs, and where two ceilings of the roofline meet. Arithmetic only.

Roofline: S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model for multicore
architectures", Communications of the ACM 52(4), 2009. A fused multiply-add counts as 2 FLOP.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """What one execution of an operator must do: `flop` (a count) and `bytes` (moved between memory and chip)."""

    flop: int
    bytes: int

    @property
    def intensity(self) -> float:
        """Arithmetic intensity in FLOP per byte; 0 for an operator that only moves data."""
        return self.flop / self.bytes


def copy(nbytes: int) -> Work:
    """Copy of `nbytes` from one buffer to another: each byte is read and written (the STREAM and BabelStream count)."""
    _require_positive(nbytes=nbytes)
    return Work(0, 2 * nbytes)


def read(nbytes: int) -> Work:
    """Read of `nbytes` whose result is negligible."""
    _require_positive(nbytes=nbytes)
    return Work(0, nbytes)


def write(nbytes: int) -> Work:
    """Write of `nbytes` without reading."""
    _require_positive(nbytes=nbytes)
    return Work(0, nbytes)


def triad(n_elements: int, dtype_bytes: int) -> Work:
    """a[i] = b[i] + s * c[i]: two reads, one write and 2 FLOP per element (the STREAM and BabelStream count)."""
    _require_positive(n_elements=n_elements, dtype_bytes=dtype_bytes)
    return Work(2 * n_elements, 3 * n_elements * dtype_bytes)


def multiply_adds(count: int) -> int:
    """FLOP of `count` fused multiply-adds."""
    return 2 * count


def square_product(n: int) -> int:
    """FLOP of the product of two (n, n) matrices: n multiply-adds for each of n^2 elements."""
    return multiply_adds(n**3)


def gemm(m: int, n: int, k: int, in_bytes: int, out_bytes: int, convention: str) -> Work:
    """C (m, n) = A (m, k) @ B (k, n): 2mnk FLOP; `in_bytes` and `out_bytes` are the sizes of an element.

    `convention` "reads" counts A and B only, as the lab does (n / in_bytes for a square product: 2048 for 4096 in
    fp16); "reads_and_write" adds C (1365 for the same product). Each matrix moves once. Raises ValueError for another.
    """
    _require_positive(m=m, n=n, k=k, in_bytes=in_bytes, out_bytes=out_bytes)
    reads = (m * k + k * n) * in_bytes
    moved = {"reads": reads, "reads_and_write": reads + m * n * out_bytes}
    if convention not in moved:
        raise ValueError(f"unknown GEMM byte convention {convention!r}: expected one of {', '.join(moved)}")
    return Work(multiply_adds(m * n * k), moved[convention])


def decode_attention(batch: int, query_heads: int, kv_heads: int, sequence: int, head_dim: int, kv_bytes: int) -> Work:
    """Attention of one new token per batch entry over a cache of `sequence` keys and values, as the lab counts it.

    FLOP = 4 * batch * query_heads * sequence * head_dim (q @ K.T and p @ V; softmax not counted), bytes = 2 * batch *
    kv_heads * sequence * head_dim * kv_bytes (K and V read once; query and output not counted). With g = query_heads
    / kv_heads the intensity is 2g / kv_bytes. Raises ValueError if the query heads do not share the KV heads evenly.
    """
    _require_positive(
        batch=batch, query_heads=query_heads, kv_heads=kv_heads, sequence=sequence, head_dim=head_dim, kv_bytes=kv_bytes
    )
    if query_heads % kv_heads:
        raise ValueError(
            f"query_heads {query_heads} is not a multiple of kv_heads {kv_heads}: each KV head serves the same number "
            "of query heads, so change one of the two"
        )
    rows = batch * sequence * head_dim
    return Work(4 * query_heads * rows, 2 * kv_heads * rows * kv_bytes)


def ridge_point(flop_per_s: float, bytes_per_s: float) -> float:
    """Intensity in FLOP/byte at which the memory ceiling meets the compute ceiling: P / B."""
    _require_positive(flop_per_s=flop_per_s, bytes_per_s=bytes_per_s)
    return flop_per_s / bytes_per_s


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{name} is {value}: expected a finite number above 0")

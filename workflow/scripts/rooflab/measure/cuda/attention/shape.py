"""The sizes of one decode step with keys and values."""

import math
from dataclasses import dataclass

from rooflab.theory import dtypes


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

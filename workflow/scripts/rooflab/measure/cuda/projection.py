"""Skinny products on a device: a few rows of activations times one layer's weights, in copies that L2 cannot keep.

Y (groups, rows, n) = X (groups, rows, k) W^T with W (groups, n, k) as models store it, through cuBLASLt, which a CUDA graph
can capture. fp8 products have their rows padded to the 16 that cuBLASLt wants; results of fp8 are bf16.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda.arrays import decode, encode, normal, poison, to_host
from rooflab.measure.cuda.cublaslt import ALIGNMENT, Lt, MatmulPlan, Pointers, open_library
from rooflab.measure.cuda.cublaslt_abi import Heuristic
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.reference.attention import relative_error
from rooflab.reference.step import projection
from rooflab.theory.dtypes import dtype as format_of

WORKSPACE_BYTES = 64 << 20
CHECKED_COLUMNS = 32
CHECKED_GROUPS = 4
USUAL_K = 4096  # of the products that a format's `product_error` is of; an error grows with the root of k


@dataclass(frozen=True)
class Sizes:
    """One product, or `groups` of them."""

    rows: int
    n: int
    k: int
    groups: int = 1

    def weight_bytes(self, element_bytes: int) -> int:
        """Bytes of one copy of the weights."""
        return self.groups * self.n * self.k * element_bytes


class ProjectionCase:
    """One product in a dtype, its weights on the device `copies` times over, each with numbers of its own."""

    def __init__(self, device: CudaDevice, sizes: Sizes, dtype: str, copies: int) -> None:
        """Raises ValueError for an n or k that fp8 cannot have (a multiple of 16)."""
        self.device, self.sizes, self.dtype = device, sizes, dtype
        self.padded_rows = -(-sizes.rows // ALIGNMENT) * ALIGNMENT if dtype == "fp8_e4m3" else sizes.rows
        self.result_dtype = format_of(dtype).result
        self.x = normal(device, (sizes.groups, self.padded_rows, sizes.k), dtype, (0, 1))
        self.weights = normal(device, (copies, sizes.groups, sizes.n, sizes.k), dtype, (0, 2))
        stored = encode(np.zeros(1, np.float32), self.result_dtype).dtype
        self.y = device.xp.empty((sizes.groups, self.padded_rows, sizes.n), stored)
        self._workspace = device.xp.empty(WORKSPACE_BYTES, np.uint8)
        lt = Lt(open_library(), device.stream.ptr, self._workspace.data.ptr, WORKSPACE_BYTES)
        self._plans = [self._plan(lt, weight) for weight in self.weights]

    def algorithms(self, limit: int) -> list[Heuristic]:
        """What cuBLASLt proposes, its favourite first. Raises LtError, also where it has nothing."""
        return self._plans[0].heuristics(limit)

    def config(self, algorithm: Heuristic) -> dict[str, int]:
        """What is known of an algorithm."""
        return self._plans[0].config(algorithm)

    def calls(self, algorithm: Heuristic) -> list[Call]:
        """The product by that algorithm, one call per copy of the weights."""
        return [plan.call(algorithm) for plan in self._plans]

    def poison(self) -> None:
        """Fills the result with NaN, so that `relative_error` speaks of what is computed from now on."""
        poison(self.device, self.y)

    def relative_error(self) -> float:
        """Of what the result of the first copy holds, against float64, on some columns of some groups."""
        found = [decode(to_host(self.y[g]), self.result_dtype)[: self.sizes.rows, self._columns] for g in self._groups]
        return relative_error(np.stack(found), self._reference)

    @property
    def tolerance(self) -> float:
        """The largest relative error that this arithmetic has."""
        return format_of(self.dtype).product_error[1] * max(1.0, (self.sizes.k / USUAL_K) ** 0.5)

    @property
    def _groups(self) -> range:
        return range(min(CHECKED_GROUPS, self.sizes.groups))

    @cached_property
    def _columns(self) -> Any:
        n = self.sizes.n
        return np.sort(np.random.default_rng(n).choice(n, min(CHECKED_COLUMNS, n), replace=False))

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        products = []
        for group in self._groups:
            x = decode(to_host(self.x[group]), self.dtype)[: self.sizes.rows]
            rows = [to_host(self.weights[0, group, int(column)]) for column in self._columns]
            products.append(projection(np, x, decode(np.stack(rows), self.dtype)))
        return np.stack(products)

    def _plan(self, lt: Lt, weight: Any) -> MatmulPlan:
        owners = (self.x, self.weights, self.y, self._workspace)
        pointers = Pointers(self.x.data.ptr, weight.data.ptr, self.y.data.ptr, owners=owners)
        sizes = self.sizes
        return lt.matmul_plan(self.dtype, self.padded_rows, sizes.n, sizes.k, pointers, True, sizes.groups)

"""Square matrix products on a device: operands, the plain call, other algorithms for it, and what was really computed.

C = A B with A, B random normal and row-major; with cuBLASLt as the plain path B is stored transposed. The relative
error against float64 tells which arithmetic ran, without a profiler: each dtype has a window that others fall out of.
"""

import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda.arrays import decode, encode, normal, poison, to_device, to_host
from rooflab.measure.cuda.cublaslt import Lt, LtError, MatmulPlan, Pointers, open_library
from rooflab.measure.cuda.cublaslt_abi import KINDS, NOT_SUPPORTED
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.reference.attention import relative_error
from rooflab.theory import dtypes

WORKSPACE_BYTES = 64 << 20
CHECKED_ROWS = 32

# fp8 operands are multiplied by these; neither is 1, so a scale that is not applied shows as an error of a factor
SCALES = (0.5, 0.25)

# dtypes whose plain path is cupy.matmul; the others go through cuBLASLt
CUPY_DTYPES = ("fp32", "fp16", "bf16", "fp64")

# Variables that make a library multiply fp32 in another arithmetic than asked for.
ARITHMETIC_VARIABLES = (
    "CUPY_TF32",
    "NVIDIA_TF32_OVERRIDE",
    "CUBLAS_EMULATE_SINGLE_PRECISION",
    "CUBLAS_EMULATE_DOUBLE_PRECISION",
    "CUBLAS_EMULATION_STRATEGY",
)


def neutralise_tf32_environment(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """Unsets the variables that change the arithmetic of fp32 products; returns those that were set, for the record.

    To be called before CuPy is imported: the libraries read them once.
    """
    return {name: environment.pop(name) for name in ARITHMETIC_VARIABLES if name in environment}


@dataclass(frozen=True)
class Candidate:
    """One way to the same result in the same buffer; `config` says which algorithm of the library it is."""

    name: str
    config: dict[str, int]
    call: Call


class GemmCase:
    """The product of two n x n matrices in a dtype or a variant of one: fp8_e4m3_full sums in full fp32 precision, not
    the faster way; fp16_acc16 sums in fp16."""

    def __init__(self, device: CudaDevice, variant: str, n: int, seed: int = 0) -> None:
        """Raises ValueError for an unknown variant, or an n that fp8 or int8 cannot have (a multiple of 16)."""
        self.format = dtypes.variant(variant)
        self.device, self.variant, self.n = device, variant, n
        self.dtype = self.format.name
        self.b_transposed = variant not in CUPY_DTYPES
        self.a = normal(device, (n, n), self.dtype, (seed, 1))
        self.b = normal(device, (n, n), self.dtype, (seed, 2))
        self.result_dtype = self.format.result
        self.c = device.xp.empty((n, n), self._result_type())
        poison(device, self.c)

    def _result_type(self) -> Any:
        if self.variant == "int8":
            return np.int32
        return encode(np.zeros(1, np.float32), self.result_dtype).dtype

    @property
    def path(self) -> str:
        """How the plain call reaches the library, for the record."""
        if not self.b_transposed:
            return "cupy.matmul"
        fast = {True: ", fast accumulation", False: ", full accumulation", None: ""}[KINDS[self.variant].fast]
        return f"cublasLtMatmul, both operands along K{fast}"

    @property
    def scales(self) -> tuple[float, float] | None:
        """Factors of A and B in the product; None where there are none."""
        return SCALES if self.dtype == "fp8_e4m3" else None

    def call(self) -> Call:
        """The plain product: cupy.matmul, or the library's first choice. Raises LtError."""
        if self.b_transposed:
            first = self._plan.heuristics(1)
            if not first:
                raise LtError("cublasLtMatmulAlgoGetHeuristic proposes nothing", NOT_SUPPORTED)
            return self._plan.call(first[0])
        matmul, a, b, c = self.device.xp.matmul, self.a, self.b, self.c
        return lambda: matmul(a, b, out=c)

    def candidates(self, limit: int) -> list[Candidate]:
        """Up to `limit` algorithms that cuBLASLt proposes for the same operands, without the plain call's own."""
        skipped = 1 if self.b_transposed else 0
        found = self._plan.heuristics(limit + skipped)
        return [
            Candidate(f"cublasLt candidate {rank}", self._plan.config(entry), self._plan.call(entry))
            for rank, entry in enumerate(found)
            if rank >= skipped
        ]

    def poison(self) -> None:
        """Fills the result with NaN (int8: -1), so that `relative_error` speaks of what is computed from now on."""
        poison(self.device, self.c)

    def relative_error(self) -> float:
        """Of what the result holds now, against float64, on CHECKED_ROWS random rows; NaN where it was not written."""
        return relative_error(self._row_values(self.c), self._reference)

    def _row_values(self, matrix: Any) -> NDArray[Any]:
        """The checked rows on the host, copied one by one: no CuPy kernel has to know the dtype."""
        return np.stack([to_host(matrix[int(row)]) for row in self._rows])

    @cached_property
    def _rows(self) -> Any:
        return np.sort(np.random.default_rng(self.n).choice(self.n, min(CHECKED_ROWS, self.n), replace=False))

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        factor = SCALES[0] * SCALES[1] if self.scales else 1.0
        b = decode(to_host(self.b), self.dtype)
        return decode(self._row_values(self.a), self.dtype) @ (b.T if self.b_transposed else b) * factor

    @cached_property
    def _plan(self) -> MatmulPlan:
        xp = self.device.xp
        workspace = xp.empty(WORKSPACE_BYTES, np.uint8)
        scales = to_device(self.device, np.array([[SCALES[0]] * 4, [SCALES[1]] * 4], np.float32))
        lt = Lt(open_library(), self.device.stream.ptr, workspace.data.ptr, WORKSPACE_BYTES)
        first = scales.data.ptr
        a_scale, b_scale = (first, first + 16) if self.scales else (0, 0)
        owners = (self.a, self.b, self.c, scales, workspace)
        pointers = Pointers(self.a.data.ptr, self.b.data.ptr, self.c.data.ptr, a_scale, b_scale, owners)
        return lt.matmul_plan(self.variant, self.n, self.n, self.n, pointers, self.b_transposed)

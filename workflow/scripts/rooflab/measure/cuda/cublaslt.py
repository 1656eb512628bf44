"""Matrix products through NVIDIA's cuBLASLt library, by ctypes: what CuPy cannot do (fp8, TF32 by request, int8 on
Tensor Cores), and other algorithms for what it can.

Row-major throughout: D[M, N] = A[M, K] B, with B stored [K, N] or, transposed, [N, K]. cuBLASLt is column-major, so it
is handed D^T = B^T A^T, with B as its first operand. Both operands along K ("TN") is
what every chip has for fp8 and int8.
"""

import ctypes
import sys
import weakref
from collections.abc import Callable, Iterable
from ctypes import byref, c_int, c_int8, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflab.machine.faults import DeviceError, loaded_libraries
from rooflab.measure.cuda import cublaslt_abi as abi
from rooflab.measure.cuda.cublaslt_abi import KINDS, Heuristic, Kind

ALIGNMENT = 16  # fp8 and int8: M, N and K are multiples of it, and pointers too
WHEEL_PATTERNS = ("nvidia/cublas/lib/libcublasLt.so.*", "nvidia/cu1*/lib/libcublasLt.so.*")
SONAMES = ("libcublasLt.so.13", "libcublasLt.so.12")


class LtError(RuntimeError):
    """A cuBLASLt function refused; `status` is its cublasStatus_t."""

    def __init__(self, function: str, status: int) -> None:
        super().__init__(f"{function}: CUBLAS_STATUS_{abi.STATUS.get(status, 'unknown')} ({status})")
        self.status = status


def candidate_libraries() -> list[str]:
    """Where cuBLASLt may be, the copy that this process already uses (CuPy's) first."""
    loaded = [str(path) for path in loaded_libraries() if path.name.startswith("libcublasLt.so")]
    wheels = [
        str(file) for folder in sys.path for pattern in WHEEL_PATTERNS for file in sorted(Path(folder).glob(pattern))
    ]
    return list(dict.fromkeys([*loaded, *wheels, *SONAMES]))


def open_library(
    candidates: Iterable[str] | None = None, load: Callable[[str], ctypes.CDLL] = ctypes.CDLL
) -> ctypes.CDLL:
    """The first cuBLASLt that loads. Raises DeviceError naming every file tried and why it did not."""
    refused = []
    for file in candidate_libraries() if candidates is None else candidates:
        try:
            return load(file)
        except OSError as error:
            reason = str(error).replace(file, Path(file).name)
            refused.append(f"{Path(file).name} ({reason})")
    tried = "; ".join(refused) or "no file found"
    raise DeviceError(
        f"libcublasLt was not found; tried {tried}", "make setup GPU=1 (it installs cuda-toolkit[cublas])"
    )


class Lt:
    """A cuBLASLt handle with a workspace of the caller's on a stream of the caller's."""

    def __init__(self, library: ctypes.CDLL, stream: int, workspace: int, workspace_bytes: int) -> None:
        """`stream`, a cudaStream_t, and `workspace`, a device pointer, must outlive this object. Raises LtError."""
        self._library = library
        for name, arguments in abi.SIGNATURES.items():
            getattr(library, name).argtypes = arguments
        library.cublasLtGetVersion.restype = c_size_t
        self.stream, self.workspace, self.workspace_bytes = stream, workspace, workspace_bytes
        self.handle = self._create("cublasLtCreate", destroy="cublasLtDestroy")

    @property
    def version(self) -> int:
        """The library's version, 130100 for 13.1.0."""
        return int(self._library.cublasLtGetVersion())

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a library function. Raises LtError if it refuses."""
        status = getattr(self._library, function)(*arguments)
        if status:
            raise LtError(function, status)

    def matmul_plan(
        self, kind: str, m: int, n: int, k: int, pointers: "Pointers", b_transposed: bool, groups: int = 1
    ) -> "MatmulPlan":
        """The product D[m, n] = A[m, k] B of one of KINDS, or `groups` of them one after the other in memory. Raises
        LtError; ValueError for sizes that fp8 or int8 cannot have."""
        if KINDS[kind].operand in (abi.R_8F_E4M3, abi.R_8I) and (
            not b_transposed or any(size % ALIGNMENT for size in (m, n, k))
        ):
            raise ValueError(
                f"{kind} product of {m} x {n} x {k}, B {'transposed' if b_transposed else 'not transposed'}: "
                f"expected B transposed and every size a multiple of {ALIGNMENT}"
            )
        return MatmulPlan(self, KINDS[kind], m, n, k, pointers, b_transposed, groups)

    def _create(self, function: str, *arguments: int, destroy: str) -> c_void_p:
        made = c_void_p()
        self.call(function, byref(made), *arguments)
        weakref.finalize(self, getattr(self._library, destroy), made).atexit = False
        return made

    def description(self, kind: Kind, pointers: "Pointers", b_transposed: bool) -> c_void_p:
        """A cublasLtMatmulDesc_t; cuBLASLt's A is our B."""
        made = self._create("cublasLtMatmulDescCreate", kind.compute, kind.scale, destroy="cublasLtMatmulDescDestroy")
        attributes: dict[int, Any] = {
            abi.DESC_TRANSA: c_int32(abi.OP_T if b_transposed else abi.OP_N),
            abi.DESC_TRANSB: c_int32(abi.OP_N),
        }
        if pointers.a_scale and pointers.b_scale:
            attributes[abi.DESC_A_SCALE_POINTER] = c_void_p(pointers.b_scale)
            attributes[abi.DESC_B_SCALE_POINTER] = c_void_p(pointers.a_scale)
        if kind.fast is not None:
            attributes[abi.DESC_FAST_ACCUM] = c_int8(kind.fast)
        for attribute, value in attributes.items():
            self.call("cublasLtMatmulDescSetAttribute", made, attribute, byref(value), ctypes.sizeof(value))
        return made

    def layout(self, element: int, rows: int, columns: int, groups: int = 1, leading: int | None = None) -> c_void_p:
        """A cublasLtMatrixLayout_t of `groups` column-major matrices one after the other; `leading` elements lie from one
        column to the next, `rows` unless given."""
        step = leading or rows
        destroy = "cublasLtMatrixLayoutDestroy"
        made = self._create("cublasLtMatrixLayoutCreate", element, rows, columns, step, destroy=destroy)
        if groups > 1:
            attributes = {abi.LAYOUT_BATCH_COUNT: c_int32(groups), abi.LAYOUT_BATCH_STRIDE: c_int64(step * columns)}
            for attribute, value in attributes.items():
                self.call("cublasLtMatrixLayoutSetAttribute", made, attribute, byref(value), ctypes.sizeof(value))
        return made

    def workspace_preference(self) -> c_void_p:
        """A cublasLtMatmulPreference_t that allows the whole workspace."""
        made = self._create("cublasLtMatmulPreferenceCreate", destroy="cublasLtMatmulPreferenceDestroy")
        size = c_uint64(self.workspace_bytes)
        self.call(
            "cublasLtMatmulPreferenceSetAttribute",
            made,
            abi.PREFERENCE_MAX_WORKSPACE_BYTES,
            byref(size),
            ctypes.sizeof(size),
        )
        return made


@dataclass(frozen=True)
class Pointers:
    """Device addresses of a product's operands and result, and of the fp32 scales of fp8 operands (0: none).

    `owners` are the arrays at these addresses (and the workspace): whoever holds a call holds them.
    """

    a: int
    b: int
    d: int
    a_scale: int = 0
    b_scale: int = 0
    owners: tuple[Any, ...] = ()


class MatmulPlan:
    """One product, for which the library proposes algorithms."""

    def __init__(
        self,
        lt: Lt,
        kind: Kind,
        m: int,
        n: int,
        k: int,
        pointers: Pointers,
        b_transposed: bool,
        groups: int = 1,
        b_leading: int | None = None,
    ) -> None:
        """`b_leading`: elements from one stored row of B to the next, where there is a gap."""
        self._lt, self._kind, self._pointers = lt, kind, pointers
        self._description = lt.description(kind, pointers, b_transposed)
        self._first = lt.layout(kind.operand, *((k, n) if b_transposed else (n, k)), groups, b_leading)
        self._second = lt.layout(kind.operand, k, m, groups)
        self._result = lt.layout(kind.result, n, m, groups)

    def heuristics(self, limit: int) -> list[Heuristic]:
        """Up to `limit` algorithms, the library's favourite first. Raises LtError, also where it has none at all."""
        lt, found, count = self._lt, (Heuristic * limit)(), c_int()
        matrices = (self._first, self._second, self._result, self._result)
        preference = lt.workspace_preference()
        function = "cublasLtMatmulAlgoGetHeuristic"
        lt.call(function, lt.handle, self._description, *matrices, preference, limit, found, byref(count))
        return [entry for entry in found[: count.value] if entry.state == 0]

    def config(self, heuristic: Heuristic) -> dict[str, int]:
        """What is known of an algorithm: identity, tile, split of K, stages, cluster; what is refused is absent."""
        known = {"workspace_bytes": int(heuristic.workspace_bytes)}
        for name, (attribute, kind) in abi.ALGORITHM_ATTRIBUTES.items():
            value, written = kind(), c_size_t()
            arguments = (byref(heuristic.algorithm), attribute, byref(value), ctypes.sizeof(value), byref(written))
            try:
                self._lt.call("cublasLtMatmulAlgoConfigGetAttribute", *arguments)
            except LtError:
                continue
            known[name] = int(value.value)
        return known

    def call(self, heuristic: Heuristic) -> Callable[[], None]:
        """The product by that algorithm, enqueued at each call; LtError if the library refuses."""
        lt, pointers = self._lt, self._pointers
        one, zero = abi.SCALARS[self._kind.scale]
        arguments = (
            *(lt.handle, self._description, byref(one)),
            *(c_void_p(pointers.b), self._first, c_void_p(pointers.a), self._second),
            *(byref(zero), c_void_p(pointers.d), self._result, c_void_p(pointers.d), self._result),
            *(byref(heuristic.algorithm), c_void_p(lt.workspace), lt.workspace_bytes, c_void_p(lt.stream)),
        )

        def enqueue(plan: MatmulPlan = self) -> None:
            plan._lt.call("cublasLtMatmul", *arguments)

        return enqueue

"""Numbers, structures and signatures of cuBLASLt's C interface, as far as they are used here.

Source: NVIDIA, headers cublasLt.h and library_types.h, the same in CUDA 12 and 13.
"""

import ctypes
from ctypes import POINTER, c_float, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from typing import Any

# cudaDataType_t
R_32F, R_64F, R_16F, R_8I, R_32I, R_16BF, R_8F_E4M3 = 0, 1, 2, 3, 10, 14, 28
# cublasComputeType_t
COMPUTE_16F, COMPUTE_32F, COMPUTE_64F, COMPUTE_32I, COMPUTE_32F_FAST_TF32 = 64, 68, 70, 72, 77
# cublasOperation_t
OP_N, OP_T = 0, 1
# cublasLtMatmulDescAttributes_t
DESC_TRANSA, DESC_TRANSB, DESC_A_SCALE_POINTER, DESC_B_SCALE_POINTER, DESC_FAST_ACCUM = 3, 4, 17, 18, 25
# cublasLtMatrixLayoutAttribute_t
LAYOUT_BATCH_COUNT, LAYOUT_BATCH_STRIDE = 5, 6
# cublasLtMatmulPreferenceAttributes_t
PREFERENCE_MAX_WORKSPACE_BYTES = 1
# cublasLtMatmulAlgoConfigAttributes_t, with the attribute's C type
ALGORITHM_ATTRIBUTES: dict[str, tuple[int, type[c_uint16] | type[c_uint32]]] = {
    "id": (0, c_uint32),
    "tile": (1, c_uint32),
    "split_k": (2, c_uint32),
    "stages": (6, c_uint32),
    "inner_shape": (7, c_uint16),
    "cluster_shape": (8, c_uint16),
}
NOT_SUPPORTED = 15
STATUS = {
    1: "NOT_INITIALIZED",
    3: "ALLOC_FAILED",
    7: "INVALID_VALUE",
    8: "ARCH_MISMATCH",
    11: "MAPPING_ERROR",
    13: "EXECUTION_FAILED",
    14: "INTERNAL_ERROR",
    15: "NOT_SUPPORTED",
    16: "LICENSE_ERROR",
}


class Algorithm(ctypes.Structure):
    """cublasLtMatmulAlgo_t: opaque."""

    _fields_ = [("data", c_uint64 * 8)]


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [
        ("algorithm", Algorithm),
        ("workspace_bytes", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    ]


@dataclass(frozen=True)
class Kind:
    """Element types and arithmetic of a product; `fast` is fp8's fast accumulation, None for other types."""

    operand: int
    result: int
    compute: int
    scale: int
    fast: bool | None = None


KINDS = {
    "fp32": Kind(R_32F, R_32F, COMPUTE_32F, R_32F),
    "tf32": Kind(R_32F, R_32F, COMPUTE_32F_FAST_TF32, R_32F),
    "fp16": Kind(R_16F, R_16F, COMPUTE_32F, R_32F),
    "fp16_acc16": Kind(R_16F, R_16F, COMPUTE_16F, R_16F),
    "bf16": Kind(R_16BF, R_16BF, COMPUTE_32F, R_32F),
    "fp8_e4m3": Kind(R_8F_E4M3, R_16BF, COMPUTE_32F, R_32F, fast=True),
    "fp8_e4m3_full": Kind(R_8F_E4M3, R_16BF, COMPUTE_32F, R_32F, fast=False),
    "int8": Kind(R_8I, R_32I, COMPUTE_32I, R_32I),
    "fp64": Kind(R_64F, R_64F, COMPUTE_64F, R_64F),
}

# 1 and 0 in each scale type
SCALARS: dict[int, tuple[Any, Any]] = {
    R_32F: (c_float(1), c_float(0)),
    R_64F: (ctypes.c_double(1), ctypes.c_double(0)),
    R_32I: (c_int32(1), c_int32(0)),
    R_16F: (c_uint16(0x3C00), c_uint16(0)),
}

SIGNATURES: dict[str, list[Any]] = {
    "cublasLtCreate": [POINTER(c_void_p)],
    "cublasLtDestroy": [c_void_p],
    "cublasLtMatmulDescCreate": [POINTER(c_void_p), c_int, c_int],
    "cublasLtMatmulDescDestroy": [c_void_p],
    "cublasLtMatmulDescSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatrixLayoutCreate": [POINTER(c_void_p), c_int, c_uint64, c_uint64, c_int64],
    "cublasLtMatrixLayoutDestroy": [c_void_p],
    "cublasLtMatrixLayoutSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulPreferenceCreate": [POINTER(c_void_p)],
    "cublasLtMatmulPreferenceDestroy": [c_void_p],
    "cublasLtMatmulPreferenceSetAttribute": [c_void_p, c_int, c_void_p, c_size_t],
    "cublasLtMatmulAlgoGetHeuristic": [*[c_void_p] * 7, c_int, POINTER(Heuristic), POINTER(c_int)],
    "cublasLtMatmulAlgoConfigGetAttribute": [c_void_p, c_int, c_void_p, c_size_t, POINTER(c_size_t)],
    "cublasLtMatmul": [*[c_void_p] * 14, c_size_t, c_void_p],
}

"""The fused element-wise kernels of a decode step on a device: residual sum with norm, activation, softmax of scores.

Everything in memory is in one dtype. In a step these operands were just written, so they are warm in L2 where they fit.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda.arrays import FORMATS, decode, normal, poison, to_host
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.reference.attention import relative_error
from rooflab.reference.step import EPSILON, activation, layernorm, rmsnorm

VECTOR_ELEMENTS = {"fp32": 4, "fp16": 8, "bf16": 8}
ROW_THREADS = (128, 256, 512)  # a block per row
FLAT_THREADS = (128, 256)  # a thread per vector
SOFTMAX_THREADS = 512
# rounding of the sum and of the result
TOLERANCE = {"fp32": 1e-5, "fp16": 1e-3, "bf16": 8e-3}
NORMS = ("rmsnorm", "layernorm")


class ElementwiseCase:
    """One kernel over (rows, width) in fp32, fp16 or bf16."""

    def __init__(self, device: CudaDevice, kernel: str, rows: int, width: int, dtype: str) -> None:
        """Raises ValueError for a dtype that the kernels do not have, or a width that is not whole 16-byte vectors."""
        if dtype not in VECTOR_ELEMENTS or width % VECTOR_ELEMENTS[dtype]:
            raise ValueError(
                f"{kernel} of width {width} in {dtype}: expected fp32, fp16 or bf16, in whole 16-byte vectors"
            )
        self.device, self.kernel, self.rows, self.width, self.dtype = device, kernel, rows, width, dtype
        inputs, outputs = {"norm": (2, 2), "gated": (2, 1)}.get(self._family, (1, 1))
        self.inputs = normal(device, (inputs, rows * width), dtype, (1, 1))
        self.outputs = device.xp.empty((outputs, rows * width), self.inputs.dtype)
        self.vectors = normal(device, (2, width), dtype, (1, 2))

    @property
    def threads(self) -> tuple[int, ...]:
        """Block sizes worth trying."""
        return ROW_THREADS if self._family == "norm" else FLAT_THREADS

    def poison(self) -> None:
        """Fills the results with NaN."""
        poison(self.device, self.outputs)

    def relative_error(self) -> float:
        """Of what the results hold, against float64 on the same stored operands."""
        return relative_error(decode(to_host(self.outputs), self.dtype), self._reference)

    @property
    def tolerance(self) -> float:
        """The largest relative error that rounding explains."""
        return TOLERANCE[self.dtype]

    @property
    def _family(self) -> str:
        return "norm" if self.kernel in NORMS else "gated" if self.kernel.endswith("_gated") else "plain"

    @cached_property
    def _reference(self) -> NDArray[np.float64]:
        """What the outputs should hold, (outputs, rows * width)."""
        inputs = decode(to_host(self.inputs), self.dtype)
        if self._family != "norm":
            # a gated row holds both halves, so the operands are one array of rows twice as wide
            return activation(np, self.kernel, inputs.reshape(self.rows, -1)).reshape(1, -1)
        summed = decode(to_host(self.outputs[0]), self.dtype).reshape(self.rows, self.width)
        gain, bias = decode(to_host(self.vectors), self.dtype)
        normed = rmsnorm(np, summed, gain) if self.kernel == "rmsnorm" else layernorm(np, summed, gain, bias)
        return np.stack([inputs.sum(axis=0), normed.reshape(-1)])

    def call(self, threads: int) -> Call:
        """The kernel in blocks of `threads`. CuPy raises where it does not compile."""
        defines = kernel_defines(self.kernel, self.dtype, self.width, threads)
        inputs, outputs, (gain, bias) = self.inputs, self.outputs, self.vectors
        if self._family == "norm":
            kernel = self.device.kernel("norms", "add_norm", **defines)
            arguments = (*inputs, gain, bias, *outputs, np.float32(EPSILON))
            grid = (self.rows,)
        else:
            kernel = self.device.kernel("norms", "activate", **defines)
            arguments = (inputs, outputs, np.int64(self.rows))
            vectors = self.rows * self.width // VECTOR_ELEMENTS[self.dtype]
            grid = (-(-vectors // threads),)
        return lambda: kernel(grid, (threads,), arguments)


def softmax(device: CudaDevice, scores: Any, out: Any, dtype: str, scale: float) -> Call:
    """out (..., S) in `dtype` = softmax of scale * scores (..., S) in fp32, over the last axis."""
    length = scores.shape[-1]
    width = VECTOR_ELEMENTS[dtype]  # this kernel takes its length when launched
    kernel = device.kernel("norms", "softmax_rows", **kernel_defines("silu", dtype, width, SOFTMAX_THREADS))
    grid, arguments = (scores.size // length,), (scores, out, np.int32(length), np.float32(scale))
    return lambda: kernel(grid, (SOFTMAX_THREADS,), arguments)


def kernel_defines(kernel: str, dtype: str, width: int, threads: int) -> dict[str, int]:
    """The numbers that kernels/norms.cu wants."""
    return {
        "FORMAT": FORMATS[dtype],
        "WIDTH": width,
        "THREADS": threads,
        "LAYER_NORM": int(kernel == "layernorm"),
        "GELU": int(kernel.startswith("gelu")),
        "GATED": int(kernel.endswith("_gated")),
    }

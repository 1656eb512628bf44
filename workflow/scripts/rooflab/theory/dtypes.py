"""The number formats of the project: their size, accumulator and the unit of the GPU that multiplies them."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dtype:
    """One number format.

    `bytes` is the size of an element in memory, `label` the name on a plot, `accumulator` the format a GEMM sums in,
    `unit` the part of the GPU that runs the GEMM. TF32 is a way of multiplying fp32 data, so it occupies 4 bytes.
    fp64 runs on Tensor Cores only where the part has them for it (A100, H100, H200, B200); elsewhere on CUDA cores.
    """

    name: str
    bytes: int
    label: str
    accumulator: str
    unit: str


DTYPES: dict[str, Dtype] = {
    entry.name: entry
    for entry in (
        Dtype("fp32", 4, "fp32", "fp32", "CUDA core"),
        Dtype("tf32", 4, "TF32", "fp32", "Tensor Core"),
        Dtype("fp16", 2, "fp16", "fp32", "Tensor Core"),
        Dtype("bf16", 2, "bf16", "fp32", "Tensor Core"),
        Dtype("fp8_e4m3", 1, "fp8 e4m3", "fp32", "Tensor Core"),
        Dtype("int8", 1, "int8", "int32", "Tensor Core"),
        Dtype("fp64", 8, "fp64", "fp64", "Tensor Core"),
    )
}


def dtype(name: str) -> Dtype:
    """The format called `name`. Raises ValueError for any other name."""
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: expected one of {', '.join(DTYPES)}")
    return DTYPES[name]


# Products of a format that are computed in another way, each a ceiling of its own; named as in the configuration.
VARIANTS: dict[str, Dtype] = {
    "fp8_e4m3_full": replace(DTYPES["fp8_e4m3"], label="fp8 e4m3, full accumulation"),
    "fp16_acc16": replace(DTYPES["fp16"], label="fp16, fp16 accumulation", accumulator="fp16"),
}


def variant(name: str) -> Dtype:
    """The format and way of summing called `name`: a dtype, or one of VARIANTS. Raises ValueError for any other name."""
    return VARIANTS[name] if name in VARIANTS else dtype(name)

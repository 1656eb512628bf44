"""The number formats of the project, one row each: all that another room must know to store, multiply and judge one."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Dtype:
    """One number format.

    `bits` is the size of an element in memory, `label` the name on a plot, `accumulator` the format a GEMM sums in, `unit`
    the part of the GPU that runs the GEMM. TF32 is a way of multiplying fp32 data, so it occupies 32 bits. fp64 runs on
    Tensor Cores only where the part has them for it (A100, H100, H200, B200); elsewhere on CUDA cores.

    `product_error` is the window of the relative error (Frobenius norm, normal operands, against float64) that a product
    has: TF32 rounds its operands to 11 bits, fp16 results are rounded to 11 bits, bf16 results to 8, so that one
    arithmetic in another's place is seen. fp8 products summed in full are off by the rounding of their bf16 result alone
    (0.00166 at any size), those summed the faster way by 0.0021 and more (both measured on an H200). `attention_error` is
    the most that decode attention may be off with a cache of this format, None where no cache is kept in it.

    `first_capability` is the first compute capability whose chips multiply it (CUDA C++ Programming Guide, arithmetic
    instructions). `multiple` is what matrix sizes must be a multiple of (cuBLASLt's documentation of fp8 and int8).
    `result` is the format of a product, `arithmetic` the one that a cache of this format is computed in, `between` the one
    that results have between two products; each the format itself where nothing else is said.
    """

    name: str
    bits: int
    label: str
    accumulator: str
    unit: str
    product_error: tuple[float, float]
    attention_error: float | None = None
    first_capability: tuple[int, int] = (0, 0)
    multiple: int = 1
    result: str = ""
    arithmetic: str = ""
    between: str = ""

    def __post_init__(self) -> None:
        for each in ("result", "arithmetic", "between"):
            object.__setattr__(self, each, getattr(self, each) or self.name)

    @property
    def bytes(self) -> int:
        """Bytes of an element. Raises ValueError for one that is no whole number of them."""
        if self.bits % 8:
            raise ValueError(f"an element of {self.name} has {self.bits} bits: expected whole bytes")
        return self.bits // 8


DTYPES: dict[str, Dtype] = {
    entry.name: entry
    for entry in (
        Dtype("fp32", 32, "fp32", "fp32", "CUDA core", (0.0, 5e-6), 1e-5),
        Dtype("tf32", 32, "TF32", "fp32", "Tensor Core", (1e-4, 6e-4), first_capability=(8, 0)),
        Dtype("fp16", 16, "fp16", "fp32", "Tensor Core", (0.0, 5e-4), 3e-3, first_capability=(7, 0)),
        Dtype("bf16", 16, "bf16", "fp32", "Tensor Core", (0.0, 3e-3), 1.5e-2, first_capability=(8, 0)),
        Dtype("fp8_e4m3", 8, "fp8 e4m3", "fp32", "Tensor Core", (0.0, 5e-3), 3e-3, first_capability=(8, 9),
              multiple=16, result="bf16", arithmetic="fp16", between="bf16"),
        Dtype("int8", 8, "int8", "int32", "Tensor Core", (0.0, 0.0), first_capability=(7, 5), multiple=16, result="int32"),
        Dtype("fp64", 64, "fp64", "fp64", "Tensor Core", (0.0, 1e-13)),
    )
}  # fmt: skip

RESULT_ONLY_BITS = {"int32": 32}  # formats of results that are no operands


def dtype(name: str) -> Dtype:
    """The format called `name`. Raises ValueError for any other name."""
    if name not in DTYPES:
        raise ValueError(f"unknown dtype {name!r}: expected one of {', '.join(DTYPES)}")
    return DTYPES[name]


# Products of a format that are computed in another way, each a ceiling of its own; named as in the configuration.
VARIANTS: dict[str, Dtype] = {
    "fp8_e4m3_full": replace(
        DTYPES["fp8_e4m3"], label="fp8 e4m3, full accumulation", product_error=(0.0, 1.9e-3), attention_error=None
    ),
    "fp16_acc16": replace(
        DTYPES["fp16"],
        label="fp16, fp16 accumulation",
        accumulator="fp16",
        product_error=(5e-4, 2e-2),
        attention_error=None,
    ),
}


def variant(name: str) -> Dtype:
    """The format and way of summing called `name`: a dtype, or one of VARIANTS. Raises ValueError for any other name."""
    return VARIANTS[name] if name in VARIANTS else dtype(name)


def attention_error(name: str) -> float:
    """The most that decode attention over a cache of this format may be off. Raises ValueError where none is kept in it."""
    allowed = dtype(name).attention_error
    if allowed is None:
        kept = ", ".join(each.name for each in DTYPES.values() if each.attention_error is not None)
        raise ValueError(f"no cache is kept in {name}: expected one of {kept}")
    return allowed


def result_bytes(name: str) -> int:
    """Bytes of an element of a product of this format. Raises ValueError for an unknown one."""
    result = variant(name).result
    return RESULT_ONLY_BITS[result] // 8 if result in RESULT_ONLY_BITS else dtype(result).bytes


def refusal(name: str, compute_capability: int) -> str | None:
    """Why a chip (9.0 is 90) cannot multiply this format, None where it can. Raises ValueError for an unknown one."""
    major, minor = variant(name).first_capability
    if compute_capability >= 10 * major + minor:
        return None
    return f"{variant(name).name} needs compute capability {major}.{minor}, this GPU has {compute_capability / 10}"

"""The table of number formats."""

import pytest
from rooflab.theory.dtypes import DTYPES, dtype


def test_the_seven_formats_and_their_sizes() -> None:
    sizes = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "int8": 1, "fp64": 8}
    assert {name: entry.bytes for name, entry in DTYPES.items()} == sizes


def test_only_fp32_runs_on_cuda_cores() -> None:
    assert [name for name, entry in DTYPES.items() if entry.unit == "CUDA core"] == ["fp32"]
    assert {entry.unit for entry in DTYPES.values()} == {"CUDA core", "Tensor Core"}


@pytest.mark.parametrize(
    ("name", "accumulator"),
    [("fp16", "fp32"), ("tf32", "fp32"), ("fp8_e4m3", "fp32"), ("int8", "int32"), ("fp64", "fp64")],
)
def test_accumulator(name: str, accumulator: str) -> None:
    assert dtype(name).accumulator == accumulator


def test_labels_are_distinct() -> None:
    assert len({entry.label for entry in DTYPES.values()}) == len(DTYPES)


@pytest.mark.parametrize("name", ["float16", "FP16", "fp8", ""])
def test_an_unknown_name_is_answered_with_the_allowed_ones(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown dtype .*fp32, tf32, fp16, bf16, fp8_e4m3, int8, fp64"):
        dtype(name)

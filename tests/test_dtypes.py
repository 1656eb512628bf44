"""The table of number formats."""

from dataclasses import replace

import pytest
from free import model_table
from rooflab.cost import rates
from rooflab.look import style
from rooflab.plan import operators
from rooflab.theory.dtypes import DTYPES, VARIANTS, Dtype, attention_error, dtype, refusal, result_bytes
from test_model_table import config, files, made_of, model_records


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


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Dtype:
    """One row more, and nothing else: no other room keeps a list of formats that would have to know it."""
    row = replace(DTYPES["bf16"], name="bf12", label="bf12", first_capability=(11, 0), result="fp16")
    monkeypatch.setitem(DTYPES, row.name, row)
    return row


def test_a_made_up_format_is_refused_sized_and_priced_by_its_row(made_up: Dtype) -> None:
    assert (result_bytes("bf12"), attention_error("bf12")) == (2, made_up.attention_error)
    assert refusal("bf12", 90) == "bf12 needs compute capability 11.0, this GPU has 9.0"
    assert refusal("bf12", 110) is None
    assert rates.machine("nvidia-h200").gpu.lacks("bf12") is True
    assert style.style_of({"dtype": "bf12"}) == style.UNKNOWN


@pytest.mark.usefixtures("made_up")
def test_a_made_up_format_goes_through_plan_theory_and_model_pages() -> None:
    serving = config()["serving"] | {
        "dtypes": ["bf12"],
        "kv_dtypes": ["bf12"],
        "sequence_lengths": [1024],
        "batches": [1],
    }
    records = model_records("gpt2", config(serving=serving))
    names = list(files(records))
    assert [name for name in names if "bf12" in name] and operators.names(names) == ["gpt2"]
    made = made_of(records)
    (model,) = made["models"]
    assert model["dtype"] == "bf12"
    assert all(step["measured_s"] for step in model["steps"])
    assert "bf12" in model_table.page(made, "gpt2")


def test_the_results_of_products() -> None:
    assert {name: result_bytes(name) for name in (*DTYPES, *VARIANTS)} == {
        "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 2, "int8": 4, "fp64": 8, "fp8_e4m3_full": 2, "fp16_acc16": 2,
    }  # fmt: skip


def test_half_a_byte_is_no_size_of_an_element() -> None:
    assert replace(DTYPES["int8"], name="int4", bits=4).bits == 4
    with pytest.raises(ValueError, match="an element of int4 has 4 bits: expected whole bytes"):
        _ = replace(DTYPES["int8"], name="int4", bits=4).bytes


@pytest.mark.parametrize("name", ["tf32", "int8", "fp64"])
def test_no_cache_is_kept_in(name: str) -> None:
    with pytest.raises(ValueError, match=f"no cache is kept in {name}: expected one of fp32, fp16, bf16, fp8_e4m3"):
        attention_error(name)

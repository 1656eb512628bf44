"""Checkpoints on disk: both formats, the names they may use, and every way they can be wrong."""

import hashlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from numpy.typing import NDArray
from rooflab.reference import checkpoint
from rooflab.reference.minigpt import geometry_of, seeded_weights
from rooflab.reference.weights import load_weights, save_weights, sha256_of
from rooflab.theory.geometry import Sizes

GEOMETRY = geometry_of(layers=2, heads=2, kv_heads=2, head_dim=4, vocabulary=11, context=6)
SUFFIXES = [".safetensors", ".npz"]

Weights = dict[str, NDArray[Any]]


@pytest.fixture
def weights() -> Weights:
    return seeded_weights(GEOMETRY, 0)


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"model{request.param}"


def assert_same(got: Weights, want: Weights) -> None:
    assert list(got) == list(want)
    for name, tensor in want.items():
        assert got[name].dtype == np.float32
        np.testing.assert_array_equal(got[name], tensor, err_msg=name)


def test_what_is_saved_is_loaded(path: Path, weights: Weights) -> None:
    save_weights(path, weights)
    assert_same(load_weights(path, GEOMETRY), weights)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_transposed_view_is_saved_as_it_reads(path: Path, weights: Weights) -> None:
    stored_transposed = np.ascontiguousarray(weights["wte.weight"].T)
    save_weights(path, weights | {"wte.weight": stored_transposed.T})
    assert_same(load_weights(path, GEOMETRY), weights)


def test_saving_replaces_the_file_there(path: Path, weights: Weights) -> None:
    path.write_bytes(b"old")
    save_weights(path, weights)
    assert_same(load_weights(path, GEOMETRY), weights)


def test_gpt2_names_with_prefix_masks_and_head(path: Path, weights: Weights) -> None:
    head = weights["wte.weight"] + 1
    foreign: Weights = {f"transformer.{name}": tensor for name, tensor in weights.items()}
    foreign["lm_head.weight"] = head
    for layer in range(GEOMETRY.layers):
        foreign[f"transformer.h.{layer}.attn.bias"] = np.ones((1, 1, 6, 6), np.uint8)
        foreign[f"transformer.h.{layer}.attn.masked_bias"] = np.array([-1e4], np.float32)
    save_weights(path, foreign)
    assert_same(load_weights(path, GEOMETRY), weights | {"lm_head.weight": head})


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_floats_become_fp32(path: Path, weights: Weights, dtype: Any) -> None:
    converted = {name: tensor.astype(dtype) for name, tensor in weights.items()}
    save_weights(path, converted)
    assert_same(load_weights(path, GEOMETRY), {name: tensor.astype(np.float32) for name, tensor in converted.items()})


def test_bf16_safetensors_become_fp32(tmp_path: Path, weights: Weights) -> None:
    path = tmp_path / "model.safetensors"
    converted = {name: tensor.astype(ml_dtypes.bfloat16) for name, tensor in weights.items()}
    safetensors.numpy.save_file(converted, path)
    assert b'"BF16"' in path.read_bytes()
    assert_same(load_weights(path, GEOMETRY), {name: tensor.astype(np.float32) for name, tensor in converted.items()})


def refusal(path: Path, geometry: Sizes = GEOMETRY) -> str:
    """The one line with which loading `path` is refused, which names the file."""
    with pytest.raises(ValueError, match="expect|set its layers|keep one") as caught:
        load_weights(path, geometry)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def test_missing_tensors_are_named(path: Path, weights: Weights) -> None:
    del weights["h.1.ln_2.bias"]
    save_weights(path, weights)
    assert "h.1.ln_2.bias is missing" in refusal(path)
    save_weights(path, {"wte.weight": weights["wte.weight"]})
    assert "wpe.weight, h.0.ln_1.weight, h.0.ln_1.bias and 24 more are missing" in refusal(path)


def test_a_wrong_shape_names_the_tensor_seen_and_expected(path: Path, weights: Weights) -> None:
    weights["h.0.mlp.c_fc.weight"] = weights["h.0.mlp.c_fc.weight"].T
    save_weights(path, weights)
    message = refusal(path)
    assert "h.0.mlp.c_fc.weight has shape (32, 8), the geometry expects (8, 32)" in message


def test_an_orientation_of_another_library_is_named(path: Path, weights: Weights) -> None:
    turned = {name: each.T if each.ndim == 2 and name.startswith("h.") else each for name, each in weights.items()}
    save_weights(path, turned)
    assert "torch.nn.Linear" in refusal(path) and "transpose" in refusal(path)
    checkpoint_refusal = str(pytest.raises(ValueError, checkpoint.check, path, GEOMETRY).value)
    assert checkpoint_refusal == refusal(path)


def test_an_fp8_tensor_is_one_line(tmp_path: Path, weights: Weights) -> None:
    path = tmp_path / "model.safetensors"
    tensors: dict[str, Any] = weights | {"ln_f.bias": np.zeros(8, ml_dtypes.float8_e4m3fn)}
    safetensors.numpy.save_file(tensors, path)
    assert "ln_f.bias is F8_E4M3: expected fp16, bf16, fp32 or fp64" in refusal(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_are_named_by_their_tensor(path: Path, weights: Weights, bad: float) -> None:
    weights["h.0.ln_1.bias"][3] = bad
    save_weights(path, weights)
    assert "h.0.ln_1.bias holds 1 numbers that are NaN or infinite" in refusal(path)
    assert checkpoint.check(path, GEOMETRY) == list(weights)


def test_tensors_of_another_kind_of_model_are_named(path: Path, weights: Weights) -> None:
    save_weights(path, weights | {"score.weight": np.zeros((2, 8), np.float32)})
    assert "score.weight is no part of a GPT-2 model" in refusal(path)


def test_only_the_header_is_read(tmp_path: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    save_weights(path, weights)
    monkeypatch.setattr(safetensors.numpy, "load_file", lambda path: pytest.fail("the data were read"))
    assert checkpoint.check(path, GEOMETRY) == list(weights)


def test_a_head_of_the_wrong_shape_is_refused(path: Path, weights: Weights) -> None:
    save_weights(path, weights | {"lm_head.weight": weights["wte.weight"][:-1]})
    assert "lm_head.weight has shape (10, 8), the geometry expects (11, 8)" in refusal(path)


def test_tensors_beyond_the_geometry_are_named(path: Path, weights: Weights) -> None:
    save_weights(path, weights)
    smaller = geometry_of(layers=1, heads=2, kv_heads=2, head_dim=4, vocabulary=11, context=6)
    assert "h.1.attn.c_attn.bias, h.1.attn.c_attn.weight" in refusal(path, smaller)
    assert "set its layers to 2" in refusal(path, smaller)


def test_a_tensor_stored_twice_is_refused(path: Path, weights: Weights) -> None:
    save_weights(path, weights | {"transformer.ln_f.bias": weights["ln_f.bias"]})
    assert "ln_f.bias is stored twice" in refusal(path)


def test_integers_are_refused(path: Path, weights: Weights) -> None:
    save_weights(path, weights | {"ln_f.bias": np.zeros(8, np.int64)})
    kind = "int64" if path.suffix == ".npz" else "I64"
    assert f"ln_f.bias is {kind}: expected fp16, bf16, fp32 or fp64" in refusal(path)


def test_pickled_objects_are_refused(tmp_path: Path, weights: Weights) -> None:
    path = tmp_path / "model.npz"
    tensors: dict[str, Any] = weights | {"ln_f.bias": np.array([{"an": "object"}] * 8, dtype=object)}
    np.savez(path, **tensors)
    message = refusal(path)
    assert "cannot be read as .npz" in message
    assert "allow_pickle=False" in message


@pytest.mark.parametrize(
    "content", [b"", b"not a checkpoint", b"PK\x03\x04" + b"\0" * 40, b"\x80\x04K\x01.", b"\xff" * 99]
)
def test_files_of_another_kind_are_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert f"cannot be read as {path.suffix}" in refusal(path)


def test_a_bare_npy_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with path.open("wb") as file:
        np.save(file, np.ones(3))
    assert "not a zip archive" in refusal(path)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused(path: Path, weights: Weights, kept: float) -> None:
    save_weights(path, weights)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    assert "cannot be read" in refusal(path)


def test_a_damaged_npz_is_refused_or_loads_unchanged(tmp_path: Path, weights: Weights) -> None:
    path = tmp_path / "model.npz"
    save_weights(path, weights)
    content = path.read_bytes()
    refusals = []
    for position in range(0, len(content), len(content) // 200):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x2D]) + content[position + 1 :])
        try:
            assert_same(load_weights(path, GEOMETRY), weights)  # a byte that carries nothing
        except ValueError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(message.startswith(str(path)) for message in refusals)


def test_a_missing_file_is_named(path: Path) -> None:
    assert "no such file" in refusal(path)


@pytest.mark.parametrize("name", ["model.bin", "model.pt", "model"])
def test_other_formats_are_refused_both_ways(tmp_path: Path, weights: Weights, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(ValueError, match=r"unknown checkpoint format .*expected \.safetensors or \.npz"):
        save_weights(path, weights)
    assert not path.exists()
    path.write_bytes(b"x")
    assert "unknown checkpoint format" in refusal(path)


def test_sha256_is_that_of_the_bytes_and_repeats(path: Path, weights: Weights) -> None:
    save_weights(path, weights)
    first = sha256_of(path)
    assert first == hashlib.sha256(path.read_bytes()).hexdigest()
    save_weights(path, weights)
    assert sha256_of(path) == first
    save_weights(path, seeded_weights(GEOMETRY, 1))
    assert sha256_of(path) != first

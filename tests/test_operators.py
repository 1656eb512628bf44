"""Decode attention against its float64 truth, on ordinary and adversarial inputs, and the narrow number formats."""

import math
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from rooflab.reference.attention import (
    decode_attention,
    decode_attention_into,
    e4m3_decode_table,
    encode_e4m3,
    random_kv,
    random_normal,
    reference_attention,
    relative_error,
    to_bf16_bits,
)

FP32_TOLERANCE = 2e-6
# (batch, query heads, KV heads, S, D): one head, many, grouped, multi-query, S = 1, odd S, odd D
SHAPES = [
    (1, 1, 1, 128, 64),
    (2, 8, 8, 257, 64),
    (2, 8, 2, 100, 32),
    (3, 6, 1, 33, 16),
    (1, 4, 4, 1, 64),
    (1, 2, 1, 7, 5),
]

Operands = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]


def from_bf16_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The fp32 values of bf16 bit patterns: exact, bf16 being the upper half of fp32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def operands(batch: int, query_heads: int, kv_heads: int, sequence: int, head_dim: int) -> Operands:
    return random_normal((batch, query_heads, head_dim), 7), *random_kv(batch, kv_heads, sequence, head_dim, 7)


def buffers(q: NDArray[np.float32], k: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """A work buffer and a result full of NaN, so that an element not written shows."""
    return np.full((*q.shape[:2], k.shape[2]), np.nan, np.float32), np.full(q.shape, np.nan, np.float32)


def into(q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32]) -> NDArray[np.float32]:
    scores, out = buffers(q, k)
    decode_attention_into(q, k, v, scores, out)
    return out


def by_definition(q: NDArray[Any], k: NDArray[Any], v: NDArray[Any]) -> NDArray[np.float64]:
    """Attention written out number by number with Python floats."""
    batch, query_heads, head_dim = q.shape
    out = np.zeros(q.shape)
    for b in range(batch):
        for h in range(query_heads):
            g = h * k.shape[1] // query_heads
            logits = [sum(float(x) * float(y) for x, y in zip(q[b, h], key, strict=True)) for key in k[b, g]]
            weights = [math.exp((logit - max(logits)) / math.sqrt(head_dim)) for logit in logits]
            for s, weight in enumerate(weights):
                out[b, h] += weight / sum(weights) * v[b, g, s].astype(np.float64)
    return out


@pytest.mark.parametrize("shape", [(2, 4, 4, 9, 8), (2, 4, 2, 9, 8), (1, 6, 1, 5, 3), (2, 3, 3, 1, 4)])
def test_the_reference_is_the_definition(shape: tuple[int, int, int, int, int]) -> None:
    q, k, v = operands(*shape)
    assert relative_error(reference_attention(q, k, v), by_definition(q, k, v)) < 1e-14


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    # half formats: computed in fp32, so the rounding of the result (half an ulp: 2^-11, 2^-8) is all there is
    [(np.float32, FP32_TOLERANCE), (np.float64, 1e-14), (np.float16, 2**-11), (ml_dtypes.bfloat16, 2**-8)],
)
def test_decode_attention_against_float64(shape: tuple[int, int, int, int, int], dtype: Any, tolerance: float) -> None:
    q, k, v = (x.astype(dtype) for x in operands(*shape))
    got = decode_attention(np, q, k, v)
    assert got.dtype == dtype
    assert got.shape == q.shape
    assert relative_error(got, reference_attention(q, k, v)) < tolerance


@pytest.mark.parametrize("shape", SHAPES)
def test_the_preallocated_version_agrees_with_both(shape: tuple[int, int, int, int, int]) -> None:
    q, k, v = operands(*shape)
    out = into(q, k, v)
    assert relative_error(out, reference_attention(q, k, v)) < FP32_TOLERANCE
    assert relative_error(out, decode_attention(np, q, k, v)) < FP32_TOLERANCE


def test_the_preallocated_version_allocates_nothing_of_the_size_of_the_cache() -> None:
    q, k, v = operands(1, 8, 4, 512, 64)
    scores, out = buffers(q, k)
    tracemalloc.start()
    decode_attention_into(q, k, v, scores, out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < k.nbytes / 16


def test_heads_that_share_a_kv_head_equal_copies_of_that_head() -> None:
    q, k, v = operands(2, 6, 2, 17, 8)
    copied = decode_attention(np, q, np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1))
    np.testing.assert_allclose(decode_attention(np, q, k, v), copied, rtol=1e-5, atol=1e-6)


def test_a_given_scale_replaces_the_default() -> None:
    q, k, v = operands(1, 2, 2, 9, 16)
    assert np.array_equal(decode_attention(np, q, k, v, scale=0.25), decode_attention(np, q, k, v))
    flat = decode_attention(np, q, k, v, scale=0.0)
    np.testing.assert_allclose(flat, v.mean(axis=2), rtol=1e-5, atol=1e-6)
    assert relative_error(decode_attention(np, q, k, v, 0.5), reference_attention(q, k, v, 0.5)) < FP32_TOLERANCE


def test_the_operands_are_left_alone() -> None:
    q, k, v = operands(1, 4, 2, 9, 8)
    before = [x.copy() for x in (q, k, v)]
    decode_attention(np, q, k, v)
    into(q, k, v)
    reference_attention(q, k, v)
    assert all(np.array_equal(x, y) for x, y in zip((q, k, v), before, strict=True))


def every_implementation(q: NDArray[np.float32], k: NDArray[np.float32], v: NDArray[np.float32]) -> list[NDArray[Any]]:
    return [reference_attention(q, k, v), decode_attention(np, q, k, v), into(q, k, v)]


@pytest.mark.parametrize("logit", [1e4, -1e4, 1e30, -1e30])
def test_equal_logits_of_any_size_give_the_mean(logit: float) -> None:
    q = np.full((1, 1, 4), 1, np.float32)
    k = np.full((1, 1, 6, 4), logit / 2, np.float32)  # 4 products, scale 1/2
    v = random_normal((1, 1, 6, 4), 3)
    for got in every_implementation(q, k, v):
        np.testing.assert_allclose(got[0, 0], v[0, 0].mean(axis=0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("others", [-1e4, -1e30, 9e3])
def test_one_dominant_key_gives_its_value(others: float) -> None:
    q = np.full((1, 1, 4), 1, np.float32)
    k = np.full((1, 1, 6, 4), others / 2, np.float32)
    k[0, 0, 4] = 1e4 / 2
    v = random_normal((1, 1, 6, 4), 3)
    for got in every_implementation(q, k, v):
        assert np.array_equal(got[0, 0], v[0, 0, 4])


def test_a_key_that_scores_minus_infinity_is_ignored() -> None:
    q, k, v = operands(1, 1, 1, 5, 1)
    q[:] = 1
    k[0, 0, 2] = -np.inf
    kept = [0, 1, 3, 4]
    want = reference_attention(q, k[:, :, kept], v[:, :, kept])
    for got in every_implementation(q, k, v):
        assert relative_error(got, want) < FP32_TOLERANCE


@pytest.mark.parametrize("poisoned", ["q", "k", "v"])
def test_nan_reaches_the_result_and_its_error(poisoned: str) -> None:
    q, k, v = operands(1, 4, 2, 9, 8)
    want = reference_attention(q, k, v)
    {"q": q[0, 1], "k": k[0, 0, 3], "v": v[0, 0, 3]}[poisoned][...] = np.nan
    for got in every_implementation(q, k, v):
        assert np.isnan(got[0, 1]).all()
        assert np.isfinite(got[0, 2:]).all()
        assert math.isnan(relative_error(got, want))


@pytest.mark.parametrize(
    ("q_shape", "k_shape", "v_shape"),
    [
        ((1, 4, 8), (1, 4, 9, 8), (1, 4, 9, 7)),
        ((1, 4, 8), (1, 4, 9, 7), (1, 4, 9, 7)),
        ((2, 4, 8), (1, 4, 9, 8), (1, 4, 9, 8)),
        ((1, 4, 8), (1, 3, 9, 8), (1, 3, 9, 8)),
        ((1, 2, 8), (1, 4, 9, 8), (1, 4, 9, 8)),
        ((1, 4, 8), (1, 4, 0, 8), (1, 4, 0, 8)),
        ((4, 8), (4, 9, 8), (4, 9, 8)),
        ((1, 0, 8), (1, 4, 9, 8), (1, 4, 9, 8)),
    ],
)
def test_shapes_that_do_not_fit_are_named(q_shape: Any, k_shape: Any, v_shape: Any) -> None:
    q, k, v = (np.ones(shape, np.float32) for shape in (q_shape, k_shape, v_shape))
    for call in (lambda: decode_attention(np, q, k, v), lambda: reference_attention(q, k, v)):
        with pytest.raises(ValueError, match="attention got q .*k .*v .*expected"):
            call()


@pytest.mark.parametrize("dtypes", [("f4", "f4", "f2"), ("f2", "f4", "f4"), ("i4", "i4", "i4"), ("u1", "u1", "u1")])
def test_mixed_and_integer_dtypes_are_refused(dtypes: tuple[str, str, str]) -> None:
    q, k, v = (x.astype(dtype) for x, dtype in zip(operands(1, 2, 2, 3, 4), dtypes, strict=True))
    with pytest.raises(ValueError, match="expected one dtype for all three"):
        decode_attention(np, q, k, v)


def test_wrong_buffers_are_refused() -> None:
    q, k, v = operands(1, 4, 2, 9, 8)
    scores, out = buffers(q, k)
    with pytest.raises(ValueError, match=r"scores has shape \(1, 4, 8\): expected \(1, 4, 9\)"):
        decode_attention_into(q, k, v, np.ascontiguousarray(scores[:, :, 1:]), out)
    with pytest.raises(ValueError, match=r"out has shape \(1, 2, 8\): expected \(1, 4, 8\)"):
        decode_attention_into(q, k, v, scores, np.ascontiguousarray(out[:, 1:3]))
    with pytest.raises(ValueError, match="out is not contiguous float32"):
        decode_attention_into(q, k, v, scores, np.zeros((1, 4, 16), np.float32)[:, :, ::2])
    with pytest.raises(ValueError, match="scores is C-contiguous float64"):
        decode_attention_into(q, k, v, scores.astype(np.float64), out)


def test_relative_error_by_hand() -> None:
    want = np.array([[3.0, 0.0], [0.0, 4.0]])
    assert relative_error(want, want) == 0
    assert relative_error(want + [[0, 1], [0, 0]], want) == pytest.approx(0.2)
    assert relative_error(np.zeros(3), np.zeros(3)) == 0
    assert relative_error(np.ones(3), np.zeros(3)) == math.inf
    assert math.isnan(relative_error(np.array([np.nan, 0]), np.zeros(2)))
    assert math.isnan(relative_error(np.array([np.nan, 1]), np.ones(2)))
    with pytest.raises(ValueError, match=r"got has shape \(3,\): expected \(2, 2\)"):
        relative_error(np.zeros(3), want)
    assert relative_error(np.full(4, 6e4, np.float16), np.full(4, 6e4 - 1)) == pytest.approx(1 / (6e4 - 1))


def test_random_arrays_are_seeded_and_independent() -> None:
    k, v = random_kv(1, 2, 256, 64, seed=5)
    again = random_kv(1, 2, 256, 64, seed=5)
    other = random_normal(k.shape, 5)
    assert k.dtype == np.float32
    assert np.array_equal(k, again[0])
    assert np.array_equal(v, again[1])
    assert not np.array_equal(k, random_kv(1, 2, 256, 64, seed=6)[0])
    for one, two in ((k, v), (k, other), (v, other)):
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.03  # 5 deviations of 1 / sqrt(32768)
    assert abs(float(k.mean())) < 0.03
    assert abs(float(k.std()) - 1) < 0.03


def interesting_fp32() -> NDArray[np.float32]:
    """A spread of fp32 bit patterns: both signs, subnormals, ties of every narrow format, infinities and NaNs."""
    upper = np.arange(0, 2**16, dtype=np.uint32) << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    return (upper[:, None] | lower).ravel().view(np.float32)


def test_bf16_bits_against_ml_dtypes() -> None:
    values = interesting_fp32()
    with np.errstate(all="ignore"):
        want = values.astype(ml_dtypes.bfloat16)
    got = to_bf16_bits(values)
    nan = np.isnan(values)
    assert np.array_equal(got[~nan], want.view(np.uint16)[~nan])
    assert np.isnan(from_bf16_bits(got)[nan]).all()
    assert np.array_equal(from_bf16_bits(got)[~nan], want.astype(np.float32)[~nan])
    strided = random_normal((4, 6), 1).T[::2]
    assert np.array_equal(to_bf16_bits(strided), strided.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_the_e4m3_table_against_ml_dtypes() -> None:
    table = e4m3_decode_table()
    want = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert table.dtype == np.float32
    np.testing.assert_array_equal(table, want)
    assert np.array_equal(np.signbit(table[:255]), np.arange(255) >= 128)
    assert np.nanmax(table) == 448
    with pytest.raises(ValueError, match="read-only"):
        table[0] = 1


def test_e4m3_encoding_against_ml_dtypes() -> None:
    values = interesting_fp32()
    values = values[np.abs(values) <= 448]
    assert np.array_equal(encode_e4m3(values), values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))


@given(st.floats(-448, 448, width=32))
def test_any_value_goes_to_the_e4m3_code_ml_dtypes_gives(value: float) -> None:
    array = np.array([value], np.float32)
    assert encode_e4m3(array) == array.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def test_e4m3_saturates_and_keeps_nan() -> None:
    values = np.array([449, 464, 500, 1e30, np.inf, -449, -np.inf, np.nan, 0.0, -0.0], np.float32)
    assert encode_e4m3(values).tolist() == [0x7E] * 5 + [0xFE] * 2 + [0x7F, 0x00, 0x80]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_cupy_gives_the_same_result(dtype: Any) -> None:
    cupy = pytest.importorskip("cupy")
    q, k, v = (x.astype(dtype) for x in operands(2, 8, 2, 257, 64))
    got = decode_attention(cupy, *(cupy.asarray(x) for x in (q, k, v)))
    tolerance = {4: FP32_TOLERANCE, 2: 2**-8}[q.dtype.itemsize]
    assert got.dtype == dtype
    assert relative_error(cupy.asnumpy(got), reference_attention(q, k, v)) < tolerance

"""FLOP, bytes and the roofline, against arithmetic done by hand in the comments."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflab.theory import work as theory
from rooflab.theory.work import Work

COUNT = st.integers(1, 10_000)
RATE = st.floats(1e6, 1e16)


def test_data_movement_counts_every_byte_touched() -> None:
    assert theory.copy(1000) == Work(flop=0, bytes=2000)  # 1000 read + 1000 written
    assert theory.read(1000) == Work(flop=0, bytes=1000)
    assert theory.write(1000) == Work(flop=0, bytes=1000)
    assert theory.copy(1000).intensity == 0.0


def test_triad() -> None:
    # 10 elements of 4 bytes: 10 multiplies + 10 adds; (2 reads + 1 write) x 10 x 4 = 120 bytes; 20 / 120 = 1/6
    assert theory.triad(10, 4) == Work(flop=20, bytes=120)
    assert theory.triad(10, 4).intensity == pytest.approx(1 / 6)


def test_gemm_of_three_different_sizes() -> None:
    # (2x3)=(m,n), k=5: 2*2*3*5 = 60 FLOP. A 2x5 and B 5x3 at 1 byte: 10 + 15 = 25. C 2x3 at 4 bytes: 24, so 49.
    assert theory.gemm(2, 3, 5, 1, 4, "reads") == Work(60, 25)
    assert theory.gemm(2, 3, 5, 1, 4, "reads_and_write") == Work(60, 49)


@pytest.mark.parametrize(
    ("size", "convention", "intensity"),
    [
        (2, "reads", 2048.0),  # 2n^3 / (2 n^2 b) = n/b = 4096/2
        (4, "reads", 1024.0),  # 4096/4
        (2, "reads_and_write", 4096 / 3),  # 2n^3 / (3 n^2 b) = 2n/3b = 8192/6 = 1365.33
        (4, "reads_and_write", 2048 / 3),  # 8192/12 = 682.67
    ],
)
def test_intensity_of_the_square_4096_product(size: int, convention: str, intensity: float) -> None:
    assert theory.gemm(4096, 4096, 4096, size, size, convention).intensity == pytest.approx(intensity)


def test_fp8_product_with_bf16_output() -> None:
    # 2n^3 / (2n^2*1 + n^2*2) = 2n/4 = n/2 = 2048
    assert theory.gemm(4096, 4096, 4096, 1, 2, "reads_and_write").intensity == 2048.0


def test_decode_attention_of_the_lab() -> None:
    # H=8, S=1024, D=64: 4*8*1024*64 = 2 097 152 FLOP; K+V in fp16: 2*8*1024*64*2 = 2 097 152 bytes = 2 MiB
    assert theory.decode_attention(1, 8, 8, 1024, 64, 2) == Work(2_097_152, 2_097_152)
    # fp32 doubles the bytes: 4 194 304; intensity 2/4
    assert theory.decode_attention(1, 8, 8, 1024, 64, 4) == Work(2_097_152, 4_194_304)
    assert theory.decode_attention(1, 8, 8, 1024, 64, 4).intensity == 0.5
    assert theory.decode_attention(1, 8, 8, 1024, 64, 2).intensity == 1.0


def test_grouped_query_decode_reads_less_for_the_same_flop() -> None:
    # g = 32/8 = 4, fp16: intensity 2*4/2 = 4
    assert theory.decode_attention(1, 32, 8, 100, 128, 2).intensity == 4.0
    assert theory.decode_attention(1, 32, 8, 100, 128, 2).flop == theory.decode_attention(1, 32, 32, 100, 128, 2).flop


@given(batch=COUNT, kv_heads=COUNT, group=st.integers(1, 64), sequence=COUNT, head_dim=COUNT, size=st.integers(1, 8))
def test_decode_intensity_depends_on_group_and_element_size_only(
    batch: int, kv_heads: int, group: int, sequence: int, head_dim: int, size: int
) -> None:
    work = theory.decode_attention(batch, group * kv_heads, kv_heads, sequence, head_dim, size)
    assert work.intensity == pytest.approx(2 * group / size)


@given(n=COUNT, factor=st.integers(2, 10))
def test_square_gemm_intensity_grows_with_its_size(n: int, factor: int) -> None:
    small, large = (theory.gemm(size, size, size, 2, 2, "reads_and_write") for size in (n, factor * n))
    assert large.intensity == pytest.approx(factor * small.intensity)


# A round machine: 1000 TFLOP/s and 4 TB/s meet at 250 FLOP/byte.
PEAK, SLOPE = 1e15, 4e12


def test_ridge_point() -> None:
    assert theory.ridge_point(PEAK, SLOPE) == 250.0


def test_multiply_adds_count_twice() -> None:
    assert theory.multiply_adds(3) == 6
    assert theory.square_product(4096) == theory.gemm(4096, 4096, 4096, 2, 2, "reads").flop == 137_438_953_472


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf])
def test_sizes_and_rates_must_be_positive_and_finite(bad: float) -> None:
    with pytest.raises(ValueError, match=r"bytes_per_s is .*expected a finite number above 0"):
        theory.ridge_point(PEAK, bad)
    with pytest.raises(ValueError, match="flop_per_s is"):
        theory.ridge_point(bad, SLOPE)


def test_bad_operator_arguments_name_the_argument() -> None:
    with pytest.raises(ValueError, match="nbytes is 0"):
        theory.copy(0)
    with pytest.raises(ValueError, match="dtype_bytes is -4"):
        theory.triad(10, -4)
    with pytest.raises(ValueError, match="k is 0"):
        theory.gemm(1, 1, 0, 2, 2, "reads")
    with pytest.raises(ValueError, match=r"'all': expected one of reads, reads_and_write"):
        theory.gemm(1, 1, 1, 2, 2, "all")
    with pytest.raises(ValueError, match="sequence is 0"):
        theory.decode_attention(1, 8, 8, 0, 64, 2)
    with pytest.raises(ValueError, match="query_heads 8 is not a multiple of kv_heads 3"):
        theory.decode_attention(1, 8, 3, 128, 64, 2)

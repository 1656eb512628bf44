"""The parts of a decode step in NumPy against plain loops and closed forms; their kernels compile, and on a GPU agree."""

import math

import numpy as np
import nvrtc_library
import pytest
from rooflab.measure.cuda.arrays import FORMATS
from rooflab.measure.cuda.attention.tensor_cores import CAPABILITY
from rooflab.measure.cuda.device import CudaDevice, open_device
from rooflab.measure.cuda.elementwise import FLAT_THREADS, ROW_THREADS, SOFTMAX_THREADS, ElementwiseCase, kernel_defines
from rooflab.reference.attention import decode_attention, random_normal, reference_attention, relative_error
from rooflab.reference.step import EPSILON, activation, gelu, latent_attention, projection, rmsnorm, silu
from test_kernels import compilers, needs_nvrtc

KERNELS = ("rmsnorm", "layernorm", "silu", "gelu", "silu_gated", "gelu_gated")
DTYPES = ("fp32", "fp16", "bf16")


# ---- NumPy references


def test_rmsnorm_is_each_row_over_its_root_mean_square() -> None:
    x, gain = random_normal((3, 7), 1).astype(np.float64), random_normal((7,), 2).astype(np.float64)
    made = rmsnorm(np, x, gain)
    for row, got in zip(x, made, strict=True):
        size = math.sqrt(sum(v * v for v in row) / 7 + EPSILON)
        assert got == pytest.approx([v / size * g for v, g in zip(row, gain, strict=True)], rel=1e-12)


def test_activations_at_known_points() -> None:
    x = np.array([-20.0, -1.0, 0.0, 1.0, 20.0])
    assert silu(np, x) == pytest.approx([-20 / (1 + math.exp(20)), -0.2689414, 0.0, 0.7310586, 20.0], rel=1e-6)
    exact = [v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x]
    assert gelu(np, x) == pytest.approx(exact, abs=2e-4)


def test_a_gated_activation_multiplies_by_the_second_half() -> None:
    x = random_normal((5, 12), 3).astype(np.float64)
    assert activation(np, "silu_gated", x) == pytest.approx(silu(np, x[:, :6]) * x[:, 6:])
    assert activation(np, "gelu", x) == pytest.approx(gelu(np, x))


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown activation 'relu'"):
        activation(np, "relu", np.ones((1, 2)))


def test_a_projection_is_x_times_the_stored_weight_transposed() -> None:
    x, weight = random_normal((2, 3, 5), 4), random_normal((2, 7, 5), 5)
    np.testing.assert_allclose(projection(np, x, weight), np.einsum("gmk,gnk->gmn", x, weight), rtol=1e-5, atol=1e-6)


# ---- latent attention


def latent_case(heads: int = 3) -> dict[str, np.ndarray]:
    """One sequence of 11 tokens: latent of 8, rotary key of 4, heads of 6 + 4 elements of query and 5 of value."""
    shapes = {
        "latent": (11, 8), "rotary": (11, 4), "q_nope": (heads, 6), "q_rotary": (heads, 4),
        "key_up": (heads, 6, 8), "value_up": (heads, 5, 8),
    }  # fmt: skip
    return {name: random_normal(shape, seed).astype(np.float64) for seed, (name, shape) in enumerate(shapes.items())}


def test_absorbed_latent_attention_is_attention_over_the_keys_and_values_it_stands_for() -> None:
    case, scale = latent_case(), 1 / math.sqrt(10)
    heads = len(case["q_nope"])
    keys = np.einsum("sr,hdr->hsd", case["latent"], case["key_up"])
    keys = np.concatenate([keys, np.repeat(case["rotary"][None], heads, axis=0)], axis=-1)
    values = np.einsum("sr,hdr->hsd", case["latent"], case["value_up"])
    queries = np.concatenate([case["q_nope"], case["q_rotary"]], axis=-1)
    logits = np.einsum("hd,hsd->hs", queries, keys) * scale
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    plain = np.einsum("hs,hsd->hd", weights, values)

    absorbed = np.einsum("hd,hdr->hr", case["q_nope"], case["key_up"])
    q = np.concatenate([absorbed, case["q_rotary"]], axis=-1)[None]
    cache = np.concatenate([case["latent"], case["rotary"]], axis=-1)[None]
    mixed = latent_attention(np, q, cache, 8, scale)[0]
    np.testing.assert_allclose(np.einsum("hr,hdr->hd", mixed, case["value_up"]), plain, rtol=1e-10)


def test_a_latent_without_rotary_part_is_multi_query_attention_with_one_array_for_both() -> None:
    q, cache = random_normal((2, 4, 16), 1), random_normal((2, 9, 16), 2)
    as_heads = cache[:, None]
    got = latent_attention(np, q, cache, 16, 0.25)
    np.testing.assert_allclose(got, decode_attention(np, q, as_heads, as_heads), rtol=1e-5)
    assert relative_error(got, reference_attention(q, as_heads, as_heads)) < 1e-6


def test_latent_attention_refuses_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="expected"):
        latent_attention(np, np.ones((1, 2, 8)), np.ones((1, 3, 9)), 4, 1.0)
    with pytest.raises(ValueError, match="rank 9"):
        latent_attention(np, np.ones((1, 2, 8)), np.ones((1, 3, 8)), 9, 1.0)


# ---- kernels


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), compilers())
def test_the_kernels_compile(library, architecture) -> None:  # type: ignore[no-untyped-def]
    for dtype in DTYPES:
        defines = kernel_defines("gelu_gated", dtype, 768, 128)
        text, _ = nvrtc_library.compile_kernel(library, "norms", architecture, defines)
        assert all(f".entry {name}(" in text for name in ("add_norm", "activate", "softmax_rows"))


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), [each for each in compilers() if each[1] >= CAPABILITY])
def test_the_latent_kernel_compiles_and_keeps_its_sums_in_registers(library, architecture) -> None:  # type: ignore[no-untyped-def]
    for number, stages in ((FORMATS["fp16"], 2), (FORMATS["bf16"], 3)):
        defines = {"FORMAT": number, "RANK": 512, "ROPE": 64, "STAGES": stages}
        text, _ = nvrtc_library.compile_kernel(library, "latent", architecture, defines)
        assert ".entry latent_attention(" in text and ".entry merge_splits(" in text and "__local_depot" not in text


@needs_nvrtc
@pytest.mark.parametrize("kernel", ["rmsnorm", "layernorm"])
@pytest.mark.parametrize("threads", ROW_THREADS)
@pytest.mark.parametrize("width", [768, 8192])
def test_a_row_stays_in_registers(kernel: str, threads: int, width: int) -> None:
    library, _ = compilers()[0]
    text, _ = nvrtc_library.compile_kernel(library, "norms", 90, kernel_defines(kernel, "bf16", width, threads))
    assert "__local_depot" not in text


def test_a_kernel_is_told_what_it_is() -> None:
    assert kernel_defines("gelu_gated", "bf16", 4096, 256) == {
        "FORMAT": FORMATS["bf16"], "WIDTH": 4096, "THREADS": 256, "LAYER_NORM": 0, "GELU": 1, "GATED": 1,
    }  # fmt: skip
    assert kernel_defines("layernorm", "fp32", 64, 128)["LAYER_NORM"] == 1
    assert all(threads % 32 == 0 for threads in (*ROW_THREADS, *FLAT_THREADS, SOFTMAX_THREADS))


def test_a_width_of_broken_vectors_or_fp8_is_refused() -> None:
    for dtype, width in (("bf16", 12), ("fp8_e4m3", 64)):
        with pytest.raises(ValueError, match="whole 16-byte vectors"):
            ElementwiseCase(None, "silu", 1, width, dtype)  # type: ignore[arg-type]


# ---- on a GPU


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    return open_device()


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "width"), [(1, 64), (3, 768), (33, 4096), (2, 14336)])
def test_a_kernel_computes_what_numpy_does(device: CudaDevice, kernel: str, dtype: str, rows: int, width: int) -> None:
    case = ElementwiseCase(device, kernel, rows, width, dtype)
    for threads in case.threads:
        case.poison()
        case.call(threads)()
        assert case.relative_error() <= case.tolerance

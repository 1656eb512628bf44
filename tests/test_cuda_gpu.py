"""The device rooms on a real GPU, small shapes, against float64 on the host."""

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from rooflab.machine import nvml
from rooflab.machine.visible import in_cuda_order
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import bandwidth, fma
from rooflab.measure.cuda.arrays import TILE_ELEMENTS, decode, encode, normal, poison, to_device, to_host
from rooflab.measure.cuda.attention.configs import FusedConfig
from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
from rooflab.measure.cuda.attention.grouped import GroupedConfig, grouped_configs
from rooflab.measure.cuda.device import CudaDevice, open_device
from rooflab.measure.cuda.gemm import GemmCase, neutralise_tf32_environment
from rooflab.measure.cuda.stamps import CudaStamps
from rooflab.reference.attention import random_kv, random_normal
from rooflab.theory import dtypes
from rooflab.theory.protocol import FMA_LAUNCHES, MEMORY_LAUNCHES

pytestmark = pytest.mark.gpu

# relative error allowed: rounding of the result, and of the weights in the chain's case
TOLERANCE = {"fp32": 3e-6, "fp16": 1e-3, "bf16": 8e-3, "fp8_e4m3": 1e-3}
DTYPES = ("fp32", "fp16", "bf16", "fp8_e4m3")


@pytest.fixture(scope="module")
def device() -> CudaDevice:
    neutralise_tf32_environment()
    return open_device()


def skip_if_cannot(device: CudaDevice, variant: str) -> None:
    needed = {"fp8_e4m3": 89, "fp8_e4m3_full": 89, "bf16": 80, "tf32": 80, "int8": 75}.get(variant, 0)
    if device.compute_capability < needed:
        pytest.skip(f"{variant} needs compute capability {needed / 10}")


# ---- the device


def test_the_device_says_what_it_is(device: CudaDevice) -> None:
    properties = device.properties()
    assert properties["sm_count"] > 0
    assert properties["memory_bytes"] > 1 << 30
    assert properties["uuid"].startswith("GPU-")
    free, total = device.memory()
    assert 0 < free <= total
    versions = device.versions()
    assert versions["cublas"] > 0
    assert any(name.startswith("libcublas.so") for name in versions["libraries"])
    assert not any(os.sep in name for name in versions["libraries"])


def test_nvml_finds_the_same_card(device: CudaDevice) -> None:
    properties = device.properties()
    facts = nvml.Nvml(properties["pci_bus_id"]).device_facts()
    assert facts["name"] == properties["name"]
    assert properties["uuid"] in (facts["uuid"], None) or facts["mig_enabled"] is True
    first = in_cuda_order(nvml.list_gpus(), os.environ)[0]
    assert properties["name"].startswith(first["name"]) and properties["uuid"] in (first["uuid"], None)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp8_e4m3", "int8", "fp64"])
def test_arrays_come_back_as_they_went(device: CudaDevice, dtype: str) -> None:
    stored = encode(random_normal((3, 5), 1), dtype)
    assert np.array_equal(decode(to_host(to_device(device, stored)), dtype), decode(stored, dtype))


def test_big_random_arrays_are_normal_and_no_two_rows_alike(device: CudaDevice) -> None:
    values = to_host(normal(device, (3 * TILE_ELEMENTS // 1024 + 1, 1024), "fp32", 4))
    assert abs(values.mean()) < 0.01
    assert abs(values.std() - 1) < 0.01
    assert len({row.tobytes() for row in values}) == len(values)


def test_poison_is_seen(device: CudaDevice) -> None:
    array = normal(device, (64,), "bf16", 0)
    poison(device, array)
    assert np.isnan(decode(to_host(array), "bf16")).all()


def test_a_graph_replays_its_calls_in_order(device: CudaDevice) -> None:
    source, middle, target = (normal(device, (1024,), "fp32", seed) for seed in range(3))
    graph = device.capture([device.memory_copy(middle, source), device.memory_copy(target, middle)])
    poison(device, middle)
    poison(device, target)
    device.launch(graph)
    assert np.array_equal(to_host(target), to_host(source))


def test_a_capture_that_fails_leaves_the_stream_usable(device: CudaDevice) -> None:
    made = itertools.count()

    def fail_while_captured() -> None:
        if next(made):
            raise RuntimeError("not in a graph")

    with pytest.raises(RuntimeError, match="not in a graph"):
        device.capture([fail_while_captured])
    test_a_graph_replays_its_calls_in_order(device)


# ---- memory


@pytest.mark.parametrize("name", ["d2d", "read", "write", "triad"])
@pytest.mark.parametrize("size", [16, 1 << 20, 16 * 1_000_003])
def test_patterns_touch_every_bit(device: CudaDevice, name: str, size: int) -> None:
    for config in MEMORY_LAUNCHES[name] or (None,):
        pattern = bandwidth.pattern(device, name, size, config)
        assert pattern.check(), (name, config)
        pattern.call()
    device.synchronize()


def test_every_multiply_add_of_the_register_kernel_is_done(device: CudaDevice) -> None:
    for config in FMA_LAUNCHES:
        assert fma.FmaCase(device, config, rounds=3).relative_error() <= fma.TOLERANCE


def test_l2_read_passes_over_its_buffer_as_often_as_it_says(device: CudaDevice) -> None:
    for config in MEMORY_LAUNCHES["l2"]:
        assert bandwidth.l2_read(device, 1 << 20, passes=3, config=config).check()


def test_the_empty_kernel_launches_and_captures(device: CudaDevice) -> None:
    device.launch(device.capture([bandwidth.empty(device, blocks=264, threads=256)] * 10))
    device.synchronize()


# ---- matrix products


@pytest.mark.parametrize("variant", [*dtypes.DTYPES, *dtypes.VARIANTS])
def test_gemm_computes_in_the_arithmetic_it_names(device: CudaDevice, variant: str) -> None:
    skip_if_cannot(device, variant)
    case = GemmCase(device, variant, 1024)
    case.poison()
    case.call()()
    low, high = dtypes.variant(variant).product_error
    assert low <= case.relative_error() <= high


@pytest.mark.parametrize("variant", [*dtypes.DTYPES, *dtypes.VARIANTS])
def test_every_candidate_gives_the_same_product(device: CudaDevice, variant: str) -> None:
    skip_if_cannot(device, variant)
    case = GemmCase(device, variant, 1024)
    for candidate in case.candidates(4):
        case.poison()
        candidate.call()
        assert case.relative_error() <= dtypes.variant(variant).product_error[1], candidate


def test_a_product_that_was_not_computed_is_seen(device: CudaDevice) -> None:
    case = GemmCase(device, "fp16", 256)
    case.call()()
    case.poison()
    assert np.isnan(case.relative_error())


def test_cublaslt_is_captured_into_a_graph(device: CudaDevice) -> None:
    case = GemmCase(device, "fp16", 512)
    call = case.candidates(1)[0].call
    graph = device.capture([call] * 3)
    case.poison()
    device.launch(graph)
    assert case.relative_error() < dtypes.variant("fp16").product_error[1]


# ---- decode attention


def case_of(device: CudaDevice, dtype: str, sizes: tuple[int, int, int, int, int], seed: int = 3) -> DecodeCase:
    batch, query_heads, kv_heads, sequence, head_dim = sizes
    k, v = random_kv(batch, kv_heads, sequence, head_dim, seed)
    return DecodeCase.from_host(device, random_normal((batch, query_heads, head_dim), seed), k, v, dtype)


def error_of(case: DecodeCase, call: Callable[[], Any]) -> float:
    """Called twice, because the merge through memory has to leave its counters as it found them."""
    call()
    case.poison()
    call()
    return case.relative_error()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "sizes",
    [(1, 8, 8, 128, 64), (1, 8, 8, 1000, 64), (2, 4, 4, 1, 64), (1, 8, 2, 131, 128)]
    + [(3, 8, 1, 77, 80), (1, 7, 1, 300, 96), (1, 4, 4, 513, 32), (2, 2, 2, 65, 256)],
)
def test_fused_attention_is_right_in_spread_configurations(
    device: CudaDevice, dtype: str, sizes: tuple[int, int, int, int, int]
) -> None:
    case = case_of(device, dtype, sizes)
    for config in case.fused_candidates(24)[::8]:
        assert error_of(case, case.fused(config)) < TOLERANCE[dtype], config


def skip_without_tensor_cores(device: CudaDevice, config: GroupedConfig) -> None:
    needed = 90 if config.cluster else 80
    if device.compute_capability < needed:
        pytest.skip(f"{config} needs compute capability {needed / 10}")


GROUPED_DTYPES = ("fp16", "bf16", "fp8_e4m3")
GROUPED_SIZES = [
    *[
        (1, 8, 8, 1000, 64),
        (2, 4, 4, 1, 64),
        (1, 8, 2, 131, 128),
        (3, 8, 1, 77, 80),
        (1, 7, 1, 300, 96),
        (2, 2, 2, 65, 256),
    ],
    *[
        (2, 32, 2, 513, 128),
        (3, 20, 1, 333, 64),
        (5, 28, 4, 700, 128),
        (2, 16, 1, 200, 256),
        (1, 5, 1, 97, 96),
        (1, 2, 2, 64, 16),
    ],
]


@pytest.mark.parametrize("dtype", GROUPED_DTYPES)
@pytest.mark.parametrize("sizes", GROUPED_SIZES)
@pytest.mark.parametrize("ragged", [False, True])
def test_grouped_attention_is_right_in_spread_configurations(
    device: CudaDevice, dtype: str, sizes: tuple[int, int, int, int, int], ragged: bool
) -> None:
    batch, query_heads, kv_heads, sequence, head_dim = sizes
    sides = (batch * kv_heads, sequence, device.compute_capability, device.sm_count)
    configs = grouped_configs(dtype, head_dim, query_heads // kv_heads, *sides, limit=24)[::5]
    lengths = [1 + index * 37 % sequence for index in range(batch)] if ragged else None
    k, v = random_kv(batch, kv_heads, sequence, head_dim, 3)
    q = random_normal((batch, query_heads, head_dim), 3)
    case = DecodeCase.from_host(device, q, k, v, dtype, lengths=lengths)
    for config in configs:
        assert error_of(case, case.fused(config)) < TOLERANCE[dtype], config


@pytest.mark.parametrize("dtype", GROUPED_DTYPES)
@pytest.mark.parametrize("kind", ["rising scores", "falling scores", "one key", "huge values"])
@pytest.mark.parametrize(
    "config", [GroupedConfig(4, 2, 1, False), GroupedConfig(8, 2, 4, False), GroupedConfig(4, 3, 8, True)]
)
def test_grouped_attention_keeps_its_precision(
    device: CudaDevice, dtype: str, kind: str, config: GroupedConfig
) -> None:
    skip_without_tensor_cores(device, config)
    k, v = random_kv(2, 2, 777, 128, 5)
    q = random_normal((2, 14, 128), 5)
    slope = np.linspace(0, 8, 777, dtype=np.float32)[:, None]
    match kind:
        case "rising scores":
            k *= slope
        case "falling scores":
            k *= slope[::-1]
        case "one key":
            k[:, :, 500] = 20 * q[:, ::7]
        case "huge values":
            v *= 300 if dtype == "fp8_e4m3" else 10000
    case = DecodeCase.from_host(device, q, k, v, dtype)
    assert error_of(case, case.fused(config)) < TOLERANCE[dtype]


@pytest.mark.parametrize(
    "kind", ["huge scores", "scores of minus infinity", "all scores of minus infinity", "NaN in K", "NaN in V"]
)
@pytest.mark.parametrize(
    "config", [GroupedConfig(4, 2, 1, False), GroupedConfig(2, 2, 2, False), GroupedConfig(4, 2, 2, True)]
)
def test_grouped_attention_on_adversarial_operands(device: CudaDevice, kind: str, config: GroupedConfig) -> None:
    skip_without_tensor_cores(device, config)
    q, (k, v) = random_normal((1, 8, 64), 8), random_kv(1, 2, 37, 64, 8)
    adversarial(q, k, v, kind)
    case = DecodeCase.from_host(device, q, k, v, "fp16")
    case.fused(config)()
    got, want = case.result()[0], case._reference.reshape(8, 64)
    assert np.array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=5e-3, atol=2e-3)


@pytest.mark.parametrize("config", [GroupedConfig(4, 3, 16, False), GroupedConfig(8, 3, 8, True)])
def test_grouped_merges_are_right_a_thousand_times(device: CudaDevice, config: GroupedConfig) -> None:
    skip_without_tensor_cores(device, config)
    case = case_of(device, "bf16", (1, 32, 8, 1000, 128))
    call = case.fused(config)
    case.poison()
    call()
    first = case.result()
    for _ in range(1000):
        call()
    assert np.array_equal(case.result(), first)
    assert case.relative_error() < TOLERANCE["bf16"]


def test_lengths_are_taken_by_tensor_cores_alone(device: CudaDevice) -> None:
    q, (k, v) = random_normal((2, 2, 64), 1), random_kv(2, 2, 40, 64, 1)
    case = DecodeCase.from_host(device, q, k, v, "fp16", lengths=[40, 7])
    with pytest.raises(ValueError, match="takes no sequences of different lengths"):
        case.fused(FusedConfig(4, 1, 1, False, 1))
    with pytest.raises(ValueError, match="expected 2 numbers from 1 to 40"):
        DecodeCase.from_host(device, q, k, v, "fp16", lengths=[41, 7])


@pytest.mark.parametrize("splits", [2, 4, 8])
def test_both_merges_are_right_a_thousand_times(device: CudaDevice, splits: int) -> None:
    case = case_of(device, "fp16", (1, 8, 8, 1000, 64))
    for cluster in (False, True):
        if cluster and device.compute_capability < 90:
            continue
        call = case.fused(FusedConfig(8, 2, splits, cluster, 1))
        case.poison()
        call()
        first = case.result()
        for _ in range(1000):
            call()
        assert np.array_equal(case.result(), first)
        assert case.relative_error() < TOLERANCE["fp16"]


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("sizes", [(1, 8, 8, 128, 64), (2, 8, 2, 131, 128), (1, 2, 2, 1, 64)])
def test_the_chain_computes_in_its_dtype(device: CudaDevice, dtype: str, sizes: tuple[int, int, int, int, int]) -> None:
    case = case_of(device, dtype, sizes)
    assert error_of(case, case.chain()) < TOLERANCE[dtype]


def test_the_chain_refuses_fp8(device: CudaDevice) -> None:
    with pytest.raises(ValueError, match="no fp8_e4m3"):
        case_of(device, "fp8_e4m3", (1, 1, 1, 4, 64)).chain()


def adversarial(q: np.ndarray, k: np.ndarray, v: np.ndarray, kind: str) -> None:
    """Changes operands in place."""
    match kind:
        case "huge scores":
            q *= 100
            k *= 100
        case "scores of minus infinity":
            q[:], k[:, :, ::2] = np.abs(q), -np.inf
        case "all scores of minus infinity":
            q[:], k[:, 0] = np.abs(q), -np.inf
        case "NaN in K":
            k[0, 0, -1, 3] = np.nan
        case "NaN in V":
            v[0, 0, 0] = np.nan
        case "infinity in V":
            v[0, 0, -1] = np.inf


ADVERSARIAL = ("huge scores", "scores of minus infinity", "all scores of minus infinity", "NaN in K", "NaN in V")


@pytest.mark.parametrize("kind", [*ADVERSARIAL, "infinity in V"])
@pytest.mark.parametrize(
    "config", [FusedConfig(8, 1, 1, False, 1), FusedConfig(4, 2, 4, False, 1), FusedConfig(4, 1, 8, True, 1)]
)
def test_adversarial_operands(device: CudaDevice, kind: str, config: FusedConfig) -> None:
    if config.cluster and device.compute_capability < 90:
        pytest.skip("clusters need compute capability 9.0")
    q = random_normal((1, 2, 64), 8)
    k, v = random_kv(1, 2, 37, 64, 8)
    adversarial(q, k, v, kind)
    case = DecodeCase.from_host(device, q, k, v, "fp32")
    case.fused(config)()
    got, want = case.result()[0], case._reference[:, 0]
    assert np.array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=5e-3, atol=1e-5)


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp8_e4m3"])
def test_nan_goes_through_the_narrow_formats(device: CudaDevice, dtype: str) -> None:
    q = random_normal((1, 2, 64), 8)
    k, v = random_kv(1, 2, 37, 64, 8)
    k[0, 0, -1, 3] = np.nan
    case = DecodeCase.from_host(device, q, k, v, dtype)
    case.fused(case.fused_candidates(1)[0])()
    assert np.isnan(case.result()[0, 0]).all()
    assert np.isfinite(case.result()[0, 1]).all()


def test_copies_hold_the_same_and_are_elsewhere(device: CudaDevice) -> None:
    case = DecodeCase.random(device, DecodeShape(16, 4, 4, 300, 64), "fp16", seed=2, copies=3)
    assert len({cache[0].data.ptr for cache in case.caches}) == 3
    config = case.fused_candidates(1)[0]
    assert [error_of(case, case.fused(config, copy)) < TOLERANCE["fp16"] for copy in range(3)] == [True] * 3


def test_a_fused_launch_is_captured(device: CudaDevice) -> None:
    case = case_of(device, "fp16", (1, 8, 8, 512, 64))
    for config in case.fused_candidates(2):
        graph = device.capture([case.fused(config)] * 20)
        case.poison()
        device.launch(graph)
        assert case.relative_error() < TOLERANCE["fp16"]


def test_shapes_that_do_not_exist_are_refused(device: CudaDevice) -> None:
    with pytest.raises(ValueError, match="multiple of KV heads"):
        DecodeShape(1, 3, 2, 8, 64)
    with pytest.raises(ValueError, match="head size 72"):
        DecodeShape(1, 2, 2, 8, 72)


# ---- the clock inside a block


def test_the_stamps_tell_the_clock_of_a_busy_chip(device: CudaDevice) -> None:
    stamps, most = CudaStamps(device), nvml.Nvml(device.properties()["pci_bus_id"]).device_facts()["max_sm_clock_hz"]
    bench = Bench(synchronize=device.synchronize, device=device, stamps=stamps)
    assert bench.pair_s < 1e-4
    case = fma.FmaCase(device, FMA_LAUNCHES[0], 4096)
    series = bench.burst(case.call(), name="burst", implementation="fma", warmups=3, block_s=0.015, blocks=5, gap_s=0.1)
    clock = series["clock"]
    assert clock["where"] == "inside" and clock["pairs"] >= 3
    assert 0.2 * most < clock["sm_hz_low"] <= clock["sm_hz"] <= clock["sm_hz_high"] < 1.02 * most


def test_the_clock_explains_what_the_cuda_cores_issue(device: CudaDevice) -> None:
    """Multiply-adds in registers issue nearly every cycle: more than the clock allows is an error of the clock."""
    case = fma.FmaCase(device, FMA_LAUNCHES[0], 8192)
    bench = Bench(synchronize=device.synchronize, device=device, stamps=CudaStamps(device))
    series = bench.burst(case.call(), name="burst", implementation="fma", warmups=3, block_s=0.015, blocks=5, gap_s=0.1)
    per_call = min(series["samples_s"]) / series["iterations_per_sample"]
    count = case.shape["threads"] * case.shape["fma_per_thread"]
    per_clock = count / per_call / device.sm_count / series["clock"]["sm_hz_high"]
    lanes = 128 if device.compute_capability not in (70, 75, 80) else 64
    assert 0.8 * lanes < per_clock < 1.02 * lanes

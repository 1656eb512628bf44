"""The GPU's paid programs on a fake device: what is timed, verified and investigated, without a GPU."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from paid import bandwidth, decode_attn_gpu, peak_flops
from rooflab.machine import nvml
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import station
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.search import refuse_too_big

PEAK = 989.4e12  # the vendor's dense fp16 peak of an H200
SPEC = {
    "stage": "gemm", "side": "gpu", "protocol": 1, "dtype": "fp16", "n": 4096, "warmups": 3, "iterations": 100,
    "burst_blocks": 10, "burst_block_s": 0.015, "burst_gap_s": 0.2, "sustained_s": 0.5, "algorithms": 3,
}  # fmt: skip


class FakeDevice:
    """An H200 whose products reach `share` of the vendor's peak."""

    compute_capability = 90

    def __init__(self, share: float, error: float = 2e-4, faster: float = 1.0, sync_s: float = 0.0) -> None:
        self.share, self.error, self.faster, self.sync_s = share, error, faster, sync_s
        self.now = self.queued = 0.0

    def properties(self) -> dict[str, Any]:
        return {
            "name": "NVIDIA H200", "sm_count": 132, "compute_capability": "9.0", "sm_clock_hz": 1980000000,
            "memory_bytes": 143771 * 2**20, "l2_bytes": 60 * 2**20,
        }  # fmt: skip

    def synchronize(self) -> None:
        self.now += self.queued + self.sync_s
        self.queued = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def product(self, n: int, speed: float = 1.0) -> None:
        self.queued += 2 * n**3 / (self.share * PEAK * speed)


class FakeCandidate:
    config = {"id": 66}

    def __init__(self, device: FakeDevice, n: int, rank: int) -> None:
        self.name, self.call = f"cublasLt candidate {rank}", lambda: device.product(n, device.faster)


class FakeCase:
    path = "cupy.matmul"
    scales = None

    def __init__(self, device: FakeDevice, variant: str, n: int) -> None:
        self.device, self.variant, self.n, self.poisoned = device, variant, n, 0

    def call(self) -> Any:
        return lambda: self.device.product(self.n)

    def candidates(self, limit: int) -> list[FakeCandidate]:
        return [FakeCandidate(self.device, self.n, rank) for rank in range(limit)]

    def poison(self) -> None:
        self.poisoned += 1

    def relative_error(self) -> float:
        assert self.poisoned, "an error read from a result that was not poisoned first proves nothing"
        return self.device.error


def measured(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, **changes: Any) -> Measurement:
    monkeypatch.setattr("paid.peak_flops.GemmCase", FakeCase)
    bench = Bench(synchronize=device.synchronize, clock=lambda: device.now, sleep=device.sleep, device=device)
    return peak_flops.measure(SPEC | changes, bench)


def test_at_40_percent_of_the_vendor_s_peak_the_three_investigations_run(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice(share=0.4)
    found = measured(monkeypatch, device).details["investigations"]
    assert [f["name"] for f in found] == ["larger matrix", "after sustained load", "other path"]
    assert found[0]["n"] == 8192 and found[2]["implementation"].startswith("cublasLt")
    for each in found:
        assert 2 * each["n"] ** 3 / each["seconds_per_call"] == pytest.approx(0.4 * PEAK, rel=1e-6)


def test_the_investigations_take_less_than_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, healthy = FakeDevice(share=0.4), FakeDevice(share=0.8)
    measured(monkeypatch, slow)
    measured(monkeypatch, healthy)
    assert slow.now - healthy.now < 10


def test_a_healthy_product_is_not_investigated(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measured(monkeypatch, FakeDevice(share=0.8))
    assert taken.details["investigations"] == []
    assert [s["name"] for s in taken.series] == ["lab", "burst", "sustained"]
    assert taken.series[2]["track"]["start_s"][0] == 0 and len(taken.series[2]["track"]["start_s"]) > 3
    lab = taken.series[0]
    assert lab["warmups"] == 3 and lab["iterations_per_sample"] == 100 and lab["relative_error"] == 2e-4


def test_a_faster_algorithm_is_verified_and_becomes_a_burst_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measured(monkeypatch, FakeDevice(share=0.7, faster=1.05))
    candidate = taken.series[2]
    assert candidate["name"] == "burst candidate" and candidate["relative_error"] == 2e-4
    assert len(taken.details["search"]) == 4


def test_the_load_is_sustained_by_the_algorithm_that_is_the_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measured(monkeypatch, FakeDevice(share=0.7, faster=1.05))
    by_name = {series["name"]: series["implementation"] for series in taken.series}
    assert by_name["sustained"] == by_name["burst candidate"] != by_name["burst"]


def test_without_seconds_of_load_there_is_no_sustained_series(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measured(monkeypatch, FakeDevice(share=0.8), sustained_s=0.0)
    assert [series["name"] for series in taken.series] == ["lab", "burst"]


@pytest.mark.parametrize("pattern", ["d2d", "read", "write", "triad"])
def test_a_buffer_that_the_cache_holds_is_no_memory(pattern: str) -> None:
    device: Any = FakeDevice(share=1.0)
    device.memory = lambda: (2**37, 2**37)
    spec = {"pattern": pattern, "buffer_bytes": 32 * 2**20, "warmups": 1, "samples": 5, "gap_s": 0.0}
    with pytest.raises(Unsupported, match="set bandwidth.buffer_bytes to more than 125829120"):
        bandwidth.measure(spec, Bench(device=device))


def test_a_faster_algorithm_is_seen_however_long_synchronising_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measured(monkeypatch, FakeDevice(share=0.8, faster=1.03, sync_s=1e-5))
    assert [s["name"] for s in taken.series] == ["lab", "burst", "burst candidate", "sustained"]


def test_an_algorithm_that_the_library_then_refuses_is_noted_and_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflab.measure.cuda.cublaslt import LtError

    def refuse() -> None:
        raise LtError("cublasLtMatmul", 15)

    class Refusing(FakeCase):
        def candidates(self, limit: int) -> list[Any]:
            made: list[Any] = super().candidates(limit)
            made[1].call = refuse
            return made

    monkeypatch.setattr("paid.peak_flops.GemmCase", Refusing)
    device = FakeDevice(share=0.8, faster=1.05)
    bench = Bench(synchronize=device.synchronize, clock=lambda: device.now, sleep=device.sleep, device=device)
    search = peak_flops.measure(SPEC, bench).details["search"]
    assert [("refused" in each) for each in search] == [False, False, True, False]
    assert "NOT_SUPPORTED" in search[2]["refused"]


def test_a_variant_is_recorded_under_the_dtype_of_its_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = measured(monkeypatch, FakeDevice(share=1.4, error=1.67e-3), dtype="fp8_e4m3_full")
    assert taken.dtype == "fp8_e4m3"


@pytest.mark.parametrize("error", [2.135e-3, 2.626e-3])  # of the faster sums on an H200, at 4096 and at 8192
def test_full_sums_of_fp8_are_told_from_the_faster_ones_by_their_error(
    monkeypatch: pytest.MonkeyPatch, error: float
) -> None:
    assert measured(monkeypatch, FakeDevice(share=1.4, error=error), dtype="fp8_e4m3").dtype == "fp8_e4m3"
    with pytest.raises(Failed, match="another arithmetic ran"):
        measured(monkeypatch, FakeDevice(share=1.4, error=error), dtype="fp8_e4m3_full")


@pytest.mark.parametrize(
    ("capability", "differs"),
    [*((chip, False) for chip in (70, 80, 90, 100, 103)), *((chip, True) for chip in (75, 86, 89, 120, 121))],
)
def test_fp16_sums_are_a_ceiling_of_their_own_only_where_they_are_faster(
    monkeypatch: pytest.MonkeyPatch, capability: int, differs: bool
) -> None:
    device = FakeDevice(share=0.8, error=2.4e-3)
    device.compute_capability = capability
    if differs:
        assert measured(monkeypatch, device, dtype="fp16_acc16").dtype == "fp16"
    else:
        with pytest.raises(Unsupported, match="no rate of its own on this chip"):
            measured(monkeypatch, device, dtype="fp16_acc16")


def test_another_arithmetic_than_asked_for_is_a_failed_record(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Failed, match="another arithmetic ran"):
        measured(monkeypatch, FakeDevice(share=0.8, error=2.9e-4), dtype="fp32")


@pytest.mark.parametrize(("dtype", "capability"), [("fp8_e4m3", 80), ("bf16", 75), ("tf32", 70)])
def test_what_the_chip_cannot_do_is_unsupported(monkeypatch: pytest.MonkeyPatch, dtype: str, capability: int) -> None:
    device = FakeDevice(share=0.8)
    device.compute_capability = capability
    with pytest.raises(Unsupported, match="needs compute capability"):
        measured(monkeypatch, device, dtype=dtype)


def test_a_head_size_that_the_kernel_does_not_have_is_unsupported() -> None:
    geometry = {"layers": 1, "heads": 2, "kv_heads": 2, "head_dim": 40, "vocabulary": 32, "context": 64}
    spec = {"dtype": "fp16", "sequence": 16, "geometry": geometry, "weights": {"seed": 0, "generator": 1}}
    device = SimpleNamespace(
        xp=SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray), synchronize=lambda: None, compute_capability=90,
        memory=lambda: (2**34, 2**34),
    )  # fmt: skip
    with pytest.raises(Unsupported, match="head size 40"):
        decode_attn_gpu.measure(spec, Bench(device=device))


@pytest.mark.parametrize(("total_gib", "batch"), [(140, 1024), (4, 512)])
def test_the_far_case_fills_its_bytes_or_a_quarter_of_the_card(total_gib: int, batch: int) -> None:
    from rooflab.measure.inputs import sizes

    geometry = {"heads": 8, "kv_heads": 8, "head_dim": 64}
    spec = {"dtype": "fp16", "sequence": 1024, "geometry": geometry, "kv_bytes": 2**31}
    assert sizes(spec, total_gib * 2**30)["batch"] == batch


def test_a_cache_that_the_card_cannot_hold_is_unsupported_with_both_sizes() -> None:
    with pytest.raises(Unsupported, match="K and V take 2000 bytes, this GPU has 1000"):
        refuse_too_big("K and V take", 2000, 1000)


def test_the_multiply_adds_of_the_kernel_are_those_of_exact_arithmetic() -> None:
    from fractions import Fraction

    from rooflab.measure.cuda.fma import ADDEND, FACTOR, UNROLL, expected

    value = np.float32(3 + 1)  # thread 3, second chain
    for _ in range(UNROLL):
        value = np.float32(float(Fraction(float(value)) * Fraction(float(FACTOR)) + Fraction(float(ADDEND))))
    other = expected(4, 1, 1)[3]
    both = expected(4, 2, 1)[3]
    assert both - other == pytest.approx(float(value), rel=1e-7)


class FakePattern:
    """Reads at 8 TB/s up to 40 MiB and at 4 TB/s beyond."""

    config = "only"

    def __init__(self, device: FakeDevice, size: int, passes: int) -> None:
        rate = 8e12 if size <= 40 * 2**20 else 4e12
        self.name, self.passes, self.check = "l2_read", passes, lambda: True

        def call() -> None:
            device.queued += size * passes / rate

        self.call = call


def test_the_sweep_tells_where_l2_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    import synthetic
    from free import roofline
    from rooflab.record.records import check_schema

    device = FakeDevice(share=1.0)
    monkeypatch.setattr("paid.bandwidth.l2_read", lambda device, size, passes, *rest: FakePattern(device, size, passes))
    monkeypatch.setattr("paid.bandwidth.buffers", lambda device, name, size: ([], []))
    bench = Bench(synchronize=device.synchronize, clock=lambda: device.now, sleep=device.sleep, device=device)
    sizes = [mib * 2**20 for mib in (1, 16, 32, 64, 128)]
    taken = bandwidth.measure({"pattern": "l2", "sizes_bytes": sizes, "warmups": 1, "samples": 5, "gap_s": 0.0}, bench)
    record = synthetic.record(
        "bandwidth", "gpu", "l2", operator="read", shape=taken.shape, series=taken.series, details=taken.details
    )
    made = roofline.roofline("s", synthetic.with_files([record]), synthetic.planned([record]))
    check_schema("roofline", made, "here")
    [ceiling] = made["ceilings"]
    assert (ceiling["tier"], ceiling["reach_bytes"]) == ("L2", 32 * 2**20)
    assert ceiling["burst"] == pytest.approx(8e12, rel=1e-3) and len(ceiling["sweep"]) == 5


@pytest.mark.parametrize(("prefix", "mig"), [("GPU-", None), ("MIG-", "1g.18gb")])
def test_the_identity_says_which_slice_of_a_divided_gpu_this_is(
    monkeypatch: pytest.MonkeyPatch, prefix: str, mig: str | None
) -> None:
    body = "5ccde6f2-12e4-80da-8be1-62a45356cddf"
    seen = {"index": 0, "name": "NVIDIA H200", "uuid": prefix + body, "mig": mig}
    monkeypatch.setattr(nvml, "list_gpus", lambda: [seen])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    chip: Any = SimpleNamespace(device_facts=lambda: {"power_limit_enforced_w": 700.0})
    properties = {"name": "NVIDIA H200", "uuid": "GPU-" + body, "sm_count": 16, "memory_bytes": 18 * 2**30}
    assert station._identity(properties, chip)["mig"] == mig


class FakeStep:
    """A decode step of 10 µs per 128 cached tokens on a host that grows slower from round to round."""

    has_chain, dtype, caches = False, "fp16", (0,)

    def __init__(self, device: Any, sequence: int) -> None:
        self.device, self.sequence = device, sequence
        self.shape = SimpleNamespace(batch=1, query_heads=8, kv_heads=8, sequence=sequence, head_dim=64)

    def fused_candidates(self, limit: int) -> list[str]:
        return ["only"]

    def fused(self, config: str, copy: int = 0) -> Any:
        def call() -> None:
            self.device.order.append(self.sequence)
            self.device.queued += 1e-5 * self.sequence / 128

        return call

    def poison(self) -> None: ...

    def relative_error(self) -> float:
        return 1e-4


def decode_bench(monkeypatch: pytest.MonkeyPatch, refused: tuple[int, ...] = ()) -> Bench:
    device: Any = FakeDevice(share=1.0)
    device.order = []
    device.capture, device.launch = list, lambda graph: [call() for call in graph]

    def case(spec: dict[str, Any], bench: Bench) -> tuple[Any, str]:
        if spec["sequence"] in refused:
            raise Unsupported("not here")
        return FakeStep(device, spec["sequence"]), "seeded"

    monkeypatch.setattr(decode_attn_gpu, "_case", case)
    monkeypatch.setattr(decode_attn_gpu, "empty", lambda device: lambda: None)
    return Bench(synchronize=device.synchronize, clock=lambda: device.now, sleep=device.sleep, device=device)


DECODE = {"dtype": "fp16", "warmups": 1, "iterations": 20, "graph_nodes": 4, "graph_samples": 10, "configurations": 1}


def test_the_lengths_of_one_format_are_timed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = decode_bench(monkeypatch)
    bench.beside = tuple(DECODE | {"sequence": sequence} for sequence in (256, 512))
    taken = decode_attn_gpu.measure(DECODE | {"sequence": 128}, bench)
    records = [taken, *taken.beside]
    assert [each.shape["sequence"] for each in records] == [128, 256, 512]
    for each in records:
        step = next(series for series in each.series if series["name"] == "fused")
        assert step["samples_s"] == pytest.approx([1e-5 * each.shape["sequence"] / 128] * 20)
        assert {series["name"] for series in each.series} >= {
            "fused graph",
            "fused graph of one",
            "empty",
            "empty graph",
        }
    changes = [b for a, b in zip(bench.device.order, bench.device.order[1:], strict=False) if a != b]
    assert changes[-3 * decode_attn_gpu.ROUNDS + 1 :] == ([128, 256, 512] * decode_attn_gpu.ROUNDS)[1:]


def test_a_length_that_cannot_be_taken_is_left_to_its_own_program(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = decode_bench(monkeypatch, refused=(256,))
    bench.beside = tuple(DECODE | {"sequence": sequence} for sequence in (256, 512))
    found = decode_attn_gpu.measure(DECODE | {"sequence": 128}, bench).beside
    assert found[0] is None and found[1].shape["sequence"] == 512

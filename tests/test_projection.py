"""What the programs of the operators time, verify and refuse, on a fake device; and on a GPU that the products are right."""

import math
from typing import Any

import pytest
from paid import model_step, projection
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import cold_graphs
from rooflab.measure.cuda.device import CudaDevice, open_device
from rooflab.measure.outcome import Failed, Unsupported
from rooflab.plan.models import resolved
from rooflab.theory.step import elementwise, products

L2 = 60 << 20
GIB = 1 << 30
TIMING = {"warmups": 1, "graph_nodes": 10, "graph_samples": 4, "configurations": 3}


class FakeDevice:
    """A device whose clock advances by what is launched; a graph launches its calls."""

    compute_capability = 90

    def __init__(self, total_bytes: int = 141 * GIB) -> None:
        self.now = self.queued = 0.0
        self.total_bytes, self.captured, self.freed = total_bytes, [], 0

    def properties(self) -> dict[str, Any]:
        return {"l2_bytes": L2}

    def memory(self) -> tuple[int, int]:
        return self.total_bytes, self.total_bytes

    def synchronize(self) -> None:
        self.now += self.queued
        self.queued = 0.0

    def capture(self, calls: list[Any]) -> list[Any]:
        self.captured.append(calls)
        return calls

    def launch(self, graph: list[Any]) -> None:
        for call in graph:
            call()

    def free_pool(self) -> None:
        self.freed += 1


class FakeProduct:
    """A product that takes its weights' bytes at 4 TB/s; the second algorithm is the fastest."""

    tolerance = 1e-3
    error = 2e-4

    def __init__(self, device: FakeDevice, sizes: Any, dtype: str, copies: int) -> None:
        if dtype == "fp8_e4m3" and sizes.n % 16:
            raise ValueError("expected every size a multiple of 16")
        self.device, self.sizes, self.copies, self.poisoned = device, sizes, copies, False
        self.padded_rows, self.seen = sizes.rows, set()

    def algorithms(self, limit: int) -> list[float]:
        return [1.2, 1.0, 1.5][:limit]

    def config(self, algorithm: float) -> dict[str, int]:
        return {"id": int(10 * algorithm)}

    def calls(self, algorithm: float) -> list[Any]:
        seconds = self.sizes.weight_bytes(2) / 4e12 * algorithm
        return [lambda copy=copy: self._launch(copy, seconds) for copy in range(self.copies)]

    def _launch(self, copy: int, seconds: float) -> None:
        self.seen.add(copy)
        self.device.queued += seconds

    def poison(self) -> None:
        self.poisoned = True

    def relative_error(self) -> float:
        assert self.poisoned, "an error read from a result that was not poisoned first proves nothing"
        return self.error


class FakeKernel:
    threads = (128, 256)
    tolerance = 1e-3

    def __init__(self, device: FakeDevice, kernel: str, rows: int, width: int, dtype: str) -> None:
        self.device, self.poisoned = device, False

    def call(self, threads: int) -> Any:
        return lambda: setattr(self.device, "queued", self.device.queued + threads * 1e-8)

    def poison(self) -> None:
        self.poisoned = True

    def relative_error(self) -> float:
        assert self.poisoned
        return 1e-4


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    monkeypatch.setattr("rooflab.measure.cuda.products.ProjectionCase", FakeProduct)
    monkeypatch.setattr("paid.model_step.ElementwiseCase", FakeKernel)
    return FakeDevice()


def bench(device: FakeDevice) -> Bench:
    return Bench(synchronize=device.synchronize, clock=lambda: device.now, sleep=lambda s: None, device=device)


def step_spec(name: str, **changes: Any) -> dict[str, Any]:
    geometry = resolved([{"name": name}])[name].as_dict()
    return {"stage": "step", "operator": name, "geometry": geometry, "dtype": "bf16", "batch": 16} | TIMING | changes


# ---- copies and graphs


def test_the_copies_together_are_four_times_l2() -> None:
    assert cold_graphs.copies_for(2 << 20, L2) == 120
    assert cold_graphs.copies_for(GIB, L2) == 1
    assert cold_graphs.copies_for(1, L2) == cold_graphs.MOST_COPIES
    assert cold_graphs.cache_state(cold_graphs.MOST_COPIES, 1, L2) == "warm"


def test_a_graph_goes_round_every_copy_and_has_whole_rounds() -> None:
    fake = FakeDevice()
    steps = [(lambda: None,) for _ in range(7)]
    assert cold_graphs.replay(bench(fake), steps, 10).nodes == 14
    assert len(fake.captured[0]) == 14 and len(set(fake.captured[0])) == 7


def test_a_step_of_three_launches_counts_once() -> None:
    fake = FakeDevice()
    three = (lambda: None, lambda: None, lambda: None)
    assert cold_graphs.replay(bench(fake), [three], 4).nodes == 4
    assert len(fake.captured[0]) == 12


def test_a_sample_is_long_enough_that_launching_weighs_nothing(device: FakeDevice) -> None:
    taken = projection.measure({"dtype": "bf16", "n": 4096, "k": 4096, "batches": [1]} | TIMING, bench(device))
    assert min(taken.series[0]["samples_s"]) >= 0.95 * cold_graphs.BLOCK_S


# ---- the walk up the slope


def test_a_sweep_has_a_series_for_each_batch_with_the_fastest_algorithm(device: FakeDevice) -> None:
    spec = {"dtype": "bf16", "n": 4096, "k": 4096, "batches": [1, 8, 512]} | TIMING
    taken = projection.measure(spec, bench(device))
    assert [s["name"] for s in taken.series] == ["m1", "m8", "m512"]
    for series in taken.series:
        per_step = [s / series["iterations_per_sample"] for s in series["samples_s"]]
        assert per_step == pytest.approx([2 * 4096**2 / 4e12] * 4)
        assert (series["launch"], series["cache"], series["relative_error"]) == ("graph", "cold", 2e-4)
    assert taken.details["parts"]["m8"]["algorithm"] == {"id": 10}
    assert taken.details["parts"]["m8"]["copies"] == math.ceil(4 * L2 / (2 * 4096**2))


def test_a_wrong_product_is_a_failed_record(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeProduct, "error", float("nan"))
    with pytest.raises(Failed, match="m1 is off by nan"):
        projection.measure({"dtype": "bf16", "n": 64, "k": 64, "batches": [1]} | TIMING, bench(device))


@pytest.mark.parametrize("program", [projection, model_step])
def test_arithmetic_that_the_chip_has_not_is_unsupported(device: FakeDevice, program: Any) -> None:
    device.compute_capability = 80
    spec = step_spec("gpt2", dtype="fp8_e4m3", n=64, k=64, batches=[1])
    with pytest.raises(Unsupported, match="fp8_e4m3 needs compute capability 8.9, this GPU has 8.0"):
        program.measure(spec, bench(device))


# ---- the rest of a step


@pytest.mark.parametrize("name", ["llama-3-1-8b", "gpt2", "deepseek-v2-lite"])
def test_a_step_has_a_series_for_every_product_and_every_kernel(device: FakeDevice, name: str) -> None:
    model = resolved([{"name": name}])[name]
    taken = model_step.measure(step_spec(name), bench(device))
    wanted = [each.part for each in [*products(model, 16), *elementwise(model, 16)]]
    assert [s["name"] for s in taken.series] == wanted and len(set(wanted)) == len(wanted)
    assert set(taken.details["parts"]) == set(wanted) and taken.details["missing"] == {}
    assert device.freed == len(wanted)
    caches = {s["name"]: s["cache"] for s in taken.series}
    assert caches["LM head"] == "cold" and caches["norm"] == "warm"


def test_a_part_that_the_library_does_not_have_is_named_and_the_rest_goes_on(device: FakeDevice) -> None:
    taken = model_step.measure(step_spec("gpt2", dtype="fp8_e4m3"), bench(device))
    assert taken.details["missing"] == {"LM head": "expected every size a multiple of 16"}
    assert "QKV" in {s["name"] for s in taken.series}


def test_weights_beyond_the_card_are_unsupported_with_both_sizes(device: FakeDevice) -> None:
    device.total_bytes = 100_000_000
    with pytest.raises(Unsupported, match="LM head take 1050673152 bytes, this GPU has 100000000"):
        model_step.measure(step_spec("llama-3-1-8b", geometry=thin_llama()), bench(device))


def thin_llama() -> dict[str, Any]:
    model = resolved([{"name": "llama-3-1-8b"}])["llama-3-1-8b"].as_dict()
    return model | {"inner": 16}


# ---- on a GPU


@pytest.fixture(scope="module")
def card() -> CudaDevice:
    return open_device()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16", "fp8_e4m3"])
@pytest.mark.parametrize("sizes", [(1, 64, 128, 1), (17, 768, 3072, 1), (512, 4096, 4096, 1), (3, 128, 512, 16)])
def test_a_product_computes_what_numpy_does(card: CudaDevice, dtype: str, sizes: tuple[int, ...]) -> None:
    from rooflab.measure.cuda.projection import ProjectionCase, Sizes

    if card.compute_capability < 89 and dtype == "fp8_e4m3":
        pytest.skip("fp8 needs compute capability 8.9")
    case = ProjectionCase(card, Sizes(*sizes), dtype, copies=2)
    for algorithm in case.algorithms(2):
        case.poison()
        case.calls(algorithm)[0]()
        assert case.relative_error() <= case.tolerance

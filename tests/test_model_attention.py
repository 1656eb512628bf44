"""Attention of the operators: which way is taken, what is refused, on a fake device; and on a GPU that it is right."""

from types import SimpleNamespace
from typing import Any

import pytest
from paid import model_attention, model_step
from rooflab.measure.bench import Bench
from rooflab.measure.cuda import cold_graphs
from rooflab.measure.cuda.attention.latent_configs import LatentConfig, latent_configs
from rooflab.measure.cuda.device import CudaDevice, open_device
from rooflab.measure.outcome import Unsupported
from rooflab.theory import dtypes
from test_projection import GIB, TIMING, FakeDevice, bench, step_spec


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def attention_spec(name: str, **changes: Any) -> dict[str, Any]:
    return step_spec(name, stage="attention", dtype="bf16", sequence=8192, batch=16) | changes


def test_a_cache_beyond_the_card_is_unsupported_with_both_sizes(device: FakeDevice) -> None:
    spec = attention_spec("phi-3-mini-128k", sequence=131072, batch=256)
    asked = 256 * 131072 * 2 * 32 * 96 * 2
    with pytest.raises(Unsupported, match=f"cache takes {asked} bytes, this GPU has {141 * GIB}"):
        model_attention.measure(spec, bench(device))


class FakeDecode:
    """A fused kernel with two launch configurations; the second is faster."""

    def __init__(self, device: FakeDevice, shape: Any, copies: int) -> None:
        self.device, self.shape, self.copies, self.poisoned = device, shape, copies, False

    def fused_candidates(self, limit: int) -> list[float]:
        return [2.0, 1.0][:limit]

    def fused(self, config: float, copy: int = 0) -> Any:
        assert copy < self.copies
        return lambda: setattr(self.device, "queued", self.device.queued + 1e-5 * config)

    def poison(self) -> None:
        self.poisoned = True

    def relative_error(self) -> float:
        assert self.poisoned
        return 1e-3


def test_grouped_attention_goes_through_the_fused_kernel(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[FakeDecode] = []

    def random(device: FakeDevice, shape: Any, dtype: str, seed: int, copies: int) -> FakeDecode:
        made.append(FakeDecode(device, shape, copies))
        return made[-1]

    monkeypatch.setattr("paid.model_attention.DecodeCase.random", random)
    taken = model_attention.measure(attention_spec("llama-3-1-8b", sequence=1024, batch=1), bench(device))
    assert taken.shape == {"batch": 1, "query_heads": 32, "kv_heads": 8, "sequence": 1024, "head_dim": 128}
    (series,) = taken.series
    assert series["name"] == "fused cold" and series["samples_s"][0] / series["iterations_per_sample"] == pytest.approx(
        1e-5
    )
    assert made[0].copies == 60 and taken.details["search"][1]["name"] == "1.0"


class FakeLatent:
    def __init__(self, device: FakeDevice, shape: Any, dtype: str, scale: float, copies: int) -> None:
        if dtype == "fp32":
            raise ValueError("latent attention has no fp32 cache")
        self.device, self.shape, self.scale, self.copies, self.poisoned = device, shape, scale, copies, False

    def _calls(self, seconds: float) -> list[Any]:
        return [lambda: setattr(self.device, "queued", self.device.queued + seconds) for _ in range(self.copies)]

    def score_algorithms(self, limit: int) -> list[float]:
        return [3e-5, 2e-5]

    def mix_algorithms(self, limit: int) -> list[float]:
        return [1e-5]

    score_calls = mix_calls = _calls

    fused_s = 6e-5

    def fused_candidates(self, limit: int) -> list[int]:
        return [1, 4]

    def fused(self, config: int, copy: int) -> tuple[Any, ...]:
        first = self._calls(self.fused_s / config)[0]
        return (first, self._calls(1e-6)[0]) if config > 1 else (first,)

    def softmax_call(self) -> Any:
        return self._calls(5e-6)[0]

    def poison(self) -> None:
        self.poisoned = True

    def relative_error(self) -> float:
        assert self.poisoned
        return 2e-3


def test_latent_attention_takes_the_fastest_way_and_tells_the_others(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paid.model_attention.LatentCase", FakeLatent)
    taken = model_attention.measure(attention_spec("deepseek-v2-lite"), bench(device))
    assert taken.shape == {"batch": 16, "query_heads": 16, "sequence": 8192, "rank": 512, "rope_dim": 64}
    (series,) = taken.series
    per_step = series["samples_s"][0] / series["iterations_per_sample"]
    assert series["name"] == "fused cold" and per_step == pytest.approx(6e-5 / 4 + 1e-6)
    tried = {each["name"]: each["seconds_per_call"] for each in taken.details["search"]}
    assert tried["chain"] == pytest.approx(2e-5 + 5e-6 + 1e-5)


def test_two_products_with_a_softmax_between_where_that_is_faster(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paid.model_attention.LatentCase", FakeLatent)
    monkeypatch.setattr(FakeLatent, "fused_s", 1e-3)
    (series,) = model_attention.measure(attention_spec("deepseek-v2-lite"), bench(device)).series
    per_step = series["samples_s"][0] / series["iterations_per_sample"]
    assert series["name"] == "chain cold" and per_step == pytest.approx(2e-5 + 5e-6 + 1e-5)


def test_without_any_way_latent_attention_is_unsupported(device: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paid.model_attention.LatentCase", FakeLatent)
    monkeypatch.setattr(FakeLatent, "fused_candidates", lambda self, limit: [])
    monkeypatch.setattr(FakeLatent, "mix_algorithms", lambda self, limit: [])
    with pytest.raises(Unsupported, match="neither a kernel nor cuBLASLt"):
        model_attention.measure(attention_spec("deepseek-v2-lite"), bench(device))


def latent_candidates(capability: int, batch: int, sequence: int, dtype: str = "bf16") -> list[LatentConfig]:
    return latent_configs(dtype, (batch, 16, sequence, 512, 64), capability, sm_count=132, limit=20)


@pytest.mark.parametrize(
    ("batch", "sequence", "plain", "staged"),
    [(1, 1024, [32], [32, 16]), (1, 32768, [132, 264, 528], [132, 66]), (256, 8192, [1, 2, 3], [1])],
)
def test_the_latent_kernels_are_split_until_the_chip_is_full(
    batch: int, sequence: int, plain: list[int], staged: list[int]
) -> None:
    found = latent_candidates(90, batch, sequence)
    assert list(dict.fromkeys(c.splits for c in found if not c.staged)) == plain
    assert list(dict.fromkeys(c.splits for c in found if c.staged)) == staged


def test_a_latent_kernel_fits_into_shared_memory_or_does_not_exist() -> None:
    assert {(c.staged, c.stages) for c in latent_candidates(90, 1, 1024)} == {
        (False, 2),
        (False, 3),
        (True, 4),
        (True, 5),
    }
    assert {(c.staged, c.stages) for c in latent_candidates(89, 1, 1024)} == {(False, 2)}
    assert latent_candidates(89, 1, 1024, "fp8_e4m3") == []
    assert latent_candidates(75, 1, 1024) == []


def test_a_latent_cache_that_no_kernel_reads_is_unsupported(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paid.model_attention.LatentCase", FakeLatent)
    with pytest.raises(Unsupported, match="no fp32 cache"):
        model_attention.measure(attention_spec("deepseek-v2-lite", dtype="fp32"), bench(device))


# ---- on a GPU


@pytest.fixture(scope="module")
def card() -> CudaDevice:
    return open_device()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp8_e4m3"])
@pytest.mark.parametrize(
    ("batch", "heads", "sequence"), [(1, 16, 1024), (3, 16, 200), (2, 128, 4096), (1, 5, 1), (2, 40, 333)]
)
def test_latent_attention_computes_what_numpy_does(
    card: CudaDevice, dtype: str, batch: int, heads: int, sequence: int
) -> None:
    from rooflab.measure.cuda.attention.latent import LatentCase, LatentShape

    case = LatentCase(card, LatentShape(batch, heads, sequence, 512, 64), dtype, 192**-0.5, copies=2)
    chain = [
        (case.score_calls(scores)[0], case.softmax_call(), case.mix_calls(mix)[0])
        for scores, mix in zip(case.score_algorithms(1), case.mix_algorithms(1), strict=True)
    ]
    assert bool(chain) == (dtype != "fp8_e4m3")
    tolerance = dtypes.attention_error(dtype)
    timed = SimpleNamespace(device=card, synchronize=card.synchronize)
    for step in (*chain, *(case.fused(config, 0) for config in case.fused_candidates(20))):
        cold_graphs.proof(timed, case, step, tolerance, "latent attention")  # type: ignore[arg-type]


TINY = {
    "layers": 2, "width": 256, "heads": 16, "kv_heads": 4, "head_dim": 64, "inner": 512, "vocabulary": 1024, "context": 4096,
}  # fmt: skip
LATENT = {"rank": 512, "rope_dim": 64, "nope_dim": 64, "value_dim": 64}


@pytest.mark.gpu
@pytest.mark.parametrize("geometry", [TINY, TINY | {"kv_heads": 16, "latent": LATENT}])
def test_the_programs_measure_a_small_model(card: CudaDevice, geometry: dict[str, Any]) -> None:
    spec = {"operator": "tiny", "geometry": geometry, "dtype": "bf16", "sequence": 512, "batch": 3} | TIMING
    live = Bench(synchronize=card.synchronize, device=card)
    attention, step = model_attention.measure(spec, live), model_step.measure(spec, live)
    assert step.details["missing"] == {}
    for series in (*attention.series, *step.series):
        assert series["relative_error"] <= series["tolerance"] and min(series["samples_s"]) > 0

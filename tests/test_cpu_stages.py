"""The CPU's paid programs on small shapes, with a real Bench."""

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paid import cpu_bandwidth, cpu_decode_attn, cpu_device, cpu_launch_floor, cpu_peak_flops
from rooflab.machine import host_cpu
from rooflab.machine.preflight import NotReady
from rooflab.measure.bench import Bench
from rooflab.measure.outcome import Failed, Unsupported
from rooflab.reference import minigpt, weights

GEOMETRY = {"layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 8, "vocabulary": 32, "context": 16}
GEMM = {
    "n": 48,
    "warmups": 1,
    "iterations": 4,
    "burst_blocks": 3,
    "burst_block_s": 2,
    "burst_gap_s": 0,
    "sustained_s": 9,
}
DECODE = {"dtype": "fp32", "sequence": 24, "warmups": 1, "iterations": 5, "geometry": GEOMETRY}
SEEDED = {"seed": 0, "generator": minigpt.GENERATOR_VERSION}


@pytest.fixture
def bench() -> Bench:
    """A bench whose clock moves one second at every look."""
    ticks = count()
    return Bench(clock=lambda: float(next(ticks)), sleep=lambda seconds: None)


def test_device_names_its_blas(bench: Bench) -> None:
    details = cpu_device.measure({}, bench).details
    assert details["cores_physical"] >= 1
    assert details["blas"][0]["num_threads"] >= 1


def test_launch_floor(bench: Bench) -> None:
    taken = cpu_launch_floor.measure({"warmups": 2, "iterations": 7}, bench)
    assert taken.operator == "empty_launch"
    assert taken.series[0]["samples_s"] == [1.0] * 7


@pytest.mark.parametrize(("pattern", "reads", "writes"), [("read", 1, 0), ("triad", 2, 1)])
def test_bandwidth(bench: Bench, monkeypatch: pytest.MonkeyPatch, pattern: str, reads: int, writes: int) -> None:
    monkeypatch.setattr(host_cpu, "llc_bytes", lambda: 2**18)
    spec = {"pattern": pattern, "buffer_bytes": 1_000_004, "warmups": 1, "samples": 3}
    taken = cpu_bandwidth.measure(spec, bench)
    assert taken.shape == {"bytes_per_array": 1_000_004, "reads": reads, "writes": writes}
    assert taken.series[0]["samples_s"] == [1.0] * 3
    assert taken.details["threads"] == host_cpu.worker_threads()


def test_bandwidth_of_another_pattern_is_unsupported(bench: Bench) -> None:
    with pytest.raises(Unsupported, match="read, triad"):
        cpu_bandwidth.measure({"pattern": "d2d"}, bench)


def test_arrays_that_the_cache_holds_are_no_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cpu, "llc_bytes", lambda: 32 * 2**20)
    spec = {"pattern": "read", "buffer_bytes": 64 * 2**20, "warmups": 1, "samples": 3}
    with pytest.raises(Unsupported, match="set cpu.bandwidth.buffer_bytes to more than 67108864"):
        cpu_bandwidth.measure(spec, bench)


def test_a_wrong_triad_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cpu, "llc_bytes", lambda: 2**18)
    monkeypatch.setattr(cpu_bandwidth, "triad_part", lambda a, b, c, scratch: None)
    with pytest.raises(Failed, match="triad: .* are wrong"):
        cpu_bandwidth.measure({"pattern": "triad", "buffer_bytes": 400_000, "warmups": 0, "samples": 1}, bench)


def test_triad_part_covers_a_ragged_end() -> None:
    b, c = np.arange(10, dtype=np.float32), np.ones(10, np.float32)
    a = np.zeros(10, np.float32)
    cpu_bandwidth.triad_part(a, b, c, np.empty(4, np.float32))
    assert a.tolist() == (b + 3).tolist()


def test_parts_cover_everything_once() -> None:
    pieces = cpu_bandwidth.parts(10, 3)
    assert [index for piece in pieces for index in range(10)[piece]] == list(range(10))


@pytest.mark.parametrize(
    ("llc", "available", "expected"),
    [(2**20, 2**40, 2**28), (300 * 2**20, 2**40, 1200 * 2**20), (300 * 2**20, 2**30, 2**28), (None, None, 2**28)],
)
def test_resolved_buffer(llc: int | None, available: int | None, expected: int) -> None:
    assert cpu_bandwidth.buffer_bytes(0, llc, available) == expected


def test_too_large_a_buffer_fails() -> None:
    with pytest.raises(Failed, match="quarter"):
        cpu_bandwidth.buffer_bytes(2**20, None, 2**21)


@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_gemm(bench: Bench, dtype: str) -> None:
    taken = cpu_peak_flops.measure(GEMM | {"dtype": dtype}, bench)
    lab, burst, sustained = taken.series
    assert (lab["name"], burst["name"], sustained["name"]) == ("lab", "burst", "sustained")
    assert lab["iterations_per_sample"] == 4
    assert 0 < lab["relative_error"] <= lab["tolerance"] or dtype == "fp64"
    assert len(burst["samples_s"]) == 3
    assert taken.shape == {"m": 48, "n": 48, "k": 48}


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_half_formats_are_unsupported(bench: Bench, dtype: str) -> None:
    with pytest.raises(Unsupported, match=dtype):
        cpu_peak_flops.measure(GEMM | {"dtype": dtype}, bench)
    with pytest.raises(Unsupported, match=dtype):
        cpu_decode_attn.measure(DECODE | {"dtype": dtype, "weights": SEEDED}, bench)


def test_gemm_beyond_its_tolerance_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cpu_peak_flops.TOLERANCES, "fp32", 1e-12)
    with pytest.raises(Failed, match="expected at most 1e-12"):
        cpu_peak_flops.measure(GEMM | {"dtype": "fp32"}, bench)


def test_gemm_with_a_nan_fails() -> None:
    a, b, c = cpu_peak_flops.operands(8, "fp64")
    c[:] = np.nan
    with pytest.raises(Failed, match="nan"):
        cpu_peak_flops.checked(a, b, c, 1.0)


def test_decode(bench: Bench) -> None:
    taken = cpu_decode_attn.measure(DECODE | {"weights": SEEDED}, bench)
    series = taken.series[0]
    assert series["samples_s"] == [1.0] * 5
    assert series["relative_error"] < 1e-6
    assert taken.shape == {"batch": 1, "query_heads": 4, "kv_heads": 2, "sequence": 24, "head_dim": 8}
    assert taken.details["weights_source"] == "generated, seed 0"


def test_a_wrong_decode_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_decode_attn, "decode_attention_into", lambda q, k, v, scores, out: out.fill(1))
    with pytest.raises(Failed, match="off by"):
        cpu_decode_attn.measure(DECODE | {"weights": SEEDED}, bench)


def test_decode_from_a_checkpoint(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    weights.save_weights(path, minigpt.seeded_weights(minigpt.geometry_of(**GEOMETRY), 5))
    bench.weights_path = str(path)
    taken = cpu_decode_attn.measure(DECODE | {"weights": {"sha256": weights.sha256_of(path)}}, bench)
    assert taken.details["weights_source"].startswith("checkpoint")


@pytest.mark.parametrize(
    ("named", "path", "message"),
    [
        ({"sha256": "0" * 64}, None, "no path"),
        ({"sha256": "0" * 64}, "other.npz", "expected 0000"),
        ({"sha256": "0" * 64}, "absent.npz", "cannot be used"),
        ({"seed": 0, "generator": 99}, None, "generator 99"),
    ],
)
def test_unusable_weights_stop_the_session(
    tmp_path: Path, named: dict[str, Any], path: str | None, message: str
) -> None:
    (tmp_path / "other.npz").write_bytes(b"other")
    with pytest.raises(NotReady, match=message):
        cpu_decode_attn.load(named, minigpt.geometry_of(**GEOMETRY), str(tmp_path / path) if path else None)

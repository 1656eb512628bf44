"""The wrong machine is told before a second is spent: another model, a slice, another power limit, another host, company."""

import json
from pathlib import Path
from typing import Any

import pytest
from rooflab.machine import detect, locks, nvml
from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.outcome import Measurement
from rooflab.measure.station import Station
from rooflab.plan import measurements
from rooflab.record import handover, identity, records

GIB = 2**30
H200 = {
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "sm_count": 132,
    "memory_bytes": 140 * GIB,
    "mig": None,
    "power_limit_w": 700.0,
}
SLICE = {"name": "NVIDIA H200 MIG 1g.18gb", "sm_count": 16, "memory_bytes": 16 * GIB, "mig": "1g.18gb"}
HOST = {"name": "Some CPU", "cores_physical": 2, "threads": 2}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(locks, "host_lock", lambda name: tmp_path / f"{name}.lock")
    monkeypatch.delenv(handover.CARDS, raising=False)


def job(side: str, number: int = 1) -> program.Job:
    point = measurements.point("launch_floor", side, "launch_floor", warmups=1, iterations=10)
    return program.Job(point.spec, Path("results/nvidia-h200") / point.file(number))


def floor(spec: dict[str, Any], bench: Bench) -> Measurement:
    series = bench.sync_each(
        lambda: None, name="sync_each", implementation="x", warmups=1, iterations=spec["iterations"]
    )
    return Measurement(operator="empty_launch", series=[series])


def measured_twice(spec: dict[str, Any], bench: Bench) -> Measurement:
    pytest.fail("measured on the wrong machine")


def measure(side: str, device: dict[str, Any], number: int = 1, how: program.Measure = floor) -> Path:
    program.run(how, side, job(side, number), lambda: Station(Bench(), device))
    return job(side, number).out


@pytest.mark.parametrize(
    ("live", "told"),
    [
        (H200 | {"name": "NVIDIA H100 80GB HBM3"}, "name: NVIDIA H200 there, NVIDIA H100 80GB HBM3 here"),
        (H200 | SLICE, "mig: None there, 1g.18gb here"),
        (H200 | {"power_limit_w": 500.0}, "power_limit_w: 700.0 there, 500.0 here"),
        (H200 | {"sm_count": 114}, "sm_count: 132 there, 114 here"),
        (H200 | {"memory_bytes": 94 * GIB}, "memory: 140.0 GiB there, 94.0 GiB here"),
    ],
    ids=["model", "slice", "power limit", "SM count", "memory"],
)
def test_another_gpu_stops_before_it_measures(live: dict[str, Any], told: str) -> None:
    measure("gpu", H200)
    with pytest.raises(identity.WrongMachine, match="not the one of the session nvidia-h200") as error:
        measure("gpu", live, 2, measured_twice)
    assert told in str(error.value) and "--config session=nvidia-h200-2" in str(error.value)
    assert not job("gpu", 2).out.exists()


def test_another_card_of_the_model_goes_on_and_both_are_recorded() -> None:
    measure("gpu", H200)
    second = measure("gpu", H200 | {"uuid": "GPU-2", "memory_bytes": 141 * GIB}, 2)
    uuids = {records.read_record(path)["device"]["uuid"] for path in second.parent.glob("*.json")}
    assert uuids == {"GPU-1", "GPU-2"}


@pytest.mark.parametrize("limit", [699.99, 700.01, 705.0])
def test_a_power_limit_that_drifts_is_the_same_machine_and_the_change_is_told(limit: float) -> None:
    measure("gpu", H200)
    assert measure("gpu", H200 | {"power_limit_w": limit}, 2).exists()
    known = {path: records.read_record(path) for path in job("gpu").out.parent.glob("*.json")}
    assert identity.strangers("gpu", known) == []
    [told] = identity.drift(job("gpu").session_dir, "gpu", H200 | {"power_limit_w": 690.0})
    assert (
        told
        == f"the GPU's power limit was {', '.join(f'{each:g}' for each in sorted((700.0, limit)))} W before, 690 W here"
    )
    assert identity.drift(job("gpu").session_dir, "gpu", {"power_limit_w": None}) == []
    assert identity.drift(job("gpu").session_dir, "cpu", HOST) == []


@pytest.mark.parametrize("change", [{"name": "Other CPU"}, {"cores_physical": 4}, {"threads": 4}])
def test_another_host_spoils_the_cpu_part_of_a_gpu_session_alone(change: dict[str, Any]) -> None:
    measure("gpu", H200)
    measure("cpu", HOST)
    refused = records.read_record(measure("cpu", HOST | change, 2, measured_twice))
    assert refused["status"] == "failed" and "not the one of the session" in refused["reason"]
    assert records.read_record(measure("cpu", HOST, 3))["status"] == "measured"


def test_another_host_stops_a_cpu_session() -> None:
    measure("cpu", HOST)
    with pytest.raises(identity.WrongMachine):
        measure("cpu", HOST | {"cores_physical": 4}, 2, measured_twice)
    assert not job("cpu", 2).out.exists()


@pytest.mark.parametrize(
    ("gpu", "slug"),
    [
        ({"name": "NVIDIA H200", "mig": None}, "nvidia-h200"),
        ({"name": "NVIDIA H200", "mig": "1g.18gb"}, "nvidia-h200-mig-1g.18gb"),  # as NVML names a slice
        (SLICE, "nvidia-h200-mig-1g.18gb"),  # as CUDA names it
        ({"name": "NVIDIA H200 MIG 1g.18gb", "mig": None}, "nvidia-h200-mig-1g.18gb"),
        ({"name": "NVIDIA H200 MIG 1g.18gb+me", "mig": "1g.18gb+me"}, "nvidia-h200-mig-1g.18gb-me"),
    ],
)
def test_a_slice_has_one_name_whoever_names_it(gpu: dict[str, Any], slug: str) -> None:
    assert detect.gpu_slug(gpu) == slug
    identity.check_named(slug, detect.gpu_slug(gpu))


def test_a_slice_is_not_the_card_it_was_cut_from() -> None:
    with pytest.raises(identity.WrongMachine, match="this machine's GPU is nvidia-h200-mig-1g.18gb"):
        identity.check_named("nvidia-h200", detect.gpu_slug(SLICE))


def session_of_another_gpu(manifest: dict[str, Any] | None) -> Path:
    folder = Path("results/nvidia-h100")
    (folder / "gpu").mkdir(parents=True)
    if manifest is not None:
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder.parent


@pytest.mark.parametrize("manifest", [None, {"holes": [{"status": "missing"}]}], ids=["not drawn", "drawn half-way"])
def test_an_unfinished_session_of_another_gpu_opens_no_second_bill(
    manifest: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "list_gpus", lambda: [H200 | {"index": 0}])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    results = session_of_another_gpu(manifest)
    with pytest.raises(detect.DetectionError, match="nvidia-h100 is an unfinished session") as error:
        detect.chosen("auto", results)
    assert "--config device=nvidia-h200" in str(error.value) and "snakemake --cores 1 report" in str(error.value)


def test_a_finished_session_of_another_gpu_is_in_nobody_s_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "list_gpus", lambda: [H200 | {"index": 0}])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    results = session_of_another_gpu({"holes": [{"status": "unsupported"}]})
    assert detect.chosen("auto", results) == detect.Machine("nvidia-h200", True)

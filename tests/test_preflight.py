"""Before the first second is paid: what cannot work stops with a remedy, and what changes the numbers is recorded."""

import os
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rooflab.derive import evidence
from rooflab.machine import nvml, preflight
from rooflab.machine.faults import DeviceError
from rooflab.machine.preflight import FAIL, GIB, MIB, OK, WARN, Finding
from rooflab.measure import station
from rooflab.measure.cuda import gemm
from rooflab.measure.cuda import station as cuda_station
from rooflab.record import environment

Usage = namedtuple("Usage", "total used free")


def disk_with(monkeypatch: pytest.MonkeyPatch, free: int, inodes: int = 9) -> None:
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda folder: Usage(GIB, 0, free))
    monkeypatch.setattr(preflight.os, "statvfs", lambda folder: SimpleNamespace(f_files=100, f_favail=inodes))


@pytest.mark.parametrize(
    ("free", "inodes", "level"),
    [(GIB, 9, OK), (63 * MIB, 9, WARN), (100 << 10, 9, FAIL), (0, 9, FAIL), (GIB, 0, FAIL)],
)
def test_room_on_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, inodes: int, level: str) -> None:
    disk_with(monkeypatch, free, inodes)
    found = preflight.room("result", tmp_path)
    assert (found.level, found.topic) == (level, "disk")
    assert (found.remedy is None) == (level == OK)


def test_a_folder_that_cannot_be_written_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(preflight.os, "access", lambda folder, mode: False)
    found = preflight.room("result", tmp_path)
    assert found.level == FAIL and "cannot be written" in found.text and "writable" in (found.remedy or "")


def test_a_folder_that_is_not_there_yet_is_judged_by_its_parent(tmp_path: Path) -> None:
    assert preflight.nearest(tmp_path / "results" / "nvidia-h200") == tmp_path


def test_variables_that_change_numbers_are_told_without_their_values() -> None:
    found = preflight.variables({"LD_PRELOAD": "/home/someone/x.so"}, preflight.HOST_VARIABLES)
    assert [each.level for each in found] == [WARN]
    assert "LD_PRELOAD is set" in found[0].text and "someone" not in found[0].text
    assert found[0].remedy == "unset LD_PRELOAD"


@pytest.mark.parametrize("value", ["", "0"])
def test_a_variable_that_is_off_is_no_finding(value: str) -> None:
    assert preflight.gpu_variables({"CUDA_LAUNCH_BLOCKING": value, "CUBLASLT_LOG_LEVEL": value}) == []


def test_synchronous_launches_are_refused_and_the_rest_is_a_warning() -> None:
    found = preflight.gpu_variables({"CUDA_LAUNCH_BLOCKING": "1", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"})
    assert [(each.level, each.remedy) for each in found] == [
        (FAIL, "unset CUDA_LAUNCH_BLOCKING"),
        (WARN, "unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
    ]


def test_what_the_programs_unset_is_what_the_examination_says_they_unset() -> None:
    assert set(preflight.UNSET) == set(gemm.ARITHMETIC_VARIABLES)
    assert [each.level for each in preflight.unset_variables({"NVIDIA_TF32_OVERRIDE": "1"})] == [OK]


def test_the_values_of_these_variables_are_recorded_unless_they_are_paths() -> None:
    paths = {"LD_PRELOAD", "CUDA_INJECTION64_PATH", "CUDA_MPS_PIPE_DIRECTORY"}
    told = {*preflight.REFUSED, *preflight.GPU_VARIABLES, *preflight.HOST_VARIABLES} - paths
    assert told <= set(environment.VARIABLES)
    assert not paths & set(environment.VARIABLES)


def others(count: int | None, memory: int | None = None, pids: list[int] | None = None) -> dict[str, Any]:
    return {"count": count, "memory_bytes": memory, "pids": pids}


def test_another_process_on_the_gpu_stops_the_measurement_unless_the_user_wants_it() -> None:
    found = preflight.sharing(others(2, 3 * GIB, [11, 12]), allowed=False)
    assert found.level == FAIL
    assert "2 other process(es) use this GPU (pid 11, 12; 3.0 GiB held)" in found.text
    assert "--config allow_shared_gpu=true" in (found.remedy or "")
    assert preflight.sharing(others(2), allowed=True).level == WARN
    assert preflight.sharing(others(0), allowed=False).level == OK
    assert preflight.sharing(others(None), allowed=False).level == WARN


@pytest.mark.parametrize(
    ("free", "total", "level"),
    [(139, 140, OK), (120, 140, WARN), (6, 8, OK), (5, 8, WARN), (0.1, 8, FAIL)],
)
def test_memory_that_others_hold(free: float, total: float, level: str) -> None:
    assert preflight.gpu_memory(int(free * GIB), int(total * GIB)).level == level


def test_a_chip_that_is_held_back_is_said_to_be() -> None:
    facts = {"power_limit_enforced_w": 350.0, "power_limit_default_w": 700.0}
    reasons = ["hw_thermal_slowdown", "applications_clocks_setting", "sw_power_cap"]
    told = "\n".join(each.text for each in preflight.chip(facts, {"throttle_reasons": reasons}))
    assert "(hw_thermal_slowdown)" in told and "350 W, its default 700 W" in told and "clocks were limited" in told
    unknown = {"power_limit_enforced_w": {"unavailable": "not supported"}, "power_limit_default_w": 700.0}
    assert preflight.chip(unknown, {"throttle_reasons": None}) == []


def test_a_failure_stops_and_warnings_are_handed_on() -> None:
    fine, warned = Finding(OK, "x", "fine"), Finding(WARN, "x", "careful", "do this")
    assert preflight.required([fine, warned]) == ["careful"]
    with pytest.raises(preflight.NotReady, match="broken\n  what to do: mend it"):
        preflight.required([warned, Finding(FAIL, "x", "broken", "mend it")])


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/someone/cuda/lib/libcublas.so.12", "~/cuda/lib/libcublas.so.12"),
        ("/Users/someone", "~"),
        ("/root/x", "~/x"),
        ("/homestead/x", "/homestead/x"),
        ("/usr/lib/libcuda.so.1", "/usr/lib/libcuda.so.1"),
    ],
)
def test_paths_do_not_name_anyone(path: str, shown: str) -> None:
    assert preflight.private(path) == shown


def test_the_report_ends_with_the_verdict_and_says_what_to_do() -> None:
    good = preflight.report([Finding(OK, "disk", "room"), Finding(WARN, "cpu", "busy", "wait")])
    assert good.rstrip().endswith("0 failure(s), 1 warning(s). Ready to measure.")
    assert "what to do: wait" in good and not preflight.says_not_ready(good)
    bad = preflight.report([Finding(FAIL, "cuda", "no driver", "install it")])
    assert "1 failure(s)" in bad.splitlines()[-1] and preflight.says_not_ready(bad)


def test_a_full_disk_stops_a_program_before_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    disk_with(monkeypatch, 0)
    with pytest.raises(preflight.NotReady, match="full disk"):
        station.open_station(station.open_cpu_station)


def test_warnings_enter_the_record_s_environment_and_the_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    warnings = station.open_station(station.open_cpu_station).environment["warnings"]
    assert warnings == ["OPENBLAS_CORETYPE is set: it fixes the kernels of the CPU's BLAS"]
    record = {
        "side": "cpu", "stage": "gemm", "name": "fp32-n64", "series": [], "device": {"name": "x"},
        "environment": {"warnings": warnings},
    }  # fmt: skip
    clean = record | {"environment": {"warnings": []}}
    told = evidence.notes({"a.json": record, "b.json": record, "c.json": clean}, [])
    assert told == [{"code": "warned", "values": {"side": "cpu", "text_of_it": warnings[0], "count": 2}}]


class FakeChip:
    def device_facts(self) -> dict[str, Any]:
        return {
            "power_limit_enforced_w": 700.0,
            "power_limit_default_w": 700.0,
            "uuid": "GPU-1",
            "driver_version": "580",
        }

    def gauges(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"throttle_reasons": ["hw_slowdown"]}


class FakeDevice:
    def __init__(self, free: int = 139 * GIB) -> None:
        self.free = free

    def properties(self) -> dict[str, Any]:
        return {
            "name": "NVIDIA H200", "uuid": "GPU-1", "pci_bus_id": "0000:1b:00.0", "sm_count": 132,
            "memory_bytes": 140 * GIB, "compute_capability": "9.0",
        }  # fmt: skip

    def versions(self) -> dict[str, Any]:
        return {"cupy": "14.2.0", "cuda_runtime": 13020, "cuda_driver": 13000, "cublas": 130100, "nvrtc": "13.0"}

    def memory(self) -> tuple[int, int]:
        return self.free, 140 * GIB

    def synchronize(self) -> None: ...

    def free_pool(self) -> None: ...


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A GPU that opens, with nothing beside this program on it."""
    for name in [*preflight.GPU_VARIABLES, *preflight.REFUSED, "ROOFLAB_DEVICE", "ROOFLAB_ALLOW_SHARED_GPU"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nvml, "list_gpus", lambda: [])
    monkeypatch.setattr(cuda_station, "other_processes", lambda: others(0))
    monkeypatch.setattr(cuda_station, "open_device", FakeDevice)
    monkeypatch.setattr(cuda_station, "CudaStamps", lambda device: None)
    monkeypatch.setattr(nvml, "Nvml", lambda key: FakeChip())
    return monkeypatch


def test_the_gpu_s_warnings_are_recorded(gpu: pytest.MonkeyPatch) -> None:
    gpu.setenv("ROOFLAB_ALLOW_SHARED_GPU", "1")
    gpu.setattr(cuda_station, "other_processes", lambda: others(3))
    known = cuda_station.open_cuda_station(None).environment
    assert known["other_processes"] == 3 and known["driver"] == "580"
    assert ["beside other processes" in text or "slowed down" in text for text in known["warnings"]] == [True, True]


def test_without_nvml_the_opened_gpu_is_refused_with_a_remedy(gpu: pytest.MonkeyPatch) -> None:
    def refuse(key: str) -> None:
        raise nvml.NvmlError("NVML cannot be used: RM has detected an NVML/RM version mismatch.")

    gpu.setattr(nvml, "Nvml", refuse)
    with pytest.raises(DeviceError, match="version mismatch.*\n  what to do: .*reboot"):
        cuda_station.open_cuda_station(None)


@pytest.mark.parametrize("name", ["CUDA_LAUNCH_BLOCKING", "others"])
def test_what_can_be_known_before_cuda_is_opened_stops_before_it(gpu: pytest.MonkeyPatch, name: str) -> None:
    opened: list[bool] = []
    gpu.setattr(cuda_station, "open_device", lambda: opened.append(True))
    gpu.setenv(name, "1")
    gpu.setattr(cuda_station, "other_processes", lambda: others(int(name == "others")))
    with pytest.raises(DeviceError):
        cuda_station.open_cuda_station(None)
    assert opened == []


def test_a_gpu_without_free_memory_is_refused(gpu: pytest.MonkeyPatch) -> None:
    gpu.setattr(cuda_station, "open_device", lambda: FakeDevice(free=10 * MIB))
    with pytest.raises(preflight.NotReady, match=r"0\.0 of 140\.0 GiB"):
        cuda_station.open_cuda_station(None)


def test_the_processes_are_those_of_the_gpu_that_cuda_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(nvml, "list_gpus", lambda: [{"index": i, "uuid": f"GPU-{i}", "mig": None} for i in range(2)])
    monkeypatch.setattr(nvml, "Nvml", lambda key: asked.append(key) or SimpleNamespace(processes=lambda: others(1)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert cuda_station.other_processes(patience_s=0)["count"] == 1
    assert asked == ["GPU-1"]


def test_a_program_that_has_just_ended_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOFLAB_ALLOW_SHARED_GPU", raising=False)
    answers = [2, 1, 0]
    monkeypatch.setattr(nvml, "list_gpus", lambda: [{"index": 0, "uuid": "GPU-0", "mig": None}])
    monkeypatch.setattr(nvml, "Nvml", lambda key: SimpleNamespace(processes=lambda: others(answers.pop(0))))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert cuda_station.other_processes()["count"] == 0
    answers = [1, 0]
    assert cuda_station.other_processes(patience_s=0)["count"] == 1


def test_the_cheap_part_costs_less_than_50_ms() -> None:
    begin = time.perf_counter()
    preflight.required([*preflight.host(), *preflight.gpu_variables(os.environ), preflight.sharing(others(0), False)])
    assert time.perf_counter() - begin < 0.05

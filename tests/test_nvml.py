"""NVML, faked: the report is complete whatever the driver refuses, and devices are chosen as CUDA chooses them."""

import json
import os
import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rooflab.machine import nvml, visible

PCI = "00000000:1B:00.0"
UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER = "GPU-99999999-2222-3333-4444-555555555555"

ANSWERS: dict[str, Any] = {
    "nvmlInit": None,
    "nvmlDeviceGetCount": 1,
    "nvmlDeviceGetHandleByIndex": "handle",
    "nvmlDeviceGetHandleByUUID": "handle",
    "nvmlDeviceGetHandleByPciBusId": "handle",
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetUUID": UUID,
    "nvmlDeviceGetPciInfo": SimpleNamespace(busId=PCI.encode()),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=150_000_000_000, free=149_000_000_000),
    "nvmlDeviceGetMigMode": (0, 0),
    "nvmlDeviceGetMaxMigDeviceCount": 0,
    "nvmlDeviceGetMigDeviceHandleByIndex": "slice",
    "nvmlDeviceGetMemoryBusWidth": 6016,
    "nvmlDeviceGetNumGpuCores": 16896,
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetClockInfo": 1980,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetApplicationsClock": 1980,
    "nvmlDeviceGetEccMode": (1, 1),
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetVirtualizationMode": 1,
    "nvmlDeviceGetVbiosVersion": "96.00",
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlSystemGetDriverVersion": "580.65.06",
    "nvmlSystemGetCudaDriverVersion_v2": 13000,
    "nvmlDeviceGetComputeRunningProcesses": [
        SimpleNamespace(pid=os.getpid(), usedGpuMemory=5),
        SimpleNamespace(pid=1, usedGpuMemory=7),
    ],
    "nvmlDeviceGetPowerUsage": 412_500,
    "nvmlDeviceGetTemperature": 41,
    "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37),
    "nvmlDeviceGetTotalEnergyConsumption": 5_000,
}
CALLS = [name for name in ANSWERS if name not in ("nvmlInit", "nvmlDeviceGetHandleByUUID")]


class NotSupported(Exception):
    """What pynvml raises, for this test's purposes."""


def fake(
    monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...] = (), absent: tuple[str, ...] = (), **other: Any
) -> None:
    """A pynvml that answers, refuses, or does not have a function."""
    module: Any = ModuleType("pynvml")
    module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM, module.NVML_TEMPERATURE_GPU = 1, 2, 0
    for name, answer in {**ANSWERS, **other}.items():
        if name in absent:
            continue

        def function(*arguments: Any, name: str = name, answer: Any = answer) -> Any:
            if name in refused:
                raise NotSupported(f"{name} not supported")
            return answer(*arguments) if callable(answer) else answer

        setattr(module, name, function)
    monkeypatch.setitem(sys.modules, "pynvml", module)


def test_a_complete_report(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch)
    gpu = nvml.Nvml(UUID)
    facts, state = gpu.device_facts(), gpu.state()
    assert (facts["name"], facts["pci_bus_id"], facts["compute_capability"]) == ("NVIDIA H200", PCI, "9.0")
    assert (facts["max_sm_clock_hz"], facts["memory_bus_bits"]) == (1_980_000_000, 6016)
    assert (facts["power_limit_enforced_w"], facts["virtualization"]) == (700.0, "passthrough")
    assert (facts["cuda_driver_version"], facts["ecc_enabled"]) == ("13.0", True)
    assert (state["sm_clock_hz"], state["utilization"]) == (1_980_000_000, 0.37)
    assert "power_w" not in state  # the driver's average over a second says nothing of a burst
    assert (state["throttle_bits"], state["throttle_reasons"]) == (4, ["sw_power_cap"])
    assert gpu.processes() == {"count": 1, "memory_bytes": 7, "pids": [1]}
    json.dumps([facts, state])


@pytest.mark.parametrize("failure", ["refused", "absent"])
@pytest.mark.parametrize("call", CALLS)
def test_one_failing_call_costs_only_its_own_answer(monkeypatch: pytest.MonkeyPatch, call: str, failure: str) -> None:
    fake(monkeypatch)
    whole = nvml.Nvml(UUID)
    facts, state = whole.device_facts(), whole.state()
    fake(monkeypatch, **{failure: (call,)})
    part = nvml.Nvml(UUID)
    part_facts, part_state = part.device_facts(), part.state()
    assert part_facts.keys() == facts.keys()
    assert part_state.keys() == state.keys()
    lost = {name for name in facts if part_facts[name] != facts[name]}
    assert all(part_facts[name]["unavailable"] for name in lost)
    assert len(lost) + sum(part_state[name] is None for name in state) <= 4
    assert set(part.processes()) == {"count", "memory_bytes", "pids"}


def test_everything_refused_is_still_a_report(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, refused=tuple(CALLS))
    gpu = nvml.Nvml(UUID)
    assert all("not supported" in answer["unavailable"] for answer in gpu.device_facts().values())
    assert set(gpu.state().values()) == {None}
    assert gpu.processes() == {"count": None, "memory_bytes": None, "pids": None}


def test_an_old_driver_has_only_the_old_name_of_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, absent=("nvmlDeviceGetCurrentClocksEventReasons",), nvmlDeviceGetCurrentClocksThrottleReasons=0x8)
    assert nvml.Nvml(UUID).state()["throttle_reasons"] == ["hw_slowdown"]


def test_no_reason_is_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, nvmlDeviceGetCurrentClocksEventReasons=0)
    assert nvml.Nvml(UUID).state()["throttle_bits"] == 0
    assert nvml.Nvml(UUID).state()["throttle_reasons"] == []


def test_unknown_reasons_are_named_by_their_bit() -> None:
    assert nvml.decode_reasons(0x24) == ["sw_power_cap", "sw_thermal_slowdown"]
    assert nvml.decode_reasons(0x1000_0000_0001) == ["gpu_idle", "unknown 0x100000000000"]


def test_the_device_is_found_by_pci_bus_id_too_and_an_unknown_one_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    fake(monkeypatch, nvmlDeviceGetHandleByPciBusId=lambda key: asked.append(key) or "handle")
    nvml.Nvml(PCI)
    assert asked == [PCI]
    fake(monkeypatch, refused=("nvmlDeviceGetHandleByUUID",))
    with pytest.raises(nvml.NvmlError, match="does not know the GPU GPU-1111") as caught:
        nvml.Nvml(UUID)
    assert "nvidia-smi -L" in caught.value.remedy


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("No module named 'pynvml'", "make setup"),
        ("RM has detected an NVML/RM version mismatch.", "reboot"),
        ("NVML Shared Library Not Found", "--gpus all"),
        ("Driver Not Loaded", "modprobe nvidia"),
        ("Insufficient Permissions", "/dev/nvidia"),
        ("GPU is lost", "Xid"),
        ("Unknown Error", "start it again"),
        ("something new", "nvidia-smi, then dmesg"),
    ],
)
def test_each_refusal_of_nvml_has_its_remedy(monkeypatch: pytest.MonkeyPatch, said: str, remedy: str) -> None:
    def refuse() -> None:
        raise NotSupported(said)

    fake(monkeypatch, nvmlInit=refuse)
    with pytest.raises(nvml.NvmlError, match=re.escape(said)) as caught:
        nvml.list_gpus()
    assert remedy in caught.value.remedy


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetCount"])
def test_no_nvml_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    fake(monkeypatch, refused=(broken,))
    with pytest.raises(nvml.NvmlError, match="not supported"):
        nvml.list_gpus()


def test_no_pynvml_is_the_same_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(nvml.NvmlError, match="NVML cannot be used"):
        nvml.list_gpus()


def test_gpus_are_listed_with_what_the_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, refused=("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode"))
    expected = {"index": 0, "name": "NVIDIA H200", "uuid": UUID, "pci_bus_id": PCI, "memory_bytes": None, "mig": None}
    assert nvml.list_gpus() == [expected]


def test_a_divided_gpu_is_listed_as_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"slice": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "handle": "NVIDIA A100-SXM4-40GB"}
    fake(
        monkeypatch,
        nvmlDeviceGetMigMode=(1, 1),
        nvmlDeviceGetMaxMigDeviceCount=1,
        nvmlDeviceGetName=lambda handle: names[handle],
        nvmlDeviceGetUUID=lambda handle: {"slice": "MIG-aaaa", "handle": UUID}[handle],
    )
    (gpu,) = nvml.list_gpus()
    assert (gpu["name"], gpu["mig"], gpu["uuid"]) == ("NVIDIA A100-SXM4-40GB", "1g.5gb", "MIG-aaaa")


def gpu(index: int, uuid: str, mig: str | None = None) -> nvml.Gpu:
    return {"index": index, "name": "x", "uuid": uuid, "pci_bus_id": None, "memory_bytes": None, "mig": mig}


PAIR = [gpu(0, UUID), gpu(1, OTHER)]


@pytest.mark.parametrize(
    ("variable", "uuids"),
    [
        (None, [UUID, OTHER]),
        ("0,1", [UUID, OTHER]),
        ("1, 0", [OTHER, UUID]),
        ("1", [OTHER]),
        ("", []),
        ("-1", []),
        ("1,-1,0", [OTHER]),
        ("0,7,1", [UUID]),
        ("0,0", []),
        ("GPU-9", [OTHER]),
        (UUID, [UUID]),
        ("GPU-", []),
        ("none", []),
    ],
)
def test_visible_devices_follow_cuda(variable: str | None, uuids: list[str]) -> None:
    assert [found["uuid"] for found in visible.visible(PAIR, variable)] == uuids


def test_cuda_shows_one_slice_of_a_divided_gpu() -> None:
    slices = [gpu(0, "MIG-a", "1g.5gb"), gpu(0, "MIG-b", "1g.5gb")]
    assert visible.visible(slices, None) == slices[:1]
    assert visible.visible(slices, "MIG-b") == slices[1:]

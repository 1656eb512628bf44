"""What the NVIDIA driver says of its GPUs through NVML: which there are, what they are, and the state they are in.

Every question is asked by itself: a MIG slice, a virtual GPU, an old driver or an old pynvml refuses some, and the
answers to the others stay complete. NVML orders GPUs by PCI bus, shows all of them and knows nothing of
CUDA_VISIBLE_DEVICES (`visible` does); a device opened with CUDA is found here by its UUID or PCI bus id, never by its index.
"""

import importlib
import os
from collections.abc import Callable
from typing import Any

from rooflab.machine.nvml_error import NvmlError

MEGA = 1_000_000

# Bits of nvmlClocksEventReasons: NVIDIA, NVML API reference.
THROTTLE_REASONS = {
    0x1: "gpu_idle",
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
VIRTUALIZATION_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}

Gpu = dict[str, Any]
__all__ = ["Gpu", "Nvml", "NvmlError", "decode_reasons", "list_gpus"]


def decode_reasons(bits: int) -> list[str]:
    """Names of the throttle reasons set in `bits`; a bit without a name becomes "unknown 0x...", never an error."""
    single = (1 << position for position in range(bits.bit_length()))
    return [THROTTLE_REASONS.get(bit, f"unknown {bit:#x}") for bit in single if bits & bit]


def list_gpus() -> list[Gpu]:
    """Every GPU of the machine, and of a GPU that is divided each MIG slice instead of it.

    Each: index (NVML's, of the GPU), name, uuid, pci_bus_id, memory_bytes, mig (the slice's profile, or None); what the
    driver refuses is None. Raises NvmlError where there is no NVML.
    """
    nv = _library()
    count = _ask(nv.nvmlDeviceGetCount)
    if isinstance(count, dict):
        raise NvmlError(f"NVML does not say how many GPUs there are: {count['unavailable']}")
    found = []
    for index in range(count):
        handle = _value(nv, "nvmlDeviceGetHandleByIndex", index)
        if handle is not None:
            found += _slices(nv, handle, index) or [_identity(nv, handle, index, None)]
    return found


def _identity(nv: Any, handle: Any, index: int, mig: str | None) -> Gpu:
    memory = _value(nv, "nvmlDeviceGetMemoryInfo", handle)
    pci = _value(nv, "nvmlDeviceGetPciInfo", handle)
    return {
        "index": index,
        "name": _text(_value(nv, "nvmlDeviceGetName", handle)),
        "uuid": _text(_value(nv, "nvmlDeviceGetUUID", handle)),
        "pci_bus_id": _text(pci.busId) if pci is not None else None,
        "memory_bytes": int(memory.total) if memory is not None else None,
        "mig": mig,
    }


def _slices(nv: Any, handle: Any, index: int) -> list[Gpu]:
    """The MIG slices of a GPU; empty where MIG is off or not there. The profile is what follows "MIG" in their name."""
    mode = _value(nv, "nvmlDeviceGetMigMode", handle)
    if not mode or not mode[0]:
        return []
    found = []
    for position in range(_value(nv, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
        part = _value(nv, "nvmlDeviceGetMigDeviceHandleByIndex", handle, position)
        if part is not None:
            identity = _identity(nv, part, index, "unknown")
            name, _, profile = (identity["name"] or "").partition(" MIG ")
            found.append({**identity, "name": name or None, "mig": profile or "unknown"})
    return found


class Nvml:
    """NVML's view of one GPU."""

    def __init__(self, uuid_or_pci_bus_id: str) -> None:
        """Raises NvmlError where there is no NVML or it does not know the GPU."""
        self._nv = _library()
        key = uuid_or_pci_bus_id
        by_uuid = key.startswith(("GPU-", "MIG-"))
        find = self._nv.nvmlDeviceGetHandleByUUID if by_uuid else self._nv.nvmlDeviceGetHandleByPciBusId
        try:
            self._handle = find(key)
        except Exception as error:
            raise NvmlError(f"NVML does not know the GPU {key}: {_reason(error)}") from error

    def device_facts(self) -> dict[str, Any]:
        """What the GPU is and how it is set up, SI units; {"unavailable": reason} for each fact that is refused."""
        return {name: _ask(question, self._nv, self._handle) for name, question in _FACTS.items()}

    def state(self) -> dict[str, Any]:
        """What the GPU does now; None for what is refused. `throttle_bits` and `throttle_reasons` tell the same.

        energy_j counts since the driver was loaded: watts are the difference of two readings over a second or more.
        """
        answers = {name: _ask(question, self._nv, self._handle) for name, question in _STATE.items()}
        answers = {name: None if isinstance(answer, dict) else answer for name, answer in answers.items()}
        bits = answers["throttle_bits"]
        return {**answers, "throttle_reasons": None if bits is None else decode_reasons(bits)}

    def gauges(self) -> dict[str, float | None]:
        """Temperature and energy alone, quick enough to be asked between two blocks; None for what is refused."""
        answers = {name: _ask(_STATE[name], self._nv, self._handle) for name in ("temperature_c", "energy_j")}
        return {name: None if isinstance(answer, dict) else answer for name, answer in answers.items()}

    def processes(self) -> dict[str, Any]:
        """Compute processes on the GPU other than this one: count, the memory they hold and their numbers, None where
        refused.

        In a container the driver may show this process under another number: ask before opening the device.
        """
        running = _value(self._nv, "nvmlDeviceGetComputeRunningProcesses", self._handle)
        if running is None:
            return {"count": None, "memory_bytes": None, "pids": None}
        others = [process for process in running if process.pid != os.getpid()]
        memory = [process.usedGpuMemory for process in others]
        return {
            "count": len(others),
            "memory_bytes": None if None in memory else sum(memory),
            "pids": [process.pid for process in others],
        }


def _clock(kind: str) -> Callable[[Any, Any], int]:
    return lambda nv, handle: nv.nvmlDeviceGetClockInfo(handle, getattr(nv, kind)) * MEGA


def _max_clock(kind: str) -> Callable[[Any, Any], int]:
    return lambda nv, handle: nv.nvmlDeviceGetMaxClockInfo(handle, getattr(nv, kind)) * MEGA


def _throttle_bits(nv: Any, handle: Any) -> int:
    """Drivers and bindings before 535 call it throttle reasons."""
    bits = _value(nv, "nvmlDeviceGetCurrentClocksEventReasons", handle)
    return int(nv.nvmlDeviceGetCurrentClocksThrottleReasons(handle) if bits is None else bits)


_STATE: dict[str, Callable[[Any, Any], Any]] = {
    "sm_clock_hz": _clock("NVML_CLOCK_SM"),
    "memory_clock_hz": _clock("NVML_CLOCK_MEM"),
    "temperature_c": lambda nv, handle: nv.nvmlDeviceGetTemperature(handle, nv.NVML_TEMPERATURE_GPU),
    "throttle_bits": _throttle_bits,
    "utilization": lambda nv, handle: nv.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
    "energy_j": lambda nv, handle: nv.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000,
}

_FACTS: dict[str, Callable[[Any, Any], Any]] = {
    "name": lambda nv, handle: _text(nv.nvmlDeviceGetName(handle)),
    "uuid": lambda nv, handle: _text(nv.nvmlDeviceGetUUID(handle)),
    "pci_bus_id": lambda nv, handle: _text(nv.nvmlDeviceGetPciInfo(handle).busId),
    "memory_bytes": lambda nv, handle: int(nv.nvmlDeviceGetMemoryInfo(handle).total),
    "memory_free_bytes": lambda nv, handle: int(nv.nvmlDeviceGetMemoryInfo(handle).free),
    "memory_bus_bits": lambda nv, handle: int(nv.nvmlDeviceGetMemoryBusWidth(handle)),
    "cuda_cores": lambda nv, handle: int(nv.nvmlDeviceGetNumGpuCores(handle)),
    "compute_capability": lambda nv, handle: ".".join(map(str, nv.nvmlDeviceGetCudaComputeCapability(handle))),
    "max_sm_clock_hz": _max_clock("NVML_CLOCK_SM"),
    "max_memory_clock_hz": _max_clock("NVML_CLOCK_MEM"),
    "application_sm_clock_hz": lambda nv, handle: nv.nvmlDeviceGetApplicationsClock(handle, nv.NVML_CLOCK_SM) * MEGA,
    "ecc_enabled": lambda nv, handle: bool(nv.nvmlDeviceGetEccMode(handle)[0]),
    "power_limit_enforced_w": lambda nv, handle: nv.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
    "power_limit_default_w": lambda nv, handle: nv.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
    "mig_enabled": lambda nv, handle: bool(nv.nvmlDeviceGetMigMode(handle)[0]),
    "persistence_enabled": lambda nv, handle: bool(nv.nvmlDeviceGetPersistenceMode(handle)),
    "compute_mode": lambda nv, handle: _name(COMPUTE_MODES, nv.nvmlDeviceGetComputeMode(handle)),
    "virtualization": lambda nv, handle: _name(VIRTUALIZATION_MODES, nv.nvmlDeviceGetVirtualizationMode(handle)),
    "vbios_version": lambda nv, handle: _text(nv.nvmlDeviceGetVbiosVersion(handle)),
    "pcie_generation": lambda nv, handle: int(nv.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
    "pcie_lanes": lambda nv, handle: int(nv.nvmlDeviceGetCurrPcieLinkWidth(handle)),
    "driver_version": lambda nv, handle: _text(nv.nvmlSystemGetDriverVersion()),
    "cuda_driver_version": lambda nv, handle: _release(nv.nvmlSystemGetCudaDriverVersion_v2()),
    "compute_processes": lambda nv, handle: len(nv.nvmlDeviceGetComputeRunningProcesses(handle)),
}


def _library() -> Any:
    """pynvml, initialised (NVML counts initialisations, and one more does no harm)."""
    try:
        nv = importlib.import_module("pynvml")
        nv.nvmlInit()
    except Exception as error:
        raise NvmlError(f"NVML cannot be used: {_reason(error)}") from error
    return nv


def _ask(question: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return question(*arguments)
    except Exception as error:
        return {"unavailable": _reason(error)}


def _value(nv: Any, function: str, *arguments: Any) -> Any:
    """The answer to one question, None where it is refused or this pynvml does not know it."""
    try:
        return getattr(nv, function)(*arguments)
    except Exception:
        return None


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _text(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _name(names: dict[int, str], value: int) -> str:
    return names.get(value, f"unknown {value}")


def _release(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"

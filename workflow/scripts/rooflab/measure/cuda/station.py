"""The GPU as a station: opened once per program, its identity from CUDA, its state from NVML."""

import os
import time
from typing import Any

from rooflab.machine import locks, nvml, preflight
from rooflab.machine.detect import gpu_slug
from rooflab.machine.faults import DeviceError
from rooflab.machine.visible import SHOWN, visible
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.device import CudaDevice, open_device
from rooflab.measure.cuda.gemm import neutralise_tf32_environment
from rooflab.measure.cuda.stamps import CudaStamps
from rooflab.measure.station import Station
from rooflab.record import handover
from rooflab.record.identity import check_named

# A program that has just ended is listed until the driver has taken its memory back.
PATIENCE_S = 2.0


def open_cuda_station(weights_path: str | None) -> Station:
    """Raises DeviceError where the GPU cannot be used, or another process uses it and that was not allowed."""
    variables = neutralise_tf32_environment()
    others = other_processes()
    warnings = preflight.required([*preflight.gpu_variables(os.environ), preflight.sharing(others, shared_allowed())])
    device = open_device()
    properties = device.properties()
    chip = open_nvml(properties["pci_bus_id"])
    facts = chip.device_facts()
    identity = _identity(properties, chip)
    check_named(handover.text(handover.DEVICE), gpu_slug(identity))
    memory = preflight.gpu_memory(*device.memory())
    warnings += preflight.required([memory, *preflight.chip(facts, chip.state())])
    environment = {
        "gpu": device.versions(),
        "driver": _known(facts["driver_version"]),
        "arithmetic_variables_unset": variables,
        "other_processes": others["count"],
        "warnings": warnings,
    }
    bench = Bench(
        synchronize=device.synchronize,
        state=chip.state,
        gauges=chip.gauges,
        stamps=CudaStamps(device),
        device=device,
        weights_path=weights_path,
    )
    return Station(
        bench,
        identity,
        environment,
        (locks.host_lock(f"gpu-{identity['uuid'] or properties['pci_bus_id']}"),),
        "close the programs that hold this GPU's memory (nvidia-smi lists them), then run the same command again",
        device.free_pool,
        crowded=bool(others["count"]) or memory.level == preflight.WARN,
    )


def describe(device: CudaDevice) -> dict[str, Any]:
    """Everything CUDA and NVML say of the device, flat: CUDA where both answer; a refused fact is None."""
    properties = device.properties()
    facts = nvml.Nvml(properties["pci_bus_id"]).device_facts()
    refused = {name: fact["unavailable"] for name, fact in facts.items() if isinstance(fact, dict)}
    known = {name: _known(fact) for name, fact in facts.items()}
    return known | {k: v for k, v in properties.items() if v is not None} | {"refused": refused}


def _known(fact: Any) -> Any:
    return None if isinstance(fact, dict) else fact


def _identity(properties: dict[str, Any], chip: nvml.Nvml) -> dict[str, Any]:
    facts = chip.device_facts()
    uuid = properties["uuid"] or _known(facts["uuid"])
    shown = visible(nvml.list_gpus(), os.environ.get(SHOWN))
    return {
        "name": properties["name"],
        "uuid": uuid,
        "sm_count": properties["sm_count"],
        "memory_bytes": properties["memory_bytes"],
        "mig": shown[0]["mig"] if shown else None,
        "power_limit_w": _known(facts["power_limit_enforced_w"]),
    }


def open_nvml(pci_bus_id: str) -> nvml.Nvml:
    """NVML's view of the opened device. Raises DeviceError: without it no clock, power or throttling is known."""
    try:
        return nvml.Nvml(pci_bus_id)
    except nvml.NvmlError as error:
        raise DeviceError(f"CUDA opened the GPU, but {error}", error.remedy) from error


def other_processes(patience_s: float = PATIENCE_S) -> dict[str, Any]:
    """What else computes on the GPU this process will use (`Nvml.processes`); asked before it is opened."""
    give_up = time.monotonic() + (0.0 if shared_allowed() else patience_s)
    while (found := _listed_processes())["count"] and time.monotonic() < give_up:
        time.sleep(0.05)
    return found


def _listed_processes() -> dict[str, Any]:
    try:
        seen = visible(nvml.list_gpus(), os.environ.get(SHOWN))
        if seen:
            return nvml.Nvml(seen[0]["uuid"]).processes()
    except nvml.NvmlError:
        pass
    return {"count": None, "memory_bytes": None, "pids": None}


def shared_allowed() -> bool:
    """Whether the config lets other processes use the GPU during a measurement."""
    return bool(handover.text(handover.ALLOW_SHARED_GPU))

"""The GPU as a station: opened once per program, its identity from CUDA, its state from NVML."""

import os
from typing import Any

from rooflab import locks, nvml
from rooflab.cuda_device import CudaDevice, open_device
from rooflab.cuda_faults import DeviceError
from rooflab.cuda_gemm import neutralise_tf32_environment
from rooflab.detect import gpu_slug
from rooflab.identity import check_named
from rooflab.protocol import Bench
from rooflab.station import Station


def open_cuda_station(weights_path: str | None) -> Station:
    """Raises DeviceError where the GPU cannot be used, or another process uses it and that was not allowed."""
    variables = neutralise_tf32_environment()
    others = _other_processes()
    device = open_device()
    properties = device.properties()
    chip = nvml.Nvml(properties["pci_bus_id"])
    identity = _identity(properties, chip)
    check_named(os.environ.get("ROOFLAB_DEVICE", ""), gpu_slug(identity))
    environment = {"gpu": device.versions(), "arithmetic_variables_unset": variables, "other_processes": others}
    environment["driver"] = _known(chip.device_facts()["driver_version"])
    bench = Bench(synchronize=device.synchronize, state=chip.state, device=device, weights_path=weights_path)
    return Station(
        bench,
        identity,
        environment,
        (locks.host_lock(f"gpu-{identity['uuid'] or properties['pci_bus_id']}"),),
        "close the programs that hold this GPU's memory (nvidia-smi lists them), then run the same command again",
        device.free_pool,
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
    shown = nvml.visible(nvml.list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    return {
        "name": properties["name"],
        "uuid": uuid,
        "sm_count": properties["sm_count"],
        "memory_bytes": properties["memory_bytes"],
        "mig": shown[0]["mig"] if shown else None,
        "power_limit_w": _known(facts["power_limit_enforced_w"]),
    }


def _other_processes() -> int | None:
    """How many other processes compute on the GPU this one will use; asked before it is opened. None where refused."""
    try:
        seen = nvml.visible(nvml.list_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        count = nvml.Nvml(seen[0]["uuid"]).processes()["count"] if seen else None
    except nvml.NvmlError:
        return None
    if count and not os.environ.get("ROOFLAB_ALLOW_SHARED_GPU"):
        raise DeviceError(
            f"{count} other process(es) use this GPU: a measurement beside them would be wrong",
            "wait for them, or measure anyway with --config allow_shared_gpu=true (the records say so)",
        )
    return int(count) if count is not None else None

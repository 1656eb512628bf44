"""The GPU's part of the examination: CUDA is opened as a measurement would open it, and says what it found.

Nothing is timed; one small kernel is compiled and run.
"""

import importlib
import os

from rooflab.machine import preflight
from rooflab.machine.faults import loaded_libraries
from rooflab.machine.preflight import FAIL, OK, WARN, Finding
from rooflab.measure.cuda.cublaslt import open_library
from rooflab.measure.cuda.device import CudaDevice, DeviceError, open_device
from rooflab.measure.cuda.gemm import neutralise_tf32_environment
from rooflab.measure.cuda.station import open_nvml, other_processes, shared_allowed


def examine() -> list[Finding]:
    """Other processes, then CUDA, CuPy, its libraries and compiler, the memory and the chip. Never raises DeviceError."""
    os.environ["CUPY_CACHE_IN_MEMORY"] = "1"  # a kernel from CuPy's cache would say nothing of the compiler
    neutralise_tf32_environment()
    found = [preflight.sharing(other_processes(), shared_allowed())]
    try:
        device = open_device()
        open_library()
        found += _described(device)
    except DeviceError as error:
        found.append(Finding(FAIL, "cuda", error.message, error.remedy))
    return [*found, *_libraries()]


def _described(device: CudaDevice) -> list[Finding]:
    properties, versions = device.properties(), device.versions()
    chip = open_nvml(properties["pci_bus_id"])
    facts, state = chip.device_facts(), chip.state()
    cuda, runtime = (release(versions[name]) for name in ("cuda_driver", "cuda_runtime"))
    cupy = f"CuPy {versions['cupy']} is built with CUDA {runtime}"
    kind = f"compute capability {properties['compute_capability']}, {properties['sm_count']} SMs"
    return [
        Finding(OK, "gpu", f"{properties['name']}: {kind}, PCI {properties['pci_bus_id']}"),
        Finding(OK, "cuda", f"driver {facts['driver_version']}, which serves CUDA {cuda}; {cupy}"),
        Finding(OK, "compiler", "NVRTC {nvrtc} compiled a kernel for fp16, and it ran".format(**versions)),
        Finding(OK, "compiler", f"CUDA headers: {_headers()}"),
        preflight.gpu_memory(*device.memory()),
        *preflight.chip(facts, state),
        *_persistence(facts.get("persistence_enabled")),
    ]


def release(version: int) -> str:
    """A CUDA version as people write it: 13020 is 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _persistence(enabled: object) -> list[Finding]:
    if enabled is not False:
        return []
    text = "persistence mode is off: the driver is loaded anew by each program, which costs seconds"
    return [Finding(WARN, "gpu state", text, "nvidia-smi -pm 1 (root)")]


def _headers() -> str:
    """The folder that CuPy compiles with, as its own way of looking it up finds it."""
    try:
        found = importlib.import_module("cuda.pathfinder").find_nvidia_header_directory("cudart")
    except ImportError:
        return "not looked up (no cuda-pathfinder)"
    return preflight.private(found) if found else "the compiler's own"


def _libraries() -> list[Finding]:
    return [Finding(OK, "loaded", preflight.private(path)) for path in loaded_libraries()]

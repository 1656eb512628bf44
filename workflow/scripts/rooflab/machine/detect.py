"""What machine is this? Answered by the driver alone, without CuPy; a GPU that cannot be used is an error, never a CPU session."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflab.machine import host_cpu, nvml
from rooflab.machine.second_bill import strangers
from rooflab.machine.visible import SHOWN, in_cuda_order

PCI = Path("/sys/bus/pci/devices")
NVIDIA_VENDOR, AMD_VENDOR = "0x10de", "0x1002"
DISPLAY_CLASS, ACCELERATOR_CLASS = "0x03", "0x12"  # a data-centre card without an output is the latter


class DetectionError(Exception):
    """An NVIDIA device is there and cannot be used: what was seen and what to do."""


@dataclass(frozen=True)
class Machine:
    """The device to measure: its session's name, whether it is a GPU, and which card, where it was chosen here."""

    slug: str
    is_gpu: bool
    uuid: str | None = field(default=None, compare=False)


def slug(name: str) -> str:
    """A device's name as a folder: `NVIDIA H200` -> `nvidia-h200`."""
    plain = re.sub(r"\((r|tm)\)", "", name.lower())
    return re.sub(r"[^a-z0-9.]+", "-", plain).strip("-.")


def has_nvidia_hardware(pci: Path = PCI, dev: Path = Path("/dev")) -> bool:
    """Whether an NVIDIA display device is on the bus, or its device node is here."""
    if any(dev.glob("nvidia[0-9]*")):
        return True
    return _on_the_bus(pci, NVIDIA_VENDOR, DISPLAY_CLASS)


def not_measured(pci: Path = PCI) -> str | None:
    """That a GPU of another maker is here, which a CPU session must not pass over in silence; None where there is none."""
    if not _on_the_bus(pci, AMD_VENDOR, DISPLAY_CLASS, ACCELERATOR_CLASS):
        return None
    return "an AMD GPU is here and is not measured (CUDA alone is): what follows is a session of this machine's CPU"


def _on_the_bus(pci: Path, vendor: str, *classes: str) -> bool:
    devices = pci.iterdir() if pci.is_dir() else ()
    return any(_text(each / "vendor") == vendor and _text(each / "class").startswith(classes) for each in devices)


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def chosen(device: str, results: Path) -> Machine:
    """The machine of the config's `device`. Raises DetectionError."""
    if device == "cpu":
        return _cpu()
    if device != "auto":
        return Machine(device, not device.startswith("cpu-"))
    machine = _auto()
    if machine.is_gpu:
        _refuse_second_bill(machine, results)
    return machine


def _cpu() -> Machine:
    return Machine(f"cpu-{slug(str(host_cpu.identity()['name'] or 'unknown'))}", False)


def _auto() -> Machine:
    try:
        gpus = nvml.list_gpus()
    except nvml.NvmlError as error:
        if has_nvidia_hardware():
            raise DetectionError(
                f"this machine has an NVIDIA device that cannot be used: {error}. What to do: {error.remedy}. Or measure the "
                "CPU alone: snakemake --cores 1 --config device=cpu"
            ) from error
        return _cpu()
    seen = in_cuda_order(gpus, os.environ)
    if gpus and not seen:
        raise DetectionError(
            f"the driver lists {len(gpus)} GPU(s), but {SHOWN}={os.environ.get(SHOWN)!r} hides them: unset it, or give an "
            "index or UUID it has"
        )
    if not seen:
        return _cpu()
    return Machine(gpu_slug(seen[0]), True, seen[0]["uuid"])


def gpu_slug(gpu: Mapping[str, Any]) -> str:
    """The session's name of a GPU: its name, and the profile of a MIG slice, which CUDA makes part of the name and NVML does not."""
    name, _, profile = str(gpu["name"]).partition(" MIG ")
    profile = gpu.get("mig") or profile
    return slug(f"{name}-mig-{profile}" if profile else name)


def _refuse_second_bill(machine: Machine, results: Path) -> None:
    for name in strangers({machine.slug}, results):
        raise DetectionError(
            f"results/{name} is an unfinished session of another GPU than this one ({machine.slug}). To begin a "
            f"session here: snakemake --cores 1 --config device={machine.slug}. To draw what exists of the other: "
            "snakemake --cores 1 report"
        )

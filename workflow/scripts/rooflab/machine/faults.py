"""Why a CUDA device cannot be used, as one message with its remedy; and the CUDA libraries this process has loaded.

Knows the texts of the errors, imports nothing of CUDA, so every failure can be explained (and tested) without a GPU.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

CUDA_LIBRARY = re.compile(r"lib(cublasLt|cublas|nvrtc|cudart|cuda)\.so[.\d]*$")
OLDEST_SERVED = 12000  # CUDA 12.0, driver 525: the oldest that a CuPy of this project runs on
CUPY = re.compile(r"cupy(-cuda\w+|-rocm[\w-]+)?")
CUDA_WHEEL = re.compile(r"nvidia-(cublas|cuda-nvrtc|cuda-runtime)(?:-cu(\d+))?")


class DeviceError(RuntimeError):
    """The device cannot be used: `message` says what was seen, `remedy` what to do."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}\n  what to do: {remedy}")
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True)
class Symptoms:
    """What is known when CUDA failed: the error's text, CUDA versions as 12090 (0: no driver, None: not known),
    CUDA_VISIBLE_DEVICES and NVIDIA_DRIVER_CAPABILITIES (None: not set), names of the CUDA libraries loaded."""

    error: str
    driver_version: int | None = None
    runtime_version: int | None = None
    visible_devices: str | None = None
    driver_capabilities: str | None = None
    libraries: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Fault:
    pattern: str
    message: str
    remedy: str


# In this order: the first pattern found in the error's text is its cause.
_FAULTS = (
    _Fault(
        r"cudaErrorSystemNotReady|\b802\b",
        "CUDA says the system is not ready (802): the GPU is there, but the NVLink fabric of this machine is not up",
        "start the fabric manager of the driver's version (systemctl start nvidia-fabricmanager), or ask the provider",
    ),
    _Fault(
        r"cudaErrorSystemDriverMismatch|\b803\b",
        "the driver's kernel module and its CUDA library are of two versions (803), as after an update",
        "reboot; in a container, start it again with the libraries of the machine's driver",
    ),
    _Fault(
        r"cudaErrorCompatNotSupportedOnDevice|\b804\b",
        "a CUDA compatibility library is in front of the driver's own, and this GPU does not support it (804)",
        "take the cuda-compat folder out of LD_LIBRARY_PATH, or use an image of a CUDA release that the driver serves",
    ),
    _Fault(
        r"cudaErrorECCUncorrectable",
        "the GPU's memory has an uncorrectable error (ECC): its results cannot be trusted",
        "reset the GPU or reboot (nvidia-smi -q -d ECC, dmesg), or ask the provider for another one",
    ),
    _Fault(
        r"undefined symbol.*cublas|cublas.*undefined symbol|CUBLAS_STATUS_INVALID_VALUE",
        "libcublas and libcublasLt come from two different CUDA installations",
        "keep one CUDA release in this environment, and take the other one out of LD_LIBRARY_PATH",
    ),
    _Fault(
        r"Failure finding \"libnvrtc|libnvrtc[^:]*: cannot open shared object",
        "NVRTC, the CUDA compiler library, was not found: no kernel can be compiled",
        "make setup GPU=1 (it installs cuda-toolkit[nvrtc])",
    ),
    _Fault(
        r"Failure finding \"libcublas|libcublas[^:]*: cannot open shared object",
        "cuBLAS was not found: no matrix can be multiplied",
        "make setup GPU=1 (it installs cuda-toolkit[cublas])",
    ),
    _Fault(
        r"cannot open source file|No such file or directory.*\.h\b|[Cc]annot find.*(headers|include)|(cuda_fp16|vector_types)\.h",
        "the CUDA headers were not found: CuPy cannot compile kernels for fp16 and bf16",
        "make setup GPU=1 (it installs cuda-toolkit[cudart], which holds the headers)",
    ),
    _Fault(
        r"gpu-architecture|NVRTC_ERROR_INVALID_OPTION",
        "the installed NVRTC does not compile for this GPU; CUDA 13 dropped compute capabilities below 7.5",
        "make setup GPU=1 CUDA=12",
    ),
    _Fault(
        r"NoKernelImageForDevice|NO_BINARY_FOR_GPU|no kernel image is available|CUBLAS_STATUS_ARCH_MISMATCH",
        "the installed CUDA libraries hold no code for this GPU: it is older or newer than the chips they are built for",
        "for a GPU before compute capability 7.5: make setup GPU=1 CUDA=12; for one that is newer than this release: update "
        "CuPy and the driver",
    ),
    _Fault(
        r"cudaErrorNotSupported|CUDA_ERROR_NOT_SUPPORTED|operation not supported",
        "the driver does not support what was asked on this GPU, as under a virtual GPU or an old driver",
        "update the driver; on a virtual GPU ask the provider for CUDA with unified memory and graphs enabled",
    ),
    _Fault(
        r"cudaErrorUnsupportedPtxVersion",
        "the installed NVRTC is newer than the driver: the driver does not take its code",
        "make setup GPU=1, which chooses the CuPy that this driver serves, or update the driver",
    ),
    _Fault(
        r"Errno (13|28|30)\].*\.cupy",
        "CuPy cannot keep its compiled kernels: its cache folder cannot be written",
        "export CUPY_CACHE_DIR=<a folder that can be written>, or CUPY_CACHE_IN_MEMORY=1",
    ),
    _Fault(
        r"cudaErrorMemoryAllocation|[Oo]ut of memory|CUBLAS_STATUS_(NOT_INITIALIZED|ALLOC_FAILED)",
        "there is not enough free GPU memory to start",
        "see who holds it with nvidia-smi, end that program, run again",
    ),
    _Fault(
        r"cudaErrorDevicesUnavailable|exclusive",
        "the GPU is busy: another process holds it exclusively, or its compute mode prohibits computing",
        "see who holds it with nvidia-smi and end that program; nvidia-smi -c DEFAULT sets the compute mode back",
    ),
)


def diagnose(symptoms: Symptoms) -> DeviceError:
    """The error to show for `symptoms`, most specific cause first."""
    driver = _driver_fault(symptoms)
    if driver is not None:
        return driver
    majors = mixed_majors(symptoms.libraries, symptoms.runtime_version)
    if majors is not None:
        return majors
    for fault in _FAULTS:
        if re.search(fault.pattern, symptoms.error):
            return DeviceError(fault.message, fault.remedy)
    first_line = symptoms.error.strip().splitlines()[0] if symptoms.error.strip() else "no text"
    return DeviceError(f"CUDA could not use the device: {first_line}", "run nvidia-smi, then dmesg, for the cause")


def _driver_fault(symptoms: Symptoms) -> DeviceError | None:
    if symptoms.driver_version == 0 and _without_compute(symptoms.driver_capabilities):
        return DeviceError(
            f"this container has the driver without CUDA: NVIDIA_DRIVER_CAPABILITIES={symptoms.driver_capabilities!r}",
            "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )
    if symptoms.driver_version == 0:
        return DeviceError(
            "no NVIDIA driver is visible to this process",
            "in a container, start it with GPU access (docker run --gpus all); on the machine, install the driver",
        )
    if "cudaErrorInsufficientDriver" in symptoms.error:
        served, needed = (_release(version) for version in (symptoms.driver_version, symptoms.runtime_version))
        return DeviceError(
            f"the NVIDIA driver is too old: it serves CUDA {served}, the installed CuPy needs CUDA {needed}",
            "make setup GPU=1, which chooses the CuPy that this driver serves, or update the driver"
            if (symptoms.driver_version or OLDEST_SERVED) >= OLDEST_SERVED
            else "update the driver to 525 or newer: no CuPy of this project serves an older one",
        )
    if re.search("cudaErrorNoDevice|cudaErrorInvalidDevice", symptoms.error):
        return _no_device(symptoms.visible_devices)
    return None


def _without_compute(capabilities: str | None) -> bool:
    return capabilities is not None and not {"all", "compute"} & set(capabilities.split(","))


def _no_device(visible_devices: str | None) -> DeviceError:
    if visible_devices is not None:
        return DeviceError(
            f"CUDA sees no device, because CUDA_VISIBLE_DEVICES={visible_devices!r} hides all of them",
            "unset CUDA_VISIBLE_DEVICES, or name a device that nvidia-smi -L lists",
        )
    return DeviceError(
        "the NVIDIA driver is there, but CUDA sees no device", "run nvidia-smi -L; give the machine its GPU"
    )


def _release(version: int | None) -> str:
    return "of an unknown release" if version is None else f"{version // 1000}.{version % 1000 // 10}"


def mixed_majors(libraries: Iterable[str], runtime_version: int | None) -> DeviceError | None:
    """The error if cuBLAS, cuBLASLt, NVRTC and CuPy's runtime are not all of one CUDA major release, else None."""
    named = [re.fullmatch(r"lib(cublas|cublasLt|nvrtc)\.so\.(\d+)[.\d]*", library) for library in libraries]
    seen = {f"{match[1]} {match[2]}": int(match[2]) for match in named if match}
    if runtime_version:
        seen[f"CuPy's runtime {runtime_version // 1000}"] = runtime_version // 1000
    if len(set(seen.values())) <= 1:
        return None
    return DeviceError(
        f"two CUDA major releases are loaded together: {', '.join(sorted(seen))}",
        "keep one in this environment: make setup GPU=1 in a fresh .venv, with nothing else installed into it",
    )


def refuse_two_cupys(installed: Iterable[str] | None = None) -> None:
    """Raises DeviceError where more than one CuPy distribution is installed: they overwrite each other's files."""
    names = installed_packages() if installed is None else installed
    found = sorted({name for name in names if CUPY.fullmatch(name)})
    if len(found) > 1:
        remedy = f"pip uninstall {' '.join(found)}, then make setup GPU=1"
        raise DeviceError(f"{len(found)} CuPy packages are installed, one over the other: {', '.join(found)}", remedy)


def installed_packages() -> dict[str, str]:
    """Name, in lower case and with dashes, and version of every distribution that this Python sees; of two with one name
    the one that is imported, which stands first on the path."""
    seen: dict[str, str] = {}
    for entry in metadata.distributions():
        if name := entry.metadata["Name"]:
            seen.setdefault(re.sub(r"[-_.]+", "-", name).lower(), entry.version)
    return seen


def stray_wheels(installed: Mapping[str, str]) -> list[str]:
    """CUDA libraries installed with pip that are of another major release than CuPy; it may load them by mistake."""
    cupys = [match[1] for name in installed if (match := re.fullmatch(r"cupy-cuda(\d+)x", name))]
    named = ((name, version, CUDA_WHEEL.fullmatch(name)) for name, version in sorted(installed.items()))
    majors = {f"{name} {version}": match[2] or version.split(".")[0] for name, version, match in named if match}
    return [wheel for wheel, major in majors.items() if cupys and major not in cupys]


def loaded_libraries(maps: str | None = None) -> list[Path]:
    """The CUDA libraries mapped into this process, by path, each once; `maps` stands for /proc/self/maps."""
    text = Path("/proc/self/maps").read_text(encoding="utf-8") if maps is None else maps
    files = (line.split(maxsplit=5)[-1] for line in text.splitlines() if "/" in line)
    return [Path(file) for file in dict.fromkeys(files) if CUDA_LIBRARY.search(Path(file).name)]

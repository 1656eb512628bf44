"""Decides which CuPy this machine needs: none, the one its Python has, or a wheel that the NVIDIA driver serves."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Callable, Iterable, Mapping

# Oldest Linux driver branch of each CUDA major release: NVIDIA, "CUDA Compatibility", minor version compatibility.
OLDEST_DRIVER = {12: 525, 13: 580}
DEFAULT_CUDA = 12
DRIVER_FILE = "proc/driver/nvidia/version"


@dataclass(frozen=True)
class Driver:
    """An NVIDIA driver: where it was seen, its version (580, 65, 6), and the newest CUDA it serves (13000 is 13.0)."""

    seen: str
    version: tuple[int, ...] | None
    cuda: int | None


@dataclass(frozen=True)
class Choice:
    """Where CuPy comes from ("none", "wheel" or "system") and its CUDA major release."""

    source: str
    cuda: int | None


def find_driver(root: Path = Path("/"), load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> Driver | None:
    """Looks for the driver, not for the CUDA toolkit: kernel module, then libcuda, then the device file."""
    cuda = driver_cuda(load)
    if (root / DRIVER_FILE).is_file():
        text = (root / DRIVER_FILE).read_text(errors="replace")
        return Driver("/" + DRIVER_FILE, parse_driver_version(text), cuda)
    if cuda is not None:
        return Driver("libcuda.so.1", None, cuda)
    if (root / "dev/nvidiactl").exists():
        return Driver("/dev/nvidiactl", None, None)
    return None


def parse_driver_version(text: str) -> tuple[int, ...] | None:
    """The version in /proc/driver/nvidia/version, None where the text holds none."""
    found = re.search(r"Kernel Module\D*\s(?:x86_64|aarch64)?\s*(\d{3,}(?:\.\d+)+)", text)
    return tuple(int(part) for part in found[1].split(".")) if found else None


def driver_cuda(load: Callable[[str], ctypes.CDLL]) -> int | None:
    """cuDriverGetVersion of libcuda.so.1, None where there is no such library or it refuses (a link-time copy does)."""
    try:
        library = load("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int(0)
    refused = library.cuDriverGetVersion(ctypes.byref(version))
    return None if refused or version.value <= 0 else version.value


def require_driver(driver: Driver | None, major: int) -> None:
    """Exits where the driver is known to be too old for this CUDA major release."""
    if driver is None:
        return
    if driver.cuda is not None:
        served, told = driver.cuda // 1000 >= major, f"serves CUDA {driver.cuda // 1000}.{driver.cuda % 1000 // 10}"
    elif driver.version is not None:
        served, told = driver.version[0] >= OLDEST_DRIVER[major], "is version " + ".".join(map(str, driver.version))
    else:
        return
    if not served:
        other = ", use CUDA=12" if major > DEFAULT_CUDA else ""
        raise SystemExit(
            f"The NVIDIA driver ({driver.seen}) {told}, but CuPy for CUDA {major} needs driver {OLDEST_DRIVER[major]} "
            f"or newer: update the driver{other}, or set up without the GPU: make setup GPU=0"
        )


def installed() -> dict[str, str]:
    """Name (lower case, dashes) and version of every package that this Python sees."""
    found = ((dist.metadata["Name"], dist.version) for dist in metadata.distributions())
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found if name}


def check_cupy(packages: Mapping[str, str], folders: Iterable[Path]) -> None:
    """Exits where two CuPy are installed, or where a CuPy wheel stands beside CUDA libraries of another major."""
    cupys = sorted(name for name in packages if re.fullmatch(r"cupy(-cuda\d+x|-rocm[-\d]*)?", name))
    if len(cupys) > 1:
        raise SystemExit(
            f"{sys.executable} has {len(cupys)} CuPy installed ({', '.join(cupys)}), whose files overwrite each other: "
            f"pip uninstall {' '.join(cupys)}, then install one (or none: the set-up brings its own)"
        )
    major = re.search(r"cuda(\d+)x", cupys[0]) if cupys else None
    if major is None:
        return
    others = [what for cuda, what in component_majors(packages, folders) if cuda != int(major[1])]
    if others:
        raise SystemExit(
            f"{sys.executable} has {cupys[0]} beside CUDA libraries of another major release ({', '.join(others)}): "
            "CuPy would load the wrong ones: keep one CUDA major in an environment, or use a Python without "
            "CuPy (make setup PYTHON=/usr/bin/python3 GPU=1)"
        )


def component_majors(packages: Mapping[str, str], folders: Iterable[Path]) -> list[tuple[int, str]]:
    """CUDA major and name of each installed CUDA library that CuPy loads here."""
    found = []
    for name, version in sorted(packages.items()):
        part = re.fullmatch(r"nvidia-(?:cublas|cuda-nvrtc|cuda-runtime)(?:-cu(\d+))?", name)
        if part:
            found.append((int(part[1] or version.split(".")[0]), name))
    if not any(major == 13 for major, _ in found) and any((folder / "nvidia/cu13").is_dir() for folder in folders):
        found.append((13, "the folder nvidia/cu13"))
    return found


def system_cupy(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> int | None:
    """CUDA major release of the CuPy that this Python imports, None where it has none or cannot import it."""
    if util.find_spec("cupy") is None:
        return None
    check_cupy(installed(), [Path(folder) for folder in sys.path])
    code = "import cupy; print(cupy.cuda.runtime.runtimeGetVersion() // 1000)"
    tried = run([sys.executable, "-E", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if tried.returncode:
        reason = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        print(f"{sys.executable} has a CuPy that it cannot import ({reason}): it is left aside")
        return None
    return int(tried.stdout.split()[-1])


def choose(gpu: str, cuda: int | None, driver: Driver | None, system: int | None) -> Choice:
    """What to set up, from the options, the driver and the CUDA major of the CuPy that this Python already has."""
    if gpu == "0":
        return Choice("none", None)
    if system is not None and cuda in (None, system):
        require_driver(driver, system if system in OLDEST_DRIVER else DEFAULT_CUDA)
        return Choice("system", system)
    if gpu == "auto" and driver is None:
        return Choice("none", None)
    major = cuda or DEFAULT_CUDA
    require_driver(driver, major)
    return Choice("wheel", major)

"""Compilation of the kernels without a GPU, through ctypes on NVIDIA's NVRTC library. API: NVIDIA, "NVRTC", "User interface"."""

import ctypes
import sys
from functools import cache
from pathlib import Path

from rooflab.measure.cuda.nvrtc import define_options, kernel_source

LIBRARY_PATTERNS = ("nvidia/cuda_nvrtc/lib/libnvrtc.so.*", "nvidia/cu1*/lib/libnvrtc.so.*")


class NvrtcError(RuntimeError):
    """A kernel that did not compile; the message holds the compiler's log."""


def find_libraries(search_path: list[str] | None = None) -> list[Path]:
    """Every NVRTC library that a wheel put on the Python path; empty where there is none."""
    folders = sys.path if search_path is None else search_path
    return [file for folder in folders for pattern in LIBRARY_PATTERNS for file in sorted(Path(folder).glob(pattern))]


@cache
def _open(library: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(library))


def version(library: Path) -> tuple[int, int]:
    """The CUDA release of an NVRTC library, (12, 9) for 12.9."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_open(library), _open(library).nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def supported_architectures(library: Path) -> list[int]:
    """The compute capabilities an NVRTC library compiles for, 90 for 9.0."""
    nvrtc = _open(library)
    count = ctypes.c_int()
    _check(nvrtc, nvrtc.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    found = (ctypes.c_int * count.value)()
    _check(nvrtc, nvrtc.nvrtcGetSupportedArchs(found))
    return list(found)


def compile_kernel(library: Path, name: str, architecture: int, defines: dict[str, int]) -> tuple[str, bytes]:
    """PTX and machine code of a kernel for one compute capability. Raises NvrtcError with the compiler's log."""
    nvrtc = _open(library)
    options = [option.encode() for option in (*define_options(defines), "-ftz=true", f"-arch=sm_{architecture}")]
    program = ctypes.c_void_p()
    source = kernel_source(name).encode()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None))
    try:
        status = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            raise NvrtcError(
                f"{name} for sm_{architecture} with {defines}:\n{_read(nvrtc, program, 'ProgramLog').decode()}"
            )
        return _read(nvrtc, program, "PTX").rstrip(b"\0").decode(), _read(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text.raw


def _check(nvrtc: ctypes.CDLL, status: int) -> None:
    if status:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise NvrtcError(f"NVRTC: {nvrtc.nvrtcGetErrorString(status).decode()}")

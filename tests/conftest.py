"""What every test shares: the scripts on the import path, and the `gpu` marker, skipped without a CUDA device."""

import ctypes
import importlib.util
import os
import sys
from functools import cache
from pathlib import Path

import pytest
from lab import finished, lab  # noqa: F401

SCRIPTS = str(Path(__file__).resolve().parent.parent / "workflow" / "scripts")
sys.path.insert(0, SCRIPTS)
os.environ["PYTHONPATH"] = SCRIPTS  # for the programs that tests start; the workflow sets its own


@cache
def no_gpu_reason() -> str | None:
    """Why GPU tests cannot run here, None where they can. Asks the driver, so that no GPU library is imported."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no NVIDIA driver (libcuda.so.1 is absent)"
    count = ctypes.c_int(0)
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or count.value == 0:
        return f"no CUDA device (driver status {status}, {count.value} devices)"
    if importlib.util.find_spec("cupy") is None:
        return "a CUDA device, but no CuPy: make setup GPU=1"
    return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs a CUDA device and CuPy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and (reason := no_gpu_reason()):
            item.add_marker(pytest.mark.skip(reason=reason))

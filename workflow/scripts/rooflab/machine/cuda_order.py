"""A program of its own: prints the UUIDs of the cards that CUDA shows it, in CUDA's order, as a JSON list.

Only the driver is asked, through ctypes, in a process that ends: numbering cards is CUDA's affair, and a process that has
once opened the driver keeps the answer for good. API: NVIDIA, "CUDA driver API", device management.
"""

import ctypes
import json
import sys
import uuid
from typing import Any

UUID_BYTES = 16


def uuids(driver: Any) -> list[str]:
    """The UUID of each device as CUDA writes it, without `GPU-` or `MIG-`. Raises OSError where the driver refuses."""
    count = ctypes.c_int()
    _check(driver.cuInit(0))
    _check(driver.cuDeviceGetCount(ctypes.byref(count)))
    ask = getattr(driver, "cuDeviceGetUuid_v2", driver.cuDeviceGetUuid)  # v2 tells the slice of a divided card
    found = []
    for ordinal in range(count.value):
        raw, device = (ctypes.c_ubyte * UUID_BYTES)(), ctypes.c_int()
        _check(driver.cuDeviceGet(ctypes.byref(device), ordinal))
        _check(ask(raw, device))
        found.append(str(uuid.UUID(bytes=bytes(raw))))
    return found


def _check(status: int) -> None:
    if status:
        raise OSError(f"CUDA driver status {status}")


if __name__ == "__main__":
    json.dump(uuids(ctypes.CDLL("libcuda.so.1")), sys.stdout)

"""Numbers on their way to a device and back: the project's dtypes as CuPy arrays, and random operands.

fp8 codes are uint8 arrays, because CuPy has no fp8; tf32 is fp32 data. Random operands need no cuRAND: a host tile is
uploaded and repeated, each time turned by another amount, so that no two rows of a matrix are alike.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda.device import CudaDevice
from rooflab.reference.attention import e4m3_decode_table, encode_e4m3, random_normal, to_bf16_bits

# How the kernels in kernels/*.cu tell the formats apart.
FORMATS = {"fp32": 0, "fp16": 1, "bf16": 2, "fp8_e4m3": 3}

TILE_ELEMENTS = 1 << 22
TURN = 104_729  # a prime: successive copies of the tile never start at the same column

INT8_SCALE = 20.0  # normal numbers become integers that rarely reach 127
FP64_FACTOR = np.pi / 3  # gives fp64 operands a mantissa longer than fp32's


def encode(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    """Host array of `values` as they are stored in `dtype`. Raises ValueError for an unknown dtype."""
    match dtype:
        case "fp32" | "tf32":
            return values.astype(np.float32, copy=False)
        case "fp16":
            return values.astype(np.float16)
        case "bf16":
            return to_bf16_bits(values).view(ml_dtypes.bfloat16)
        case "fp8_e4m3":
            return encode_e4m3(values)
        case "int8":
            return np.clip(np.rint(values * INT8_SCALE), -127, 127).astype(np.int8)
        case "fp64":
            return values.astype(np.float64) * FP64_FACTOR
    raise ValueError(f"unknown dtype {dtype!r}: expected fp32, tf32, fp16, bf16, fp8_e4m3, int8 or fp64")


def decode(stored: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    """The exact values of a host array stored in `dtype`."""
    return (e4m3_decode_table()[stored] if dtype == "fp8_e4m3" else stored).astype(np.float64)


def to_device(device: CudaDevice, stored: NDArray[Any]) -> Any:
    """A device copy of a host array that `encode` returned; complete when this returns."""
    bits = np.ascontiguousarray(stored).view(f"u{stored.dtype.itemsize}")
    array = device.xp.asarray(bits).view(stored.dtype)
    device.synchronize()
    return array


def to_host(array: Any) -> NDArray[Any]:
    """A host copy of a device array, of the same dtype; waits for the device's stream."""
    bits: NDArray[Any] = array.view(f"u{array.dtype.itemsize}").get()
    return bits.view(array.dtype)


def repeated(device: CudaDevice, tile: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """A device array of `shape` filled with copies of a one-dimensional host `tile`, each turned by TURN more."""
    source = to_device(device, tile)
    array = device.xp.empty(shape, tile.dtype)
    bits = array.reshape(-1).view(f"u{tile.dtype.itemsize}")
    source_bits, filled, turn = source.view(bits.dtype), 0, 0
    while filled < bits.size:
        count = min(tile.size - turn, bits.size - filled)
        bits[filled : filled + count] = source_bits[turn : turn + count]
        filled += count
        if turn and filled < bits.size:
            count = min(turn, bits.size - filled)
            bits[filled : filled + count] = source_bits[:count]
            filled += count
        turn = (turn + TURN) % tile.size
    device.synchronize()
    return array


def normal(device: CudaDevice, shape: tuple[int, ...], dtype: str, seed: int | Sequence[int]) -> Any:
    """A device array of standard normal numbers in `dtype` (int8: times INT8_SCALE, fp64: times FP64_FACTOR)."""
    size = min(int(np.prod(shape)), TILE_ELEMENTS)
    return repeated(device, encode(random_normal((size,), seed), dtype), shape)


def poison(device: CudaDevice, array: Any) -> None:
    """Fills a float array with NaN, an integer array with -1, so that a result that was not written is seen."""
    device.fill_bytes(array, 0xFF)

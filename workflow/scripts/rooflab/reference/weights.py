"""Checkpoints of a MiniGPT on disk: `.safetensors` and `.npz`, checked against the geometry they are used with.

Tensor names are GPT-2's, as `minigpt.tensor_shapes` lists them (`wte.weight`, `h.0.attn.c_attn.weight`, ...), and the
project writes the same names. A `transformer.` prefix is dropped, `lm_head.weight` (V, E) is optional, and the causal
masks some GPT-2 files carry (`h.0.attn.bias`, `h.0.attn.masked_bias`) are ignored.
"""

import hashlib
import os
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from rooflab.reference.minigpt import Geometry, tensor_shapes

Array = NDArray[Any]
MASK = re.compile(r"h\.\d+\.attn\.(masked_)?bias")
FLOATS = tuple(np.dtype(name) for name in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64))
UNREADABLE = (safetensors.SafetensorError, zipfile.BadZipFile, zlib.error, ValueError, RuntimeError, OSError, EOFError)


def load_weights(path: Path, geometry: Geometry) -> dict[str, Array]:
    """The weights in `path` as fp32 host arrays under the project's names; fp16, bf16 and fp64 are converted.

    Raises ValueError, naming the file, for another suffix, an unreadable file, pickled objects, a missing, unknown or
    doubled tensor, a shape that is not the geometry's, or a dtype that is not a float.
    """
    tensors = _without_masks(path, _read(path))
    expected = tensor_shapes(geometry)
    if "lm_head.weight" in tensors:
        expected["lm_head.weight"] = expected["wte.weight"]
    _require_names(path, tensors, expected)
    for name, shape in expected.items():
        _require_tensor(path, name, tensors[name], shape)
    return {name: tensors[name].astype(np.float32) for name in expected}


def save_weights(path: Path, weights: Mapping[str, Array]) -> None:
    """Writes `weights` to `path`, as `.safetensors` or `.npz` by its suffix; a file that exists is complete.

    Raises ValueError for another suffix.
    """
    _require_suffix(path)
    tensors: dict[str, Any] = {name: np.ascontiguousarray(tensor) for name, tensor in weights.items()}
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        if path.suffix == ".npz":
            np.savez(file, **tensors)
        else:
            file.write(safetensors.numpy.save(tensors))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(path: Path) -> dict[str, Array]:
    _require_suffix(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file: expected a checkpoint; correct the path in the config")
    try:
        if path.suffix == ".npz":
            return _read_npz(path)
        return dict(safetensors.numpy.load_file(path))
    except UNREADABLE as error:
        raise ValueError(
            f"{path}: cannot be read as {path.suffix} ({error}): expected a complete checkpoint of plain arrays; "
            "copy or export it again"
        ) from error


def _read_npz(path: Path) -> dict[str, Array]:
    if not zipfile.is_zipfile(path):
        raise ValueError("not a zip archive")
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def _without_masks(path: Path, tensors: Mapping[str, Array]) -> dict[str, Array]:
    named: dict[str, Array] = {}
    for stored, tensor in tensors.items():
        name = stored.removeprefix("transformer.")
        if name in named:
            raise ValueError(
                f"{path}: {name} is stored twice, once with the prefix 'transformer.': keep one of the two"
            )
        if not MASK.fullmatch(name):
            named[name] = tensor
    return named


def _require_suffix(path: Path) -> None:
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(f"{path}: unknown checkpoint format {path.suffix!r}: expected .safetensors or .npz")


def _require_names(path: Path, tensors: Mapping[str, Array], expected: Mapping[str, tuple[int, ...]]) -> None:
    missing = [name for name in expected if name not in tensors]
    unknown = sorted(name for name in tensors if name not in expected)
    if missing:
        raise ValueError(f"{path}: {_some(missing)} missing: expected all {len(expected)} tensors of the geometry")
    if unknown:
        raise ValueError(f"{path}: {_some(unknown)} not in the geometry: set its layers to those of the checkpoint")


def _require_tensor(path: Path, name: str, tensor: Array, shape: tuple[int, ...]) -> None:
    if tensor.shape != shape:
        raise ValueError(
            f"{path}: {name} has shape {tensor.shape}, the geometry expects {shape}: "
            "set the geometry in the config to that of the checkpoint"
        )
    if tensor.dtype not in FLOATS:
        raise ValueError(f"{path}: {name} is {tensor.dtype}: expected fp16, bf16, fp32 or fp64")


def _some(names: list[str]) -> str:
    """Up to three names and how many more there are."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names[:3])}{rest} {verb}"

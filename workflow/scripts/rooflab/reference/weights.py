"""Checkpoints of a MiniGPT on disk: `.safetensors` and `.npz`, checked against the geometry they are used with.

Tensor names are GPT-2's, as `minigpt.tensor_shapes` lists them (`wte.weight`, `h.0.attn.c_attn.weight`, ...), and the
project writes the same names. A `transformer.` prefix is dropped, `lm_head.weight` (V, E) is optional, and the causal
masks some GPT-2 files carry (`h.0.attn.bias`, `h.0.attn.masked_bias`) are ignored.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from rooflab.reference import checkpoint
from rooflab.theory.geometry import Sizes

Array = NDArray[Any]


def load_weights(path: Path, geometry: Sizes) -> dict[str, Array]:
    """The weights in `path` as fp32 host arrays under the project's names; fp16, bf16 and fp64 are converted.

    Raises ValueError as `checkpoint.check` does, and for data that cannot be read or that holds NaN or infinity.
    """
    names = checkpoint.check(path, geometry)
    tensors = checkpoint.without_masks(path, _read(path))
    loaded = {name: tensors[name].astype(np.float32) for name in names}
    for name, tensor in loaded.items():
        if not np.isfinite(tensor).all():
            count = int(np.count_nonzero(~np.isfinite(tensor)))
            raise ValueError(
                f"{path}: {name} holds {count} numbers that are NaN or infinite: expected finite weights; export it again"
            )
    return loaded


def save_weights(path: Path, weights: Mapping[str, Array]) -> None:
    """Writes `weights` to `path`, as `.safetensors` or `.npz` by its suffix; a file that exists is complete.

    Raises ValueError for another suffix.
    """
    checkpoint.require_suffix(path)
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
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
        return dict(safetensors.numpy.load_file(path))
    except (*checkpoint.UNREADABLE, safetensors.SafetensorError) as error:
        raise checkpoint.unreadable(path, error) from error

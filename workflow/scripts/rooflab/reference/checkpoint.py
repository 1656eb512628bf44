"""What a checkpoint file says of its tensors, by its header alone, held against the geometry it shall be used with.

Formats: safetensors (https://github.com/huggingface/safetensors, "Format": eight bytes with the length of a JSON header, the
header, the data), and `.npz`, a zip of NumPy's `.npy` files, each with a header of its own.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rooflab.reference.minigpt import tensor_shapes
from rooflab.theory.geometry import Sizes

MASK = re.compile(r"h\.\d+\.attn\.(masked_)?bias")
LAYER = re.compile(r"h\.(\d+)\.")
FLOATS = {"F16", "BF16", "F32", "F64", "float16", "bfloat16", "float32", "float64"}
MOST_HEADER_BYTES = 100_000_000  # as the safetensors library has it
UNREADABLE = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, TypeError, RuntimeError, OSError, EOFError)

Described = dict[str, tuple[str, tuple[int, ...]]]  # tensor -> name of its dtype, shape


def check(path: Path, geometry: Sizes) -> list[str]:
    """The names of the tensors to load, in the geometry's order; nothing but the header is read.

    Raises ValueError, one line that names the file, for another suffix, an unreadable file, pickled objects, a missing,
    unknown or doubled tensor, a shape that is not the geometry's, or a dtype that is not a float of NumPy's or bf16.
    """
    tensors = without_masks(path, described(path))
    expected = tensor_shapes(geometry)
    if "lm_head.weight" in tensors:
        expected["lm_head.weight"] = expected["wte.weight"]
    _require_names(path, tensors, expected, geometry)
    for name, shape in expected.items():
        dtype, seen = tensors[name]
        _require_tensor(path, name, dtype, seen, shape)
    return list(expected)


def described(path: Path) -> Described:
    """Every tensor of the file as its header describes it. Raises ValueError."""
    require_suffix(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file: expected a checkpoint; correct the path in the config")
    try:
        return _npz(path) if path.suffix == ".npz" else _safetensors(path)
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> ValueError:
    """The error of a file that is no checkpoint, or a damaged one."""
    return ValueError(
        f"{path}: cannot be read as {path.suffix} ({error}): expected a complete checkpoint of plain arrays; "
        "copy or export it again"
    )


def require_suffix(path: Path) -> None:
    """Raises ValueError for a format that is none of the two."""
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(f"{path}: unknown checkpoint format {path.suffix!r}: expected .safetensors or .npz")


def without_masks(path: Path, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors without the prefix and the causal masks that GPT-2 files carry. Raises ValueError for a name twice."""
    named: dict[str, Any] = {}
    for stored, tensor in tensors.items():
        name = stored.removeprefix("transformer.")
        if name in named:
            raise ValueError(
                f"{path}: {name} is stored twice, once with the prefix 'transformer.': keep one of the two"
            )
        if not MASK.fullmatch(name):
            named[name] = tensor
    return named


def _safetensors(path: Path) -> Described:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(size - 8, MOST_HEADER_BYTES):
            raise ValueError("no safetensors header")
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    if 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0) != size:
        raise ValueError("its size is not the one its header tells")
    return {name: (str(entry["dtype"]), tuple(entry["shape"])) for name, entry in header.items()}


def _npz(path: Path) -> Described:
    if not zipfile.is_zipfile(path):
        raise ValueError("not a zip archive")
    with zipfile.ZipFile(path) as archive:
        return {member.removesuffix(".npy"): _npy(archive, member) for member in archive.namelist()}


def _npy(archive: zipfile.ZipFile, member: str) -> tuple[str, tuple[int, ...]]:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{member} holds Python objects, and allow_pickle=False")
    return str(dtype), shape


def _require_names(
    path: Path, tensors: Mapping[str, Any], expected: Mapping[str, tuple[int, ...]], geometry: Sizes
) -> None:
    missing = [name for name in expected if name not in tensors]
    unknown = sorted(name for name in tensors if name not in expected)
    if missing:
        raise ValueError(f"{path}: {_some(missing)} missing: expected all {len(expected)} tensors of the geometry")
    if not unknown:
        return
    layers = {int(found[1]) for name in unknown if (found := LAYER.match(name))}
    if layers and min(layers) >= geometry.layers:
        raise ValueError(
            f"{path}: {_some(unknown)} beyond the geometry's {geometry.layers} layers: set its layers to {max(layers) + 1}"
        )
    raise ValueError(
        f"{path}: {_some(unknown)} no part of a GPT-2 model: expected none; export the checkpoint without, or another one"
    )


def _require_tensor(path: Path, name: str, dtype: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        turned = len(shape) == 2 and shape == expected[::-1]
        remedy = (
            "it is stored as torch.nn.Linear does, (out, in), and GPT-2's Conv1D is (in, out): transpose the matrices"
            if turned and not name.startswith(("wte", "wpe"))
            else "set the geometry in the config to that of the checkpoint"
        )
        raise ValueError(f"{path}: {name} has shape {shape}, the geometry expects {expected}: {remedy}")
    if dtype not in FLOATS:
        raise ValueError(f"{path}: {name} is {dtype}: expected fp16, bf16, fp32 or fp64; export it in one of them")


def _some(names: list[str]) -> str:
    """Up to three names and how many more there are."""
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names[:3])}{rest} {verb}"

"""What one launch of a recorded measurement had to do, by the record's stage, shape and dtype, and how long each took.
Arithmetic only."""

from collections.abc import Mapping
from typing import Any

from rooflab.theory import work
from rooflab.theory.dtypes import dtype, result_bytes
from rooflab.theory.work import Work

TRIAD_ELEMENT_BYTES = 4


def product(record: Mapping[str, Any], convention: str = "reads") -> Work:
    """A matrix product; `convention`: see `work.gemm`."""
    shape, size = record["shape"], dtype(record["dtype"]).bytes
    return work.gemm(shape["m"], shape["n"], shape["k"], size, result_bytes(record["dtype"]), convention)


def decode(record: Mapping[str, Any]) -> Work:
    """Decode attention over the record's cache."""
    shape = record["shape"]
    parts = ("batch", "query_heads", "kv_heads", "sequence", "head_dim")
    return work.decode_attention(**{part: shape[part] for part in parts}, kv_bytes=dtype(record["dtype"]).bytes)


def moved_bytes(record: Mapping[str, Any], series_name: str) -> int:
    """Bytes that one launch of a bandwidth series moves; a sweep over sizes has one series a size."""
    nbytes = record["details"].get("bytes_per_series", {}).get(series_name, record["shape"]["bytes_per_array"])
    if record["name"] == "triad":
        return work.triad(nbytes // TRIAD_ELEMENT_BYTES, TRIAD_ELEMENT_BYTES).bytes
    count = {"d2d": work.copy, "read": work.read, "write": work.write, "l2": work.read}
    return count[record["name"]](nbytes).bytes


def seconds_per_launch(series: Mapping[str, Any]) -> list[float]:
    """The samples of a series divided by the launches each of them holds, seconds."""
    return [sample / series["iterations_per_sample"] for sample in series["samples_s"]]


def flop(record: Mapping[str, Any]) -> int:
    """FLOP of one launch; 0 for a stage that computes nothing. Raises ValueError for sizes that are none."""
    match record["stage"]:
        case "gemm":
            return product(record).flop
        case "fma":
            return work.multiply_adds(record["shape"]["threads"] * record["shape"]["fma_per_thread"])
        case "decode":
            return decode(record).flop
    return 0

"""Grouped-query decode on Tensor Cores, kernels/grouped.cu: ways to launch it, which to try first, and the launch.

The sizes are those of kernels/grouped_tiles.cu and grouped_merge.cu. The order of the ways says only what is tried first;
measuring chooses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rooflab.measure.cuda.arrays import FORMATS
from rooflab.measure.cuda.attention import tensor_cores
from rooflab.measure.cuda.attention.shape import DecodeShape
from rooflab.measure.cuda.device import Call, CudaDevice

DTYPES = ("fp16", "bf16", "fp8_e4m3")
MOST_HEADS, TILE_ROWS = 16, 16
WARPS_STAGES = ((8, 3), (4, 3), (8, 2), (4, 2), (2, 3), (2, 2))  # the fastest on an H200 first
MOST_CLUSTER, MOST_SPLITS = 8, 64
FULL, ENOUGH = 0.9, 0.4  # blocks per multiprocessor: a busy chip, and one that a cluster's quick merge makes up for


@dataclass(frozen=True, order=True)
class GroupedConfig:
    """How the kernel on Tensor Cores is compiled and launched.

    `warps` per block, `stages` tiles of K and of V that each has in shared memory; `splits` ranges of the sequence, each a
    block, merged through a thread-block cluster or through memory.
    """

    warps: int
    stages: int
    splits: int
    cluster: bool


def block_heads(group: int) -> int:
    """Query heads of a block: all that share a KV head, or, of more than 16, even parts."""
    return -(-group // -(-group // MOST_HEADS))


def kernel_defines(dtype: str, head_dim: int, group: int, config: GroupedConfig) -> dict[str, int]:
    """The numbers that kernels/tensor.cu and grouped_tiles.cu want."""
    return {
        "KV_FORMAT": FORMATS[dtype],
        "HEAD_SIZE": head_dim,
        "GROUP": group,
        "BLOCK_HEADS": block_heads(group),
        "BLOCK_WARPS": config.warps,
        "STAGES": config.stages,
        "SPLITS": config.splits,
        "CLUSTER_MERGE": int(config.cluster),
        "SHARED_BYTES": shared_bytes(dtype, head_dim, group, config),
    }


def shared_bytes(dtype: str, head_dim: int, group: int, config: GroupedConfig) -> int:
    """Shared memory of a block: tiles, or what is left of them for the merge; and the warps' results."""
    pitch = -(-head_dim // _chunk_elements(dtype) // 8) * 128
    heads = block_heads(group)
    tiles = config.warps * config.stages * 2 * TILE_ROWS * pitch
    merged = -(-heads * (head_dim + 2) * 4 // 16) * 16
    results = config.warps * (heads * (head_dim + 4) + 2 * MOST_HEADS) * 4
    return max(tiles, merged) + results + 16


def grouped_configs(
    dtype: str, head_dim: int, group: int, units: int, sequence: int, capability: int, sm_count: int, limit: int
) -> list[GroupedConfig]:
    """Up to `limit` configurations for `units` KV heads (over all sequences) of `sequence` rows, most promising first; none
    where the kernel does not exist. `capability` is 90 for compute capability 9.0."""
    if dtype not in DTYPES or capability < tensor_cores.CAPABILITY:
        return []
    blocks = units * -(-group // MOST_HEADS)
    merges = _merges(blocks, capability, sm_count)
    ranked = sorted(
        (rank + other, GroupedConfig(*sizes, *merge))
        for rank, merge in enumerate(merges)
        for other, sizes in enumerate(WARPS_STAGES)
        if merge[0] == 1 or merge[0] * TILE_ROWS <= sequence
    )
    allowed = tensor_cores.shared_limit_bytes(capability)
    return [each for _, each in ranked if shared_bytes(dtype, head_dim, group, each) <= allowed][:limit]


def _chunk_elements(dtype: str) -> int:
    return 16 if dtype == "fp8_e4m3" else 8


def _merges(blocks: int, capability: int, sm_count: int) -> list[tuple[int, bool]]:
    """Splits of `blocks` unsplit ones, and whether a cluster merges them: as many as fill the chip, then their neighbours."""
    wanted = next((n for n in (1, 2, 4, 8, 16, 32, 64) if blocks * n >= FULL * sm_count), MOST_SPLITS)
    clusters = capability >= tensor_cores.CLUSTER_CAPABILITY
    if clusters and wanted > MOST_CLUSTER:
        widest, apart = (MOST_CLUSTER, True), (wanted, False)
        enough = blocks * MOST_CLUSTER >= ENOUGH * sm_count
        return [
            *((widest, apart) if enough else (apart, widest)),
            (wanted // 2, False),
            (MOST_CLUSTER // 2, True),
            (1, False),
        ]
    near = dict.fromkeys((wanted, min(2 * wanted, MOST_SPLITS), max(wanted // 2, 1), 1))
    found = [(splits, clusters and 1 < splits <= MOST_CLUSTER) for splits in near]
    return [*found[:1], (wanted, False), *found[1:]] if found[0][1] else found


def grouped_call(
    device: CudaDevice,
    shape: DecodeShape,
    dtype: str,
    arrays: tuple[Any, Any, Any, Any],
    config: GroupedConfig,
    lengths: Sequence[int] | None,
) -> Call:
    """One launch on `arrays`: query, K, V and result. `lengths`: the rows of each sequence that count, all where None."""
    xp, heads = device.use(), block_heads(shape.group)
    kernel = device.kernel("grouped", "grouped_attention", **kernel_defines(dtype, shape.head_dim, shape.group, config))
    memory = shared_bytes(dtype, shape.head_dim, shape.group, config)
    kernel.max_dynamic_shared_size_bytes = memory
    units = shape.batch * shape.kv_heads * -(-shape.group // heads)
    in_memory = config.splits > 1 and not config.cluster
    ranges = units * config.splits * -(-heads * (shape.head_dim + 2) // 4) * 4 if in_memory else 1
    arguments = (
        *(*arrays, xp.empty(ranges, np.float32), xp.zeros(units, np.uint32)),
        np.uint64(0) if lengths is None else xp.asarray(np.asarray(lengths, np.int32)),
        *(np.int32(shape.kv_heads), np.int32(shape.sequence)),
        np.float32(math.log2(math.e) / math.sqrt(shape.head_dim)),
    )
    grid, block = (units * config.splits,), (config.warps * 32,)
    return lambda: kernel(grid, block, arguments, shared_mem=memory)

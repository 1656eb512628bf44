"""Ways to launch the fused decode kernel: which exist for a shape and a chip, and which to try first.

Pure arithmetic over the sizes of kernels/decode_formats.cu. The estimate only orders the candidates; measuring chooses.
"""

from dataclasses import dataclass
from itertools import product

from rooflab.measure.cuda.arrays import FORMATS

_VECTOR_ELEMENTS = {"fp32": 4, "fp16": 8, "bf16": 8, "fp8_e4m3": 16}

REGISTERS_PER_SM = 65536
MOST_REGISTERS = 255
SHARED_BYTES = 48 * 1024
CLUSTER_CAPABILITY = 90
CLUSTER_SIZES = (2, 4, 8)  # 8 is the largest that every chip with clusters can launch

WARPS = (4, 8, 16, 32)
ROWS_IN_FLIGHT = (1, 2, 4, 8)
MEMORY_SPLITS = (2, 4, 8, 16, 32)

# Clock cycles, as measured on an H200 within a factor of two; used for ordering only.
_ROUND_TRIP_CYCLES, _BYTES_PER_CYCLE, _CLUSTER_CYCLES, _MEMORY_MERGE_CYCLES, _WARP_CYCLES = 900, 40, 500, 2700, 12


@dataclass(frozen=True)
class FusedConfig:
    """How the fused kernel is compiled and launched.

    `warps` per block; `rows_in_flight` rows of K and of V that a lane group loads before it uses the first; `splits`
    ranges of the sequence, each a block, merged through a thread-block cluster or through memory; `heads` query heads
    of one KV head in a block.
    """

    warps: int
    rows_in_flight: int
    splits: int
    cluster: bool
    heads: int


def kernel_defines(dtype: str, head_dim: int, group: int, config: FusedConfig) -> dict[str, int]:
    """The numbers that kernels/decode_formats.cu wants."""
    return {
        "KV_FORMAT": FORMATS[dtype],
        "HEAD_SIZE": head_dim,
        "BLOCK_HEADS": config.heads,
        "GROUP_PARTS": group // config.heads,
        "BLOCK_WARPS": config.warps,
        "ROWS_IN_FLIGHT": config.rows_in_flight,
        "SPLITS": config.splits,
        "CLUSTER_MERGE": int(config.cluster),
    }


def fused_configs(
    dtype: str, head_dim: int, group: int, units: int, sequence: int, capability: int, sm_count: int, limit: int
) -> list[FusedConfig]:
    """Up to `limit` configurations for `units` KV heads (over all sequences) of `sequence` rows, best estimate first.

    `capability` is 90 for compute capability 9.0. There is at least one.
    """
    sizes = _Sizes(dtype, head_dim)
    candidates = [
        FusedConfig(warps, rows, splits, cluster, heads)
        for (splits, cluster), heads, warps, rows in product(
            _merges(capability), _head_counts(sizes, group), WARPS, ROWS_IN_FLIGHT
        )
    ]
    fitting = [config for config in candidates if _fits(sizes, config) and _is_useful(sizes, config, sequence)]
    fitting = fitting or [FusedConfig(4, 1, 1, False, 1)]
    return sorted(fitting, key=lambda config: _estimate(sizes, config, group, units, sequence, sm_count))[:limit]


class _Sizes:
    """The kernel's sizes for a dtype and head size."""

    def __init__(self, dtype: str, head_dim: int) -> None:
        vectors = head_dim // _VECTOR_ELEMENTS[dtype]
        self.head_dim = head_dim
        self.row_lanes = min(32, max(2, 1 << (vectors - 1).bit_length()))
        self.lane_vectors = -(-vectors // self.row_lanes)
        self.width = self.lane_vectors * _VECTOR_ELEMENTS[dtype]
        self.row_bytes = vectors * 16

    def pass_rows(self, config: FusedConfig) -> int:
        """Rows that a block has in flight at once."""
        return config.warps * config.rows_in_flight * (32 // self.row_lanes)

    def registers(self, config: FusedConfig) -> int:
        """A thread's registers: query and sums, K and V in flight, scores, one widened row, addresses."""
        in_flight = config.rows_in_flight * (8 * self.lane_vectors + config.heads)
        return 2 * config.heads * self.width + in_flight + self.width + 24

    def shared_bytes(self, config: FusedConfig) -> int:
        """A block's shared memory, padding left out."""
        partials = config.warps + (config.splits if config.cluster else 0)
        return 4 * partials * config.heads * (self.head_dim + 2) + 128 * config.warps


def _merges(capability: int) -> list[tuple[int, bool]]:
    """Splits and whether a cluster merges them."""
    clusters = [(size, True) for size in CLUSTER_SIZES if capability >= CLUSTER_CAPABILITY]
    return [(1, False), *clusters, *((splits, False) for splits in MEMORY_SPLITS if (splits, True) not in clusters)]


def _head_counts(sizes: _Sizes, group: int) -> list[int]:
    """Query heads per block: the two largest divisors of the group whose query and sums fit into registers."""
    divisors = [heads for heads in range(1, group + 1) if group % heads == 0 and heads * sizes.width <= 64]
    return divisors[-2:] if divisors else [1]


def _fits(sizes: _Sizes, config: FusedConfig) -> bool:
    allowed = min(MOST_REGISTERS, REGISTERS_PER_SM // (config.warps * 32))
    return sizes.registers(config) <= allowed and sizes.shared_bytes(config) <= SHARED_BYTES


def _is_useful(sizes: _Sizes, config: FusedConfig, sequence: int) -> bool:
    """Not so wide that half of the block has no row; the smallest block always is."""
    smallest = config.warps == min(WARPS) and config.rows_in_flight == 1 and config.splits == 1
    return smallest or sizes.pass_rows(config) < 2 * -(-sequence // config.splits)


def _estimate(
    sizes: _Sizes, config: FusedConfig, group: int, units: int, sequence: int, sm_count: int
) -> tuple[float, int]:
    """Cycles of a launch, and the warps to break ties.

    Either the memory is busy all the time, or blocks wait for it a number of passes; each wave adds its overhead.
    """
    blocks = units * (group // config.heads) * config.splits
    passes = -(-sequence // (config.splits * sizes.pass_rows(config)))
    at_once = max(1, REGISTERS_PER_SM // (config.warps * 32 * max(32, sizes.registers(config))))
    waves = -(-blocks // (sm_count * at_once))
    moved = 2 * units * sequence * sizes.row_bytes
    busy = moved / (_BYTES_PER_CYCLE * min(blocks, sm_count))
    merge = 0 if config.splits == 1 else _CLUSTER_CYCLES if config.cluster else _MEMORY_MERGE_CYCLES
    overhead = merge + _WARP_CYCLES * config.warps
    return max(busy, waves * passes * _ROUND_TRIP_CYCLES) + waves * overhead, config.warps

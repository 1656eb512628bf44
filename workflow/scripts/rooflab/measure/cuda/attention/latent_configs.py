"""Ways to launch the two kernels of latent attention: which exist for a shape and a chip, and which to try first.

kernels/latent.cu does scores, softmax and sum of a tile of rows one after the other; kernels/latent_staged.cu does them for
three tiles at once, and wants the shared memory for it. The sizes are those of these files; measuring chooses.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product, zip_longest

from rooflab.measure.cuda.attention import tensor_cores

BLOCK_HEADS, TILE_ROWS = 16, 32
PLAIN_DTYPES, STAGED_DTYPES = ("fp16", "bf16"), ("fp16", "bf16", "fp8_e4m3")
PLAIN_THREADS, STAGED_THREADS = 128, 512
PLAIN_STAGES, STAGED_STAGES = (2, 3), (4, 5)
PLAIN_BLOCKS_PER_SM = (1, 2, 4)
MERGE_COLUMNS, MOST_MERGE_SHARES = 32, 8
CLUSTER_SIZES = (2, 4, 8)


@dataclass(frozen=True)
class LatentConfig:
    """How a kernel is compiled and launched: `splits` ranges of the sequence, a block each, merged by a second kernel or, with
    `cluster`, through a thread-block cluster; `stages` tiles of rows in shared memory; `staged` for
    kernels/latent_staged.cu."""

    splits: int
    stages: int
    staged: bool = False
    cluster: bool = False


def latent_configs(
    dtype: str, sizes: tuple[int, int, int, int, int], capability: int, sm_count: int, limit: int
) -> list[LatentConfig]:
    """Up to `limit` configurations, those of the two kernels in turn; none where neither exists.

    `sizes`: batch, query heads, sequence, rank, elements of the rotary key; `capability` is 90 for compute capability 9.0."""
    if capability < tensor_cores.CAPABILITY:
        return []
    batch, heads, sequence, rank, rope_dim = sizes
    units, most = batch * -(-heads // BLOCK_HEADS), -(-sequence // TILE_ROWS)
    allowed = tensor_cores.shared_limit_bytes(capability)
    plain = _plain(dtype, rank, rope_dim, units, most, sm_count, allowed)
    clusters = capability >= tensor_cores.CLUSTER_CAPABILITY
    staged = _staged(dtype, rank, rope_dim, units, most, sm_count, allowed, clusters)
    return [each for each in chain.from_iterable(zip_longest(staged, plain)) if each is not None][:limit]


def shared_bytes(dtype: str, rank: int, rope_dim: int, config: LatentConfig) -> int:
    """Shared memory of a block of either kernel."""
    row = rank + rope_dim
    if config.staged:
        pitch = -(-row // (16 if dtype == "fp8_e4m3" else 8) // 8) * 128
        scores, weights = 2 * 4 * 4 * BLOCK_HEADS * (TILE_ROWS + 8), 2 * 2 * BLOCK_HEADS * (TILE_ROWS + 8)
        tiles = max(config.stages * TILE_ROWS * pitch, 4 * BLOCK_HEADS * (rank + 8))
        return tiles + scores + weights + 3 * 4 * BLOCK_HEADS
    rows = 2 * (config.stages * TILE_ROWS + BLOCK_HEADS) * (row + 8)
    return rows + 2 * BLOCK_HEADS * (TILE_ROWS + 8) + 4 * BLOCK_HEADS * (TILE_ROWS + 1) + 3 * 4 * BLOCK_HEADS


def _plain(
    dtype: str, rank: int, rope_dim: int, units: int, most: int, sm_count: int, allowed: int
) -> Iterator[LatentConfig]:
    """Splits that fill the chip once, twice and four times."""
    if dtype not in PLAIN_DTYPES or (rank + rope_dim) % 32 or rank % PLAIN_THREADS:
        return
    wanted = [min(most, max(1, -(-sm_count * blocks // units))) for blocks in PLAIN_BLOCKS_PER_SM]
    for splits in dict.fromkeys(wanted):
        for stages in PLAIN_STAGES:
            config = LatentConfig(splits, stages)
            if shared_bytes(dtype, rank, rope_dim, config) <= allowed:
                yield config


def _staged(
    dtype: str, rank: int, rope_dim: int, units: int, most: int, sm_count: int, allowed: int, clusters: bool
) -> Iterator[LatentConfig]:
    """As many splits as the chip holds at once, since a block fills a multiprocessor, and half as many."""
    if dtype not in STAGED_DTYPES or (rank + rope_dim) % 16 or rank % 64:
        return
    full = min(most, max(1, sm_count // units))
    for splits, stages in product(dict.fromkeys((full, max(1, full // 2))), STAGED_STAGES):
        for cluster in (True, False) if splits in CLUSTER_SIZES and clusters else (False,):
            config = LatentConfig(splits, stages, staged=True, cluster=cluster)
            if shared_bytes(dtype, rank, rope_dim, config) <= allowed:
                yield config

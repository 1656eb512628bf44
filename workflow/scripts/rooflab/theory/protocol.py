"""What a stage tries before it times, and for how long: what those who measure and those who foresee the cost both need.

A change here that changes a measured number also raises the stage's PROTOCOL.
"""

from dataclasses import dataclass

SEARCH_BLOCK_S = 0.005  # of a candidate: long enough that synchronising does not decide between them
GEMM_SEARCH_GAP_S = 0.05
BANDWIDTH_SEARCH_GAP_S = 0.01
BANDWIDTH_BLOCK_S = 0.01
L2_LAUNCH_S = 0.002  # one launch reads its buffer over and over for about this long: launching does not count then


@dataclass(frozen=True)
class MemoryLaunch:
    """How a memory kernel is launched: 16-byte loads in flight per thread, threads per block, and blocks per
    multiprocessor, where 0 means one tile per block, as many blocks as that takes."""

    loads_in_flight: int
    threads: int
    blocks_per_sm: int


@dataclass(frozen=True)
class FmaLaunch:
    """How the multiply-add kernel is launched: independent sums per thread, threads per block, blocks per multiprocessor."""

    chains: int
    threads: int
    blocks_per_sm: int


# The first of each is the default: the fastest on an H200. The others are for chips that want something else.
_COPY: tuple[MemoryLaunch, ...] = ()  # cudaMemcpyAsync chooses for itself
MEMORY_LAUNCHES = {
    "d2d": _COPY,
    "read": (
        *(MemoryLaunch(8, 512, 0), MemoryLaunch(8, 256, 0), MemoryLaunch(4, 512, 0), MemoryLaunch(4, 1024, 0)),
        *(MemoryLaunch(4, 1024, 2), MemoryLaunch(8, 256, 8)),
    ),
    "write": (
        *(MemoryLaunch(1, 1024, 0), MemoryLaunch(2, 256, 0), MemoryLaunch(1, 512, 0), MemoryLaunch(1, 256, 0)),
        *(MemoryLaunch(4, 512, 0), MemoryLaunch(4, 512, 4)),
    ),
    "triad": (
        *(MemoryLaunch(1, 256, 0), MemoryLaunch(1, 1024, 0), MemoryLaunch(1, 512, 0), MemoryLaunch(4, 256, 0)),
        MemoryLaunch(4, 512, 4),
    ),
    "l2": (
        *(MemoryLaunch(4, 512, 4), MemoryLaunch(8, 512, 4), MemoryLaunch(8, 1024, 2), MemoryLaunch(4, 256, 8)),
        MemoryLaunch(16, 256, 4),
    ),
}

FMA_LAUNCHES = (
    *(FmaLaunch(8, 512, 2), FmaLaunch(6, 512, 4), FmaLaunch(8, 1024, 1), FmaLaunch(8, 256, 4)),
    FmaLaunch(16, 128, 2),
)

"""Memory traffic on a device: patterns with known reads and writes, each with a check of what it did.

A pattern says how many arrays it reads and writes, and their size; bytes moved and rates are derived elsewhere. The
empty kernel, which moves nothing, is the floor under everything that is launched.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rooflab.measure.cuda.arrays import normal, poison
from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.theory.protocol import MEMORY_LAUNCHES, MemoryLaunch

VECTOR_BYTES = 16
CHECK_WORDS = 1 << 26  # words compared at once, so that a check needs little memory of its own
WRITTEN_WORD = 0x3F123456
TRIAD_FACTOR = 0.5


# Arrays that a pattern reads and writes.
READS_WRITES = {"d2d": (1, 1), "read": (1, 0), "write": (0, 1), "triad": (2, 1), "l2": (1, 0)}


@dataclass(frozen=True)
class Pattern:
    """One pattern on its buffers. Each `call` reads `reads` and writes `writes` arrays of `bytes_per_array`, `passes`
    times over. `check` runs it on poisoned output and says whether every bit of the result is right."""

    name: str
    call: Call
    check: Callable[[], bool]
    bytes_per_array: int
    reads: int
    writes: int
    passes: int
    config: MemoryLaunch | None


Buffers = tuple[list[Any], list[Any]]


def buffers(device: CudaDevice, name: str, bytes_per_array: int) -> Buffers:
    """What a pattern reads, filled with random numbers, and what it writes. Every configuration of it can share them.

    Raises ValueError for an unknown pattern or a size that is not a multiple of 16.
    """
    if name not in READS_WRITES:
        raise ValueError(f"unknown memory pattern {name!r}: expected one of {', '.join(READS_WRITES)}")
    reads, writes = READS_WRITES[name]
    sources = [_operand(device, bytes_per_array, seed) for seed in range(reads)]
    return sources, [_words(device, bytes_per_array) for _ in range(writes)]


def pattern(
    device: CudaDevice, name: str, bytes_per_array: int, config: MemoryLaunch | None = None, on: Buffers | None = None
) -> Pattern:
    """The pattern `name`: d2d (cudaMemcpyAsync), read, write or triad (to = first + factor * second, fp32).

    `config` None takes the default, `on` None buffers of its own. Raises ValueError as `buffers` does, and for l2.
    """
    if name == "l2":
        raise ValueError("l2 is a function of its own: it also takes the number of passes")
    sources, targets = on or buffers(device, name, bytes_per_array)
    chosen = config or next(iter(MEMORY_LAUNCHES[name]), None)
    call, check = _BUILDERS[name](device, sources, targets, chosen)
    return Pattern(name, call, check, bytes_per_array, len(sources), len(targets), 1, chosen)


def l2_read(
    device: CudaDevice, bytes_per_array: int, passes: int, config: MemoryLaunch | None = None, on: Buffers | None = None
) -> Pattern:
    """Reads one buffer `passes` times in one launch, from L2 and never from L1 if the buffer fits into L2."""
    chosen = config or MEMORY_LAUNCHES["l2"][0]
    sources, _ = on or buffers(device, "l2", bytes_per_array)
    call, check = _read(device, sources, [], chosen, resident=1, passes=passes)
    return Pattern("l2_read", call, check, bytes_per_array, 1, 0, passes, chosen)


def empty(device: CudaDevice, blocks: int = 1, threads: int = 32) -> Call:
    """A launch of a kernel that does nothing."""
    kernel = device.kernel("bandwidth", "empty", LOADS_IN_FLIGHT=1, RESIDENT=0)
    return lambda: kernel((blocks,), (threads,), ())


def _words(device: CudaDevice, size: int) -> Any:
    """An uninitialised buffer as 32-bit words."""
    return device.xp.empty(_word_count(size), np.uint32)


def _operand(device: CudaDevice, size: int, seed: int) -> Any:
    """Words of random fp32 numbers: what is moved is never zeros."""
    return normal(device, (_word_count(size),), "fp32", seed).view(np.uint32)


def _word_count(size: int) -> int:
    if size < VECTOR_BYTES or size % VECTOR_BYTES:
        raise ValueError(f"buffer of {size} bytes: expected a multiple of {VECTOR_BYTES}, at least {VECTOR_BYTES}")
    return size // 4


def _grid(device: CudaDevice, vectors: int, config: MemoryLaunch) -> int:
    tiles = -(-vectors // (config.threads * config.loads_in_flight))
    return min(tiles, device.sm_count * config.blocks_per_sm) if config.blocks_per_sm else tiles


def _launch(
    device: CudaDevice, function: str, words: int, config: MemoryLaunch, resident: int, arguments: list[Any]
) -> Call:
    kernel = device.kernel("bandwidth", function, LOADS_IN_FLIGHT=config.loads_in_flight, RESIDENT=resident)
    grid, block = (_grid(device, words * 4 // VECTOR_BYTES, config),), (config.threads,)
    return partial(kernel, grid, block, tuple(arguments))


def _chunks(words: int) -> Iterator[slice]:
    return (slice(start, min(start + CHECK_WORDS, words)) for start in range(0, words, CHECK_WORDS))


Built = tuple[Call, Callable[[], bool]]


def _d2d(device: CudaDevice, sources: list[Any], targets: list[Any], config: MemoryLaunch | None) -> Built:
    call = device.memory_copy(targets[0], sources[0])
    return call, partial(_equal, device, call, targets[0], lambda chunk: sources[0][chunk])


def _read(
    device: CudaDevice, sources: list[Any], targets: list[Any], config: MemoryLaunch, resident: int = 0, passes: int = 1
) -> Built:
    words, count, times = sources[0], np.int64(sources[0].nbytes // VECTOR_BYTES), np.int32(passes)
    sink, total = device.xp.zeros(1, np.uint32), device.xp.zeros(1, np.uint32)
    call = _launch(device, "read_only", words.size, config, resident, [words, sink, count, times])
    summing = _launch(device, "read_and_sum", words.size, config, resident, [words, total, count, times])

    def check() -> bool:
        total.fill(0)
        summing()
        sums = [int(words[chunk].sum(dtype=np.uint64)) for chunk in _chunks(words.size)]
        return int(total[0]) == sum(sums) * passes % 2**32

    return call, check


def _write(device: CudaDevice, sources: list[Any], targets: list[Any], config: MemoryLaunch) -> Built:
    count = np.int64(targets[0].nbytes // VECTOR_BYTES)
    call = _launch(device, "write_only", targets[0].size, config, 0, [targets[0], np.uint32(WRITTEN_WORD), count])
    vector = device.xp.asarray(WRITTEN_WORD + np.arange(4, dtype=np.uint32))

    def expected(chunk: slice) -> Any:
        return device.xp.tile(vector, (chunk.stop - chunk.start) // 4)

    return call, partial(_equal, device, call, targets[0], expected)


def _triad(device: CudaDevice, sources: list[Any], targets: list[Any], config: MemoryLaunch) -> Built:
    count, factor = np.int64(targets[0].nbytes // VECTOR_BYTES), np.float32(TRIAD_FACTOR)
    call = _launch(device, "triad", targets[0].size, config, 0, [*sources, targets[0], factor, count])

    def expected(chunk: slice) -> Any:
        first, second = (source[chunk].view(np.float32) for source in sources)
        product = second * factor
        return (first + product).view(np.uint32)

    return call, partial(_equal, device, call, targets[0], expected)


def _equal(device: CudaDevice, call: Call, target: Any, expected: Callable[[slice], Any]) -> bool:
    """Whether `call` writes to every word of `target` what is expected there."""
    poison(device, target)
    call()
    return all(bool((target[chunk] == expected(chunk)).all()) for chunk in _chunks(target.size))


_BUILDERS: dict[str, Callable[..., Built]] = {"d2d": _d2d, "read": _read, "write": _write, "triad": _triad}

"""Paid: DRAM bandwidth of the host, reading (the maximum of an array) and in a triad (a = b + s * c).

One worker thread per physical core, each on its own part of the arrays; NumPy releases the interpreter lock inside the
loops. The arrays are at least four times the last-level cache, so that they come from DRAM every time.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rooflab.machine import host_cpu
from rooflab.measure import program
from rooflab.measure.bench import Bench, Call
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.search import refuse_cached
from rooflab.measure.station import open_cpu_station

MIB = 2**20
LEAST_BYTES = 256 * MIB
TIMES_LLC = 4
SCALE = np.float32(3)
CHUNK_BYTES = (64 * 1024, 256 * 1024)

Array = NDArray[np.float32]


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """One series named after the pattern. `spec`: pattern, buffer_bytes (0: four times the cache), warmups, samples.

    Raises Unsupported for another pattern or arrays that the cache holds, Failed for too little memory or a wrong result.
    """
    pattern, workers = spec["pattern"], host_cpu.worker_threads()
    if pattern not in PATTERNS:
        raise Unsupported(f"pattern {pattern!r}: the CPU side measures {', '.join(PATTERNS)}")
    nbytes = buffer_bytes(spec["buffer_bytes"], host_cpu.llc_bytes(), host_cpu.available_bytes())
    prepare, reads, writes, details = PATTERNS[pattern]
    refuse_cached("cpu.bandwidth", nbytes * (reads + writes), host_cpu.llc_bytes())
    with ThreadPoolExecutor(workers) as pool:
        call, verify = prepare(pool, workers, nbytes // 4)
        series = bench.blocks(
            call,
            name=pattern,
            implementation=f"numpy {pattern}",
            warmups=spec["warmups"],
            iterations_per_block=1,
            blocks=spec["samples"],
            cache="cold",
        )
        verify()
    return Measurement(
        operator=pattern,
        dtype="fp32",
        shape={"bytes_per_array": nbytes // 4 * 4, "reads": reads, "writes": writes},
        series=[series],
        details={"threads": workers, "llc_bytes": host_cpu.llc_bytes(), "verified": True, **details},
    )


def buffer_bytes(asked: int, llc: int | None, available: int | None) -> int:
    """Bytes per array: `asked`, or for 0 four times the cache, at least 256 MiB, at most a quarter of the free memory.

    Raises Failed where `asked` is more than that quarter.
    """
    most = available // 4 if available is not None else None
    if not asked:
        wanted = max(TIMES_LLC * (llc or 0), LEAST_BYTES)
        return wanted if most is None else min(wanted, most)
    if most is not None and asked > most:
        raise Failed(
            f"an array of {asked} bytes is more than a quarter of the {available} bytes of free memory",
            "free memory, or set cpu.bandwidth.buffer_bytes to 0",
            own=False,
        )
    return asked


def parts(length: int, count: int) -> list[slice]:
    """`count` neighbouring slices of nearly equal length that cover `length` elements."""
    edges = [length * index // count for index in range(count + 1)]
    return [slice(*pair) for pair in zip(edges, edges[1:], strict=False)]


def triad_part(a: Array, b: Array, c: Array, scratch: Array) -> None:
    """a = b + SCALE * c, `scratch.size` elements at a time, so that the product never leaves the core's cache."""
    for start in range(0, a.size, scratch.size):
        chunk = slice(start, start + scratch.size)
        product = scratch[: a[chunk].size]
        np.multiply(c[chunk], SCALE, out=product)
        np.add(b[chunk], product, out=a[chunk])


def _prepare_read(pool: ThreadPoolExecutor, workers: int, length: int) -> tuple[Call, Callable[[], None]]:
    pieces = [piece for piece in parts(length, workers) if piece.stop > piece.start]
    array = np.empty(length, np.float32)
    list(pool.map(lambda piece: array[piece].fill(-1), pieces))
    planted = np.arange(len(pieces), dtype=np.float32)
    array[[piece.stop - 1 for piece in pieces]] = planted

    def call() -> list[np.float32]:
        return list(pool.map(lambda piece: np.maximum.reduce(array[piece]), pieces))

    return call, lambda: _require_equal("read", np.array(call()), planted)


def _prepare_triad(pool: ThreadPoolExecutor, workers: int, length: int) -> tuple[Call, Callable[[], None]]:
    a, b, c = (np.empty(length, np.float32) for _ in range(3))
    scratches = [np.empty(_chunk_bytes() // 4, np.float32) for _ in range(workers)]
    pieces = parts(length, workers)

    def fill(piece: slice) -> None:
        for start in range(piece.start, piece.stop, MIB):
            rows = np.arange(start, min(start + MIB, piece.stop))
            a[rows[0] : rows[-1] + 1] = 0
            b[rows[0] : rows[-1] + 1] = rows % 1024
            c[rows[0] : rows[-1] + 1] = rows % 1021

    def work(piece: slice, scratch: Array) -> None:
        triad_part(a[piece], b[piece], c[piece], scratch)

    def verify() -> None:
        rows = np.random.default_rng(0).integers(0, length, 4096)
        _require_equal("triad", a[rows], (rows % 1024 + 3 * (rows % 1021)).astype(np.float32))

    list(pool.map(fill, pieces))
    return lambda: list(pool.map(work, pieces, scratches)), verify


def _chunk_bytes() -> int:
    """A quarter of the core's L2, so that three operands and the product fit: at least 64, at most 256 KiB."""
    least, most = CHUNK_BYTES
    return min(most, max(least, (host_cpu.l2_bytes_per_core() or 0) // 4))


def _require_equal(pattern: str, got: NDArray[Any], want: NDArray[Any]) -> None:
    if not np.array_equal(got, want):
        wrong = int(np.count_nonzero(got != want))
        raise Failed(f"{pattern}: {wrong} of {want.size} results checked are wrong", "test the memory of this machine")


READ_DETAILS = {"method": "np.maximum.reduce of fp32, one call per thread"}
TRIAD_DETAILS = {
    "method": "np.multiply into a scratch chunk that stays in L2, then np.add",
    "not_counted": "the read of a's lines that a cache does before it writes them (write-allocate)",
}
PATTERNS = {
    "read": (_prepare_read, 1, 0, READ_DETAILS),
    "triad": (_prepare_triad, 2, 1, TRIAD_DETAILS),
}


if __name__ == "__main__":
    program.main(measure, "cpu", open_cpu_station)

"""Paid: the GEMM rate of the host CPU, numpy.matmul of square matrices through NumPy's BLAS."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rooflab.machine import host_cpu
from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.outcome import Measurement, Unsupported
from rooflab.measure.search import ANOTHER_BLAS, verified
from rooflab.measure.station import open_cpu_station
from rooflab.reference.attention import relative_error

# Frobenius norm of the error over that of the float64 result; a sound BLAS is several times better.
TOLERANCES = {"fp32": 5e-6, "fp64": 1e-13}
NUMPY_DTYPES = {"fp32": np.float32, "fp64": np.float64}
CHECKED_ROWS = 32
IMPLEMENTATION = "numpy.matmul"

Array = NDArray[Any]


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """Series lab, burst and sustained of c = a b, each (n, n) of standard normal numbers.

    Raises Unsupported for a dtype that BLAS does not have, Failed for a result beyond its tolerance.
    """
    dtype, n = spec["dtype"], spec["n"]
    if dtype not in NUMPY_DTYPES:
        raise Unsupported(f"NumPy's BLAS multiplies fp32 and fp64 only: it has no fast {dtype} GEMM")
    a, b, c = operands(n, dtype)
    with host_cpu.blas_limited(host_cpu.threads()) as blas:
        series = _series(spec, bench, a, b, c)
    return Measurement(
        operator="gemm",
        dtype=dtype,
        shape={"m": n, "n": n, "k": n},
        series=series,
        details={"threads": host_cpu.threads(), "blas": blas, "checked_rows": min(CHECKED_ROWS, n)},
    )


def operands(n: int, dtype: str) -> tuple[Array, Array, Array]:
    """a, b standard normal and c of zeros, each (n, n); the same numbers every time."""
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((n, n)).astype(NUMPY_DTYPES[dtype]) for _ in range(2))
    return a, b, np.zeros_like(a)


def checked(a: Array, b: Array, c: Array, tolerance: float) -> dict[str, float]:
    """Relative error of 32 random rows of `c` against float64. Raises Failed beyond `tolerance` or for NaN."""
    rows = np.random.default_rng(1).choice(len(c), min(CHECKED_ROWS, len(c)), replace=False)
    error = relative_error(c[rows], a[rows].astype(np.float64) @ b.astype(np.float64))
    return verified(error, tolerance, IMPLEMENTATION, ANOTHER_BLAS)


def _series(spec: dict[str, Any], bench: Bench, a: Array, b: Array, c: Array) -> list[dict[str, Any]]:
    def call() -> None:
        np.matmul(a, b, out=c)

    lab = bench.blocks(
        call,
        name="lab",
        implementation=IMPLEMENTATION,
        warmups=spec["warmups"],
        iterations_per_block=spec["iterations"],
        blocks=1,
    )
    lab |= checked(a, b, c, TOLERANCES[spec["dtype"]])
    burst = bench.burst(
        call,
        name="burst",
        implementation=IMPLEMENTATION,
        warmups=spec["warmups"],
        block_s=spec["burst_block_s"],
        blocks=spec["burst_blocks"],
        gap_s=spec["burst_gap_s"],
    )
    if not spec["sustained_s"]:
        return [lab, burst]
    sustained = bench.sustained(
        call,
        name="sustained",
        implementation=IMPLEMENTATION,
        seconds=spec["sustained_s"],
        block_s=spec["burst_block_s"],
    )
    return [lab, burst, sustained]


if __name__ == "__main__":
    program.main(measure, "cpu", open_cpu_station)

"""Paid: cuBLAS GEMM in one dtype and size: the lab's value, burst and sustained, and what else cuBLASLt proposes.

The path that ran is proved by the relative error against float64: each arithmetic has a window the others fall out of.
"""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.theory import vendor
from rooflab.theory.dtypes import refusal, variant

# Chips whose Tensor Cores sum in fp32 as fast as in fp16 (NVIDIA's datacentre parts: V100, A100, H100/H200, B200/B300); the
# others, GeForce and its kin, halve the rate
SAME_RATE = {"fp16_acc16": (70, 80, 90, 100, 103)}
SEARCH_GAP_S = 0.05
SEARCH_BLOCK_S = 0.005  # long enough that synchronising does not decide between algorithms
CLEARLY_FASTER = 0.99
INVESTIGATE_BELOW = 0.5


def measure(spec: dict[str, Any], bench: Bench) -> program.Measurement:
    """Series lab, burst, sustained of the plain product, and `burst candidate` where another algorithm is faster.

    Raises paid.Unsupported where the chip has no such arithmetic, paid.Failed when another arithmetic ran than asked for.
    """
    from rooflab.measure.cuda.gemm import GemmCase
    from rooflab.measure.cuda.kernel_names import kernel_names

    n, dtype = spec["n"], variant(spec["dtype"]).name
    _refuse(bench.device, dtype, n)
    if bench.device.compute_capability in SAME_RATE.get(spec["dtype"], ()):
        raise program.Unsupported(f"{spec['dtype']} has no rate of its own on this chip: it runs as fast as {dtype}")
    case = GemmCase(bench.device, spec["dtype"], n)
    call = _plain(case)
    case.poison()
    lab = bench.blocks(
        call,
        name="lab",
        implementation=case.path,
        warmups=spec["warmups"],
        iterations_per_block=spec["iterations"],
        blocks=1,
    )
    lab |= _verified(case)
    series = [lab, _burst(spec, bench, call, "burst", case.path)]
    search, candidate = _search(spec, bench, case)
    if candidate is not None:
        series.append(
            _burst(spec, bench, candidate.call, "burst candidate", candidate.name) | _checked(case, candidate)
        )
    details: dict[str, Any] = {
        "search": search,
        "chosen": candidate.name if candidate else case.path,
        "path": case.path,
    }
    details["path_proved_by"] = "relative error against float64"
    details |= {"scales": case.scales, "investigations": _investigate(spec["dtype"], bench, case, series[1])}
    sustained = bench.sustained(
        call,
        name="sustained",
        implementation=case.path,
        seconds=spec["sustained_s"],
        block_s=10 * spec["burst_block_s"],
    )
    details["kernels"] = kernel_names(bench.device, candidate.call if candidate else call)
    return program.Measurement("gemm", dtype, {"m": n, "n": n, "k": n}, [*series, sustained], details)


def _plain(case: Any) -> Any:
    """The plain call. Raises paid.Failed where cuBLASLt has no algorithm for it."""
    from rooflab.measure.cuda.cublaslt import LtError

    try:
        return case.call()
    except LtError as error:
        raise program.Failed(
            f"{case.variant}: cuBLASLt refuses it: {error}", "try a newer cuBLAS, then run again"
        ) from error


def _refuse(device: Any, dtype: str, n: int) -> None:
    if reason := refusal(dtype, device.compute_capability):
        raise program.Unsupported(reason)
    if n % variant(dtype).multiple:
        raise program.Unsupported(f"{dtype} needs a size that is a multiple of {variant(dtype).multiple}, not {n}")


def _verified(case: Any) -> dict[str, float]:
    """The relative error of what the result holds now. Raises paid.Failed outside the dtype's window."""
    low, high = variant(case.variant).product_error
    error = case.relative_error()
    if not low <= error <= high:
        raise program.Failed(
            f"{case.variant}: relative error {error:.2g} against float64, expected {low:.2g} to {high:.2g}: "
            "another arithmetic ran than was asked for",
            "unset variables that change cuBLAS (NVIDIA_TF32_OVERRIDE, CUPY_TF32) and run the same command again",
        )
    return {"relative_error": error, "tolerance": high}


def _checked(case: Any, candidate: Any) -> dict[str, float]:
    """Runs the timed algorithm once more on a poisoned result and verifies it."""
    case.poison()
    candidate.call()
    return _verified(case)


def _burst(spec: dict[str, Any], bench: Bench, call: Any, name: str, implementation: str) -> dict[str, Any]:
    return bench.burst(
        call,
        name=name,
        implementation=implementation,
        warmups=spec["warmups"],
        block_s=spec["burst_block_s"],
        blocks=spec["burst_blocks"],
        gap_s=spec["burst_gap_s"],
    )


def _search(spec: dict[str, Any], bench: Bench, case: Any) -> tuple[list[dict[str, Any]], Any]:
    """Times the plain call and cuBLASLt's other proposals alike; the fastest of these if it is clearly faster, or None.

    A proposal that the library then refuses is noted and passed over: the plain call stands."""
    from rooflab.measure.cuda.cublaslt import LtError

    search = [{"name": case.path, "seconds_per_call": _rested_seconds(bench, case.call()), "config": None}]
    best = None
    try:
        candidates = case.candidates(spec["algorithms"]) if spec["algorithms"] else []
    except LtError as error:
        return [*search, {"name": "cuBLASLt heuristic", "refused": str(error)}], None
    for candidate in candidates:
        entry: dict[str, Any] = {"name": candidate.name, "config": candidate.config}
        try:
            entry["seconds_per_call"] = _rested_seconds(bench, candidate.call)
            best = min(
                best or (entry["seconds_per_call"], candidate), (entry["seconds_per_call"], candidate), key=_first
            )
        except LtError as error:
            entry["refused"] = str(error)
        search.append(entry)
    plain_s = search[0]["seconds_per_call"]
    return search, best[1] if best is not None and best[0] < CLEARLY_FASTER * plain_s else None


def _first(pair: tuple[float, Any]) -> float:
    return pair[0]


def _rested_seconds(bench: Bench, call: Any) -> float:
    bench.sleep(SEARCH_GAP_S)
    return bench.seconds_per_call(call, at_least_s=SEARCH_BLOCK_S)


def _investigate(arithmetic: str, bench: Bench, case: Any, burst: dict[str, Any]) -> list[dict[str, Any]]:
    """Below half of the vendor's peak: a larger matrix, a loaded chip, the next algorithm. Their verdict is free."""
    per_call = sorted(burst["samples_s"])[len(burst["samples_s"]) // 2] / burst["iterations_per_sample"]
    peak = _vendor_flop_per_s(bench.device, arithmetic)
    if peak is None or 2 * case.n**3 / per_call >= INVESTIGATE_BELOW * peak:
        return []
    found = [_larger(bench, case)]
    bench.sustained(case.call(), name="load", implementation=case.path, seconds=2.0, block_s=0.1)
    found.append(
        _finding("after sustained load", case.n, case.path, bench.seconds_per_call(case.call(), SEARCH_BLOCK_S))
    )
    for candidate in case.candidates(1):
        found.append(
            _finding("other path", case.n, candidate.name, bench.seconds_per_call(candidate.call, SEARCH_BLOCK_S))
        )
    return found


def _larger(bench: Bench, case: Any) -> dict[str, Any]:
    try:
        other = type(case)(bench.device, case.variant, 8192)
    except MemoryError as error:
        return {"name": "larger matrix", "n": 8192, "refused": f"out of memory: {error}"}
    return _finding("larger matrix", 8192, other.path, bench.seconds_per_call(other.call(), SEARCH_BLOCK_S))


def _finding(name: str, n: int, implementation: str, seconds: float) -> dict[str, Any]:
    return {"name": name, "n": n, "implementation": implementation, "seconds_per_call": seconds}


def _vendor_flop_per_s(device: Any, arithmetic: str) -> float | None:
    """The one glance at the vendor table while the card is rented: is the investigation due?"""
    facts = device.properties()
    peaks = vendor.vendor_peaks(
        facts["name"], facts["sm_count"], facts["compute_capability"], facts["sm_clock_hz"], facts["memory_bytes"]
    )
    figure = peaks.flop_per_s.get(arithmetic)
    return figure.value if figure else None


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

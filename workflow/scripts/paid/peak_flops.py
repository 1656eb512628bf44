"""Paid: cuBLAS GEMM in one dtype and size: the lab's value, burst and sustained, and what else cuBLASLt proposes.

The path that ran is proved by the relative error against float64: each arithmetic has a window the others fall out of.
"""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.clock import Call
from rooflab.measure.cuda.cublaslt import LtError
from rooflab.measure.cuda.device import CudaDevice
from rooflab.measure.cuda.gemm import Candidate, GemmCase
from rooflab.measure.cuda.kernel_names import kernel_names
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Failed, Measurement, Unsupported
from rooflab.measure.search import Search, computed, refuse_format, verified
from rooflab.measure.series import Series
from rooflab.theory import recorded, vendor, work
from rooflab.theory.dtypes import variant
from rooflab.theory.issue_rates import sums_no_faster
from rooflab.theory.protocol import GEMM_SEARCH_GAP_S, SEARCH_BLOCK_S
from rooflab.theory.quantiles import median

CLEARLY_FASTER = 0.99
INVESTIGATE_BELOW = 0.5
LAB_PARTS = 10  # of the one timed block, so that a trend inside it shows
SUSTAINED_BLOCK = 3  # blocks of a sustained run are so many times a burst's: several in a cycle of the power limiter
UNSET = "unset variables that change cuBLAS (NVIDIA_TF32_OVERRIDE, CUPY_TF32) and run the same command again"


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """Series lab and burst of the plain product, `burst candidate` where another algorithm is faster, and sustained of the
    fastest.

    Raises Unsupported where the chip has no such arithmetic, Failed when another arithmetic ran than was asked for.
    """
    n, dtype = spec["n"], variant(spec["dtype"]).name
    _refuse(bench.device, spec["dtype"], n)
    case = GemmCase(bench.device, spec["dtype"], n)
    call = _plain(case)
    series = [_lab(spec, bench, case, call), _burst(spec, bench, call, "burst", case.path)]
    search, candidate = _search(spec, bench, case)
    if candidate is not None:
        error = computed(case, [candidate.call], bench.synchronize)
        taken = _burst(spec, bench, candidate.call, "burst candidate", candidate.name)
        series.append(taken | _verified(case, error))
    details: dict[str, Any] = {
        "search": search,
        "chosen": candidate.name if candidate else case.path,
        "path": case.path,
        "path_proved_by": "relative error against float64",
        "scales": case.scales,
        "investigations": _investigate(spec["dtype"], bench, case, series[1]),
    }
    if spec["sustained_s"]:
        series.append(_sustained(spec, bench, *((candidate.call, candidate.name) if candidate else (call, case.path))))
    details["kernels"] = kernel_names(bench.device, candidate.call if candidate else call)
    return Measurement("gemm", dtype, {"m": n, "n": n, "k": n}, series, details)


def _sustained(spec: dict[str, Any], bench: Bench, call: Call, implementation: str) -> Series:
    """Seconds of load of the algorithm that is the ceiling."""
    block_s = SUSTAINED_BLOCK * spec["burst_block_s"]
    return bench.sustained(
        call, name="sustained", implementation=implementation, seconds=spec["sustained_s"], block_s=block_s
    )


def _plain(case: GemmCase) -> Call:
    """The plain call. Raises Failed where cuBLASLt has no algorithm for it."""
    try:
        return case.call()
    except LtError as error:
        raise Failed(f"{case.variant}: cuBLASLt refuses it: {error}", "try a newer cuBLAS, then run again") from error


def _refuse(device: CudaDevice, name: str, n: int) -> None:
    """Raises Unsupported where the chip has no such arithmetic, or none that differs from the dtype's own."""
    arithmetic = variant(name)
    refuse_format(device.compute_capability, name)
    if n % arithmetic.multiple:
        raise Unsupported(f"{arithmetic.name} needs a size that is a multiple of {arithmetic.multiple}, not {n}")
    if sums_no_faster(name, device.compute_capability):
        raise Unsupported(f"{name} has no rate of its own on this chip: it runs as fast as {arithmetic.name}")


def _verified(case: GemmCase, error: float) -> dict[str, float]:
    """Raises Failed outside the window of the variant's arithmetic."""
    low, high = variant(case.variant).product_error
    what = f"{case.variant}: another arithmetic ran than was asked for, or wrongly: the product"
    return verified(error, high, what, UNSET, least=low)


def _lab(spec: dict[str, Any], bench: Bench, case: GemmCase, call: Call) -> Series:
    """The lab's launches in a row, on a poisoned result, which is then verified."""
    case.poison()
    taken = bench.blocks(
        call,
        name="lab",
        implementation=case.path,
        warmups=spec["warmups"],
        iterations_per_block=spec["iterations"],
        blocks=1,
        parts=LAB_PARTS if spec["iterations"] % LAB_PARTS == 0 else 1,
    )
    return taken | _verified(case, case.relative_error())


def _burst(spec: dict[str, Any], bench: Bench, call: Call, name: str, implementation: str) -> Series:
    return bench.burst(
        call,
        name=name,
        implementation=implementation,
        warmups=spec["warmups"],
        block_s=spec["burst_block_s"],
        blocks=spec["burst_blocks"],
        gap_s=spec["burst_gap_s"],
    )


def _search(spec: dict[str, Any], bench: Bench, case: GemmCase) -> tuple[Search, Candidate | None]:
    """Times the plain call and cuBLASLt's other proposals alike; the fastest of these if it is clearly faster, or None.

    A proposal that the library then refuses is noted and passed over: the plain call stands."""
    search: Search = [{"name": case.path, "seconds_per_call": _rested_seconds(bench, case.call()), "config": None}]
    try:
        candidates = {each.name: each for each in (case.candidates(spec["algorithms"]) if spec["algorithms"] else [])}
    except LtError as error:
        return [*search, {"name": "cuBLASLt heuristic", "refused": str(error)}], None
    search += [_tried(bench, candidate) for candidate in candidates.values()]
    best = min((each for each in search if "seconds_per_call" in each), key=lambda each: each["seconds_per_call"])
    clearly = best["seconds_per_call"] < CLEARLY_FASTER * search[0]["seconds_per_call"]
    return search, candidates[best["name"]] if clearly else None


def _tried(bench: Bench, candidate: Candidate) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": candidate.name, "config": candidate.config}
    try:
        return entry | {"seconds_per_call": _rested_seconds(bench, candidate.call)}
    except LtError as error:
        return entry | {"refused": str(error)}


def _rested_seconds(bench: Bench, call: Call) -> float:
    bench.sleep(GEMM_SEARCH_GAP_S)
    return bench.seconds_per_call(call, at_least_s=SEARCH_BLOCK_S)


def _investigate(arithmetic: str, bench: Bench, case: GemmCase, burst: Series) -> list[dict[str, Any]]:
    """Below half of the vendor's peak: a larger matrix, a loaded chip, the next algorithm. Their verdict is free."""
    per_call = median(recorded.seconds_per_launch(burst))
    peak = _vendor_flop_per_s(bench.device, arithmetic)
    if peak is None or work.square_product(case.n) / per_call >= INVESTIGATE_BELOW * peak:
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


def _larger(bench: Bench, case: GemmCase) -> dict[str, Any]:
    try:
        other = type(case)(bench.device, case.variant, 8192)
    except MemoryError as error:
        return {"name": "larger matrix", "n": 8192, "refused": f"out of memory: {error}"}
    return _finding("larger matrix", 8192, other.path, bench.seconds_per_call(other.call(), SEARCH_BLOCK_S))


def _finding(name: str, n: int, implementation: str, seconds: float) -> dict[str, Any]:
    return {"name": name, "n": n, "implementation": implementation, "seconds_per_call": seconds}


def _vendor_flop_per_s(device: CudaDevice, arithmetic: str) -> float | None:
    """The one glance at the vendor table while the card is rented: is the investigation due?"""
    facts = device.properties()
    peaks = vendor.vendor_peaks(
        facts["name"], facts["sm_count"], facts["compute_capability"], facts["sm_clock_hz"], facts["memory_bytes"]
    )
    figure = peaks.flop_per_s.get(arithmetic)
    return figure.value if figure else None


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

"""Paid: the fp32 instruction peak of the CUDA cores: multiply-adds in registers, no memory, no library."""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.fma import TOLERANCE, FmaCase
from rooflab.measure.cuda.station import open_cuda_station
from rooflab.measure.outcome import Measurement
from rooflab.measure.search import fastest, verified
from rooflab.theory.protocol import FMA_LAUNCHES, SEARCH_BLOCK_S

TUNING_ROUNDS = 512


def measure(spec: dict[str, Any], bench: Bench) -> Measurement:
    """Series burst and sustained of the fastest launch configuration.

    Raises Failed if the kernel's sums are not the host's.
    """
    device = bench.device
    launches = {str(launch): launch for launch in FMA_LAUNCHES}
    best, search = fastest(
        launches, lambda each: _seconds_per_fma(bench, FmaCase(device, each, TUNING_ROUNDS)), unit="fma"
    )
    per_fma = min(each["seconds_per_fma"] for each in search)
    rounds = max(1, round(spec["launch_s"] / (per_fma * _count(FmaCase(device, launches[best], 1)))))
    case = FmaCase(device, launches[best], rounds)
    proof = verified(case.relative_error(), TOLERANCE, "the multiply-add kernel")
    common = {"implementation": "register FMA kernel", "block_s": spec["burst_block_s"]}
    burst = bench.burst(
        case.call(),
        name="burst",
        warmups=spec["warmups"],
        blocks=spec["burst_blocks"],
        gap_s=spec["burst_gap_s"],
        **common,
    )
    sustained = bench.sustained(case.call(), name="sustained", seconds=spec["sustained_s"], **common)
    details = {"search": search, "configuration": best}
    return Measurement("fma", spec["dtype"], case.shape, [burst | proof, sustained | proof], details)


def _seconds_per_fma(bench: Bench, case: FmaCase) -> float:
    return bench.seconds_per_call(case.call(), at_least_s=SEARCH_BLOCK_S) / _count(case)


def _count(case: FmaCase) -> int:
    """Multiply-adds of a launch."""
    return case.shape["threads"] * case.shape["fma_per_thread"]


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

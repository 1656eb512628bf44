"""Paid: the fp32 instruction peak of the CUDA cores: multiply-adds in registers, no memory, no library."""

from typing import Any

from rooflab.measure import program
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.station import open_cuda_station

TUNING_ROUNDS = 512


def measure(spec: dict[str, Any], bench: Bench) -> program.Measurement:
    """Series burst and sustained of the fastest launch configuration.

    Raises paid.Failed if the kernel's sums are not the host's.
    """
    from rooflab.measure.cuda.fma import CONFIGS, FmaCase

    device = bench.device
    tried = [(_seconds_per_fma(bench, FmaCase(device, config, TUNING_ROUNDS)), config) for config in CONFIGS]
    per_fma, config = min(tried, key=lambda pair: pair[0])
    once = FmaCase(device, config, 1).shape
    rounds = max(1, round(spec["launch_s"] / (per_fma * once["threads"] * once["fma_per_thread"])))
    case = FmaCase(device, config, rounds)
    proof = _verified(case)
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
    search = [{"name": str(each), "seconds_per_fma": seconds} for seconds, each in tried]
    details = {"search": search, "configuration": str(config)}
    return program.Measurement("fma", spec["dtype"], case.shape, [burst | proof, sustained | proof], details)


def _seconds_per_fma(bench: Bench, case: Any) -> float:
    shape = case.shape
    return bench.seconds_per_call(case.call(), at_least_s=0.005) / (shape["threads"] * shape["fma_per_thread"])


def _verified(case: Any) -> dict[str, float]:
    from rooflab.measure.cuda.fma import TOLERANCE

    error = case.relative_error()
    if not error <= TOLERANCE:
        raise program.Failed(
            f"the multiply-add kernel is off by {error:.2g}: expected at most {TOLERANCE:.2g}",
            "report this with the record: the kernel is wrong on this chip",
        )
    return {"relative_error": error, "tolerance": TOLERANCE}


if __name__ == "__main__":
    program.main(measure, "gpu", open_cuda_station)

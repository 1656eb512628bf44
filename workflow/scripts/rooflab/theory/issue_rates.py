"""How many FLOP one SM can issue in a clock, per format and compute capability: times SMs and clock, the physical limit.

Sources: the architecture white papers, and data sheet peak / (SMs x clock), which the tests repeat for every row of the
vendor table. 10.3: the HGX B300 sheet, whose fp64 (10 TFLOPS of eight cards) and int8 (2 sparse POPS) are a fraction of the
B200's. 12.1: GB10's 31 TFLOPS of fp32 and 1 sparse PFLOPS of fp4 over 48 SMs, the ratios of 12.0.
"""

import re
from dataclasses import dataclass

from rooflab.theory.dtypes import variant
from rooflab.theory.parts import parts

# Dense FLOP (2 per fused multiply-add) per clock per SM at full rate. fp64 is the Tensor Core rate where there is one.
FLOP_PER_CLOCK_PER_SM: dict[str, dict[str, int]] = {
    "7.0": {"fp32": 128, "fp16": 1024, "fp64": 64, "fp16_acc16": 1024},
    "7.5": {"fp32": 128, "fp16": 1024, "int8": 2048, "fp64": 4, "fp16_acc16": 1024},
    "8.0": {"fp32": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096, "fp64": 128, "fp16_acc16": 2048},
    "8.6": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "int8": 2048, "fp64": 4, "fp16_acc16": 1024},
    "8.9": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8_e4m3": 2048, "int8": 2048, "fp64": 4,
            "fp16_acc16": 1024, "fp8_e4m3_full": 2048},
    "9.0": {"fp32": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "fp8_e4m3": 8192, "int8": 8192, "fp64": 256,
            "fp16_acc16": 4096, "fp8_e4m3_full": 8192},
    "10.0": {"fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8_e4m3": 16384, "int8": 16384, "fp64": 128,
             "fp16_acc16": 8192, "fp8_e4m3_full": 16384},
    "10.3": {"fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8_e4m3": 16384, "int8": 512, "fp64": 4,
             "fp16_acc16": 8192, "fp8_e4m3_full": 16384},
    "12.0": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8_e4m3": 2048, "int8": 2048, "fp64": 4,
             "fp16_acc16": 1024, "fp8_e4m3_full": 2048},
    "12.1": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8_e4m3": 2048, "int8": 2048, "fp64": 4,
             "fp16_acc16": 1024, "fp8_e4m3_full": 2048},
}  # fmt: skip
FP64_TENSOR_CORES = ("8.0", "9.0", "10.0")
CUDA_CORE, TENSOR_CORE = "CUDA core", "Tensor Core"

# Compute capability 7.5 without Tensor Cores (TU116, TU117). Their CUDA cores have fp16 at twice the fp32 rate.
NO_TENSOR_CORES = re.compile(r"\b(GTX 16\d\d|MX\d{3}|T\d{3,4})\b")
WITHOUT_TENSOR_CORES = {"fp32": 128, "fp16": 256, "fp64": 4, "fp16_acc16": 256}

# GeForce parts of these architectures, and rows of the table that say so, accumulate in fp32 at half of the Tensor Core
# rate. In fp8 the data sheet's "with fp32 accumulate" is halved too, but the hardware does more: with fast accumulation the
# library chooses, and on 12.x block-scaled products accumulate in fp32 at full rate (RTX 5060 Ti: 184.6 TFLOPS measured by
# github QuantumDrizzy/BLACKWALL, of 94.8 printed; RTX 5090: NVIDIA/CUDALibrarySamples issue 283).
HALF_RATE_ARCHITECTURES = ("7.5", "8.6", "8.9", "12.0")
HALVED_ON_THE_SHEET = ("tf32", "fp16", "bf16", "fp8_e4m3", "fp8_e4m3_full")
HALVED_IN_HARDWARE = {"8.9": ("tf32", "fp16", "bf16", "fp8_e4m3_full")}
HALVED_ELSEWHERE = ("tf32", "fp16", "bf16")

# Export versions without a row of their own, whose rates were cut below the architecture's
EXPORT_VERSIONS = re.compile(r"\b(H20|H800|L20|L2)\b")


@dataclass(frozen=True)
class IssueRate:
    """What one SM issues: `flop_per_clock` on `unit` ("CUDA core" or "Tensor Core"), or None with the `reason`.

    `half_rate`: the Tensor Cores of this card sum that format at half speed, and the rate is that.
    """

    flop_per_clock: float | None
    unit: str | None = None
    reason: str | None = None
    half_rate: bool = False


def issue_rate(card: str, compute_capability: str, peak: str, on_sheet: bool = False) -> IssueRate:
    """The most FLOP (or int8 operations) of `peak`, of PEAKS, that one SM of the card can issue in a clock.

    `card` is the NVML name without a MIG profile. `on_sheet`: the rate that the vendor's data sheets count instead, which
    on half-rate cards is lower than the hardware's in fp8. Raises ValueError for a capability in another form than "9.0".
    """
    reason = _unknown(card, compute_capability, peak)
    if reason is not None:
        return IssueRate(None, reason=reason)
    if not has_tensor_cores(card, compute_capability):
        return IssueRate(WITHOUT_TENSOR_CORES[peak], CUDA_CORE)
    halved = HALVED_ON_THE_SHEET if on_sheet else HALVED_IN_HARDWARE.get(compute_capability, HALVED_ELSEWHERE)
    half = peak in halved and is_half_rate(card, compute_capability)
    rate = FLOP_PER_CLOCK_PER_SM[compute_capability][peak] / (2 if half else 1)
    return IssueRate(rate, unit(card, compute_capability, peak), half_rate=half)


def unit(card: str, compute_capability: str, peak: str) -> str:
    """The part of the GPU that multiplies a format: fp32 always on CUDA cores, fp64 on Tensor Cores where they do it."""
    tensor = peak != "fp32" and (peak != "fp64" or compute_capability in FP64_TENSOR_CORES)
    return TENSOR_CORE if tensor and has_tensor_cores(card, compute_capability) else CUDA_CORE


def has_tensor_cores(card: str, compute_capability: str) -> bool:
    """Whether the chip has Tensor Cores: from compute capability 7.0 on, but for GTX 16 and its kin."""
    chip = capability(compute_capability)
    return chip >= (7, 0) and not (chip == (7, 5) and NO_TENSOR_CORES.search(card))


def is_half_rate(card: str, compute_capability: str) -> bool:
    """Whether the Tensor Cores of the card accumulate in fp32 at half speed."""
    listed = any(part.half_rate for part in parts() if part.device_name == card)
    return listed or ("GeForce" in card and compute_capability in HALF_RATE_ARCHITECTURES)


def sums_no_faster(name: str, compute_capability: int) -> bool:
    """Whether a way of summing has no rate of its own on a chip (9.0 is 90): it spares the halved accumulation, and no listed
    card of this compute capability halves it. False where no card is listed, and for a format's own way of summing.

    Raises ValueError for an unknown format."""
    spared = name not in HALVED_ON_THE_SHEET and variant(name).name in HALVED_ON_THE_SHEET
    chip = f"{compute_capability // 10}.{compute_capability % 10}"
    listed = [part for part in parts() if part.compute_capability == chip]
    halved = chip in HALF_RATE_ARCHITECTURES or any(part.half_rate for part in listed)
    return spared and bool(listed) and not halved


def lacking(peak: str, compute_capability: str) -> str | None:
    """Why no chip of this compute capability computes `peak` on Tensor Cores; None where the format exists."""
    first = variant(peak).first_capability
    if capability(compute_capability) >= first:
        return None
    return f"no {peak} Tensor Cores on compute capability {compute_capability}: they start at {first[0]}.{first[1]}"


def capability(text: str) -> tuple[int, int]:
    """(9, 0) of "9.0". Raises ValueError for another form."""
    if not re.fullmatch(r"\d+\.\d", text):
        raise ValueError(f"compute capability is {text!r}: expected major and minor like '9.0'")
    major, minor = text.split(".")
    return int(major), int(minor)


def _unknown(card: str, compute_capability: str, peak: str) -> str | None:
    """Why the rate is not known for this card; None if it is."""
    lacks = lacking(peak, compute_capability)
    if compute_capability not in FLOP_PER_CLOCK_PER_SM:
        return f"no FLOP per clock per SM known for compute capability {compute_capability}"
    if EXPORT_VERSIONS.search(card):
        return f"{card!r} is an export version whose rates were cut below its architecture"
    if not has_tensor_cores(card, compute_capability) and peak not in WITHOUT_TENSOR_CORES:
        return f"{card!r} has no Tensor Cores"
    return lacks

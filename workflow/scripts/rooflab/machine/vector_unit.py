"""A processor's name and its widest vector unit, out of one entry of /proc/cpuinfo."""

import platform
import re
from dataclasses import dataclass

Processor = dict[str, str]

# Linux, arch/arm64/include/asm/cputype.h; 128-bit FMA pipes: Arm's software optimization guide of each core
ARM_CORES = {
    ("0x41", "0xd0c"): ("Arm Neoverse N1", 2),
    ("0x41", "0xd40"): ("Arm Neoverse V1", 4),
    ("0x41", "0xd49"): ("Arm Neoverse N2", 2),
    ("0x41", "0xd4f"): ("Arm Neoverse V2", 4),
}
SKYLAKE_SERVER = 85  # also Cascade Lake and Cooper Lake; their smaller parts have one AVX-512 FMA unit
SERVERS_WITH_TWO = {106: "Ice Lake", 143: "Sapphire Rapids", 207: "Emerald Rapids", 173: "Granite Rapids"}
ATOM_WITH_AVX2 = {190}  # Alder Lake-N: narrower units than the AVX2 of a Core


@dataclass(frozen=True)
class VectorUnit:
    """The widest vector instructions of a core: their name, fp32 numbers per vector, FMA units of that width."""

    simd: str | None
    fp32_lanes: int | None
    fma_units: int | None
    reason: str | None = None


def parse_cpuinfo(text: str) -> list[Processor]:
    """One dict per logical CPU of a /proc/cpuinfo."""
    parsed = []
    for block in text.strip().split("\n\n"):
        lines = (line.partition(":") for line in block.splitlines() if ":" in line)
        fields = {name.strip(): value.strip() for name, _, value in lines}
        if "processor" in fields:
            parsed.append(fields)
    return parsed


def model_name(cpu: Processor) -> str:
    """The model as the kernel names it; Arm cores by implementer and part number, the architecture as a last resort."""
    part = (cpu.get("CPU implementer", ""), cpu.get("CPU part", ""))
    if "model name" in cpu:
        return " ".join(cpu["model name"].split())
    if part in ARM_CORES:
        return ARM_CORES[part][0]
    return f"Arm implementer {part[0]} part {part[1]}" if all(part) else platform.machine()


def vector_unit(cpu: Processor) -> VectorUnit:
    """The vector unit of one /proc/cpuinfo entry."""
    flags = set(cpu.get("flags", cpu.get("Features", "")).split())
    if "asimd" in flags:
        return _arm_unit(cpu)
    if "avx512f" in flags:
        return VectorUnit("AVX-512", 16, *_avx512_fma_units(cpu))
    if {"avx2", "fma"} <= flags:
        return VectorUnit("AVX2", 8, *_avx2_fma_units(cpu, flags))
    if "avx" in flags:
        return VectorUnit("AVX", 8, None, "FMA units: this CPU has no fused multiply-add with AVX2")
    if "sse2" in flags:
        return VectorUnit("SSE2", 4, None, "FMA units: this CPU has no fused multiply-add")
    return VectorUnit(None, None, None, "vector unit: the kernel lists no vector instructions this program knows")


def _arm_unit(cpu: Processor) -> VectorUnit:
    part = (cpu.get("CPU implementer", ""), cpu.get("CPU part", ""))
    if part in ARM_CORES:
        return VectorUnit("NEON", 4, ARM_CORES[part][1])
    return VectorUnit("NEON", 4, None, f"FMA units: not known for {model_name(cpu)}")


def _avx512_fma_units(cpu: Processor) -> tuple[int | None, str | None]:
    """512-bit FMA units: Intel 64 and IA-32 optimization manual (ports 0+1 fused, and 5); AMD Zen 4 splits a 512-bit
    FMA over two 256-bit pipes, Zen 5 (family 26) has two full pipes: AMD's software optimization guides."""
    family, model, name = int(cpu.get("cpu family", 0)), int(cpu.get("model", 0)), model_name(cpu)
    if cpu.get("vendor_id") == "AuthenticAMD" and family in (25, 26):
        return (1 if family == 25 else 2), None
    large = model == SKYLAKE_SERVER and re.search(r"Platinum|Gold 6\d", name)
    if cpu.get("vendor_id") == "GenuineIntel" and (model in SERVERS_WITH_TWO or large):
        return 2, None
    return None, f"FMA units: models with AVX-512 have one or two, and {name!r} does not tell"


def _avx2_fma_units(cpu: Processor, flags: set[str]) -> tuple[int | None, str | None]:
    """256-bit FMA units: two since Intel's Haswell and AMD's Zen 2; Zen 1 (family 23, model below 48) splits in two."""
    family, model = int(cpu.get("cpu family", 0)), int(cpu.get("model", 0))
    if "hybrid_cpu" in flags or (cpu.get("vendor_id") == "GenuineIntel" and model in ATOM_WITH_AVX2):
        return None, "FMA units: this CPU has cores with narrower units"
    if cpu.get("vendor_id") == "AuthenticAMD" and family == 23 and model < 48:
        return 1, None
    known = cpu.get("vendor_id") in ("GenuineIntel", "AuthenticAMD")
    return (2, None) if known else (None, f"FMA units: not known for {model_name(cpu)}")

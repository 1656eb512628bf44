"""The host's device room: what CPU this is, its caches and memory, its state, and the BLAS threads NumPy runs on.

Everything is read from Linux' /proc and /sys below `root`, so that tests hand in a made-up machine. Facts only: where
the machine does not tell, the value is None and the reason stands beside it.
"""

import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import threadpoolctl

ROOT = Path("/")
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


def describe(root: Path = ROOT) -> dict[str, Any]:
    """Everything known about the CPU, in SI base units. `peak` holds the factors of its theoretical peak, not the peak;
    a factor that is not known is None and named in `peak.reason`."""
    usable = _usable(root)
    first = usable[0] if usable else {}
    unit = vector_unit(first)
    clock_hz, clock_reason = _clock_hz_max(root)
    caches = _caches_bytes(root)
    reasons = [reason for reason in (clock_reason, unit.reason) if reason]
    factors = {
        "cores": _cores(usable),
        "clock_hz": clock_hz,
        "fp32_lanes": unit.fp32_lanes,
        "fma_units": unit.fma_units,
    }
    return {
        **identity(root),
        "model": model_name(first),
        "vendor": first.get("vendor_id", first.get("CPU implementer")),
        "clock_hz_max": clock_hz,
        "clock_reason": clock_reason,
        "simd": unit.simd,
        "fp32_lanes": unit.fp32_lanes,
        "fma_units": unit.fma_units,
        "fma_units_reason": unit.reason,
        "caches_bytes": caches,
        "llc_bytes": llc_bytes(root),
        "dram_bytes": _meminfo_bytes(root, "MemTotal"),
        "cpu_quota": _cpu_quota(root),
        "virtualised": "hypervisor" in first.get("flags", "").split() if "flags" in first else None,
        "peak": factors | {"reason": "; ".join(reasons) or None},
    }


def identity(root: Path = ROOT) -> dict[str, Any]:
    """What makes this CPU the same machine as another record's: name, usable physical cores and threads."""
    usable = _usable(root)
    return {
        "name": model_name(usable[0] if usable else {}),
        "cores_physical": _cores(usable),
        "threads": threads(root),
    }


def threads(root: Path = ROOT) -> int:
    """Threads that can run at once: the process's CPU affinity, and the container's CPU quota rounded up."""
    allowed = len(_affinity())
    quota = _cpu_quota(root)
    return allowed if quota is None else max(1, min(allowed, ceil(quota)))


def worker_threads(root: Path = ROOT) -> int:
    """Threads that saturate memory: one per physical core, at most `threads`."""
    return min(threads(root), _cores(_usable(root)))


def state(root: Path = ROOT) -> dict[str, float | None]:
    """The chip's state: mean clock over the CPUs in hertz (None where not told) and the 1-minute load."""
    rates = [float(cpu["cpu MHz"]) for cpu in _processors(root) if "cpu MHz" in cpu]
    return {"clock_hz": sum(rates) / len(rates) * 1e6 if rates else None, "load_1min": os.getloadavg()[0]}


def available_bytes(root: Path = ROOT) -> int | None:
    """Memory that can be allocated without swapping, within the container's limit; None where Linux does not tell."""
    free = _meminfo_bytes(root, "MemAvailable")
    limit = _text(root / "sys/fs/cgroup/memory.max")
    used = _text(root / "sys/fs/cgroup/memory.current")
    if free is None or not (limit.isdigit() and used.isdigit()):
        return free
    return min(free, max(0, int(limit) - int(used)))


def crowded(root: Path = ROOT) -> bool:
    """Whether other programs hold more than half of the memory."""
    free, total = available_bytes(root), _meminfo_bytes(root, "MemTotal")
    return free is not None and total is not None and free < total / 2


def llc_bytes(root: Path = ROOT) -> int | None:
    """Size of the last level of cache, all instances together; without sysfs the one size /proc/cpuinfo names."""
    caches = _caches_bytes(root)
    if caches:
        return caches[max(caches)]
    named = re.match(r"(\d+) KB", next((cpu["cache size"] for cpu in _usable(root) if "cache size" in cpu), ""))
    return int(named[1]) * 1024 if named else None


def l2_bytes_per_core(root: Path = ROOT) -> int | None:
    """Size of one L2 cache, None where sysfs does not tell."""
    return next((size for level, _, size in _cache_instances(root) if level == "L2"), None)


@contextmanager
def blas_limited(count: int) -> Iterator[list[dict[str, Any]]]:
    """NumPy's BLAS on at most `count` threads; hands over `blas_threads()` as it then stands."""
    with threadpoolctl.threadpool_limits(limits=count, user_api="blas"):
        yield blas_threads()


def blas_threads() -> list[dict[str, Any]]:
    """Name, version, kernel set and thread count of every BLAS library loaded."""
    return [
        {
            "name": pool["internal_api"],
            "version": pool.get("version"),
            "architecture": pool.get("architecture"),
            "num_threads": pool["num_threads"],
        }
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    ]


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


def _processors(root: Path) -> list[Processor]:
    return parse_cpuinfo(_text(root / "proc/cpuinfo"))


def _usable(root: Path) -> list[Processor]:
    """The entries of the CPUs this process may run on; all of them where none matches."""
    processors = _processors(root)
    allowed = _affinity()
    return [cpu for cpu in processors if int(cpu["processor"]) in allowed] or processors


def _affinity() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _cores(usable: list[Processor]) -> int:
    """Physical cores among CPUs; a kernel that names no cores (Arm) has one thread on each."""
    named = {(cpu.get("physical id"), cpu["core id"]) for cpu in usable if "core id" in cpu}
    return len(named) or len(usable) or len(_affinity())


def _clock_hz_max(root: Path) -> tuple[float | None, str | None]:
    rates = [_text(path) for path in root.glob("sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq")]
    known = [int(rate) for rate in rates if rate.isdigit()]
    if known:
        return max(known) * 1e3, None
    return None, "clock: this machine has no cpufreq (usual in a virtual machine), so its highest clock is not known"


def _cache_instances(root: Path) -> set[tuple[str, str, int]]:
    """(level, CPUs that share it, bytes) of each data cache of the CPUs this process may run on."""
    found = set()
    for cpu in _usable(root):
        for index in root.glob(f"sys/devices/system/cpu/cpu{cpu['processor']}/cache/index*"):
            kind, size = _text(index / "type"), re.match(r"(\d+)K", _text(index / "size"))
            if size and kind in ("Data", "Unified"):
                name = f"L{_text(index / 'level')}{'d' if kind == 'Data' else ''}"
                found.add((name, _text(index / "shared_cpu_list"), int(size[1]) * 1024))
    return found


def _caches_bytes(root: Path) -> dict[str, int]:
    totals: dict[str, int] = {}
    for level, _, size in sorted(_cache_instances(root)):
        totals[level] = totals.get(level, 0) + size
    return totals


def _cpu_quota(root: Path) -> float | None:
    """CPUs' worth of time the container may use (cgroup v2), None without a limit."""
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _meminfo_bytes(root: Path, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

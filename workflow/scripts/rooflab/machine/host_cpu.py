"""The host's device room: what CPU this is, its caches and memory, its state, and the BLAS threads NumPy runs on.

Everything is read from Linux' /proc and /sys below `root`, so that tests hand in a made-up machine. Facts only: where
the machine does not tell, the value is None and the reason stands beside it.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any

import threadpoolctl

from rooflab.machine.vector_unit import Processor, model_name, parse_cpuinfo, vector_unit

ROOT = Path("/")


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
        "cpus_allowed": len(_affinity()),
        "cpus_online": len(_processors(root)) or None,
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
    """CPUs' worth of time this process may use, the least of its control groups (v2 and v1), None without a limit."""
    limits = [limit for folder in _groups(root) if (limit := _limit(folder)) is not None]
    return min(limits, default=None)


def _groups(root: Path) -> list[Path]:
    """The folder of each control group this process is in, up to the root of its hierarchy."""
    tops = {
        "": root / "sys/fs/cgroup",
        "cpu": root / "sys/fs/cgroup/cpu",
        "cpu,cpuacct": root / "sys/fs/cgroup/cpu,cpuacct",
    }
    lines = [line.split(":", 2) for line in _text(root / "proc/self/cgroup").splitlines()]
    paths = {controllers: path.lstrip("/") for _, controllers, path in lines if controllers in tops}
    folders = list(tops.values())
    for controllers, path in paths.items():
        parts = Path(path).parts
        folders += [tops[controllers].joinpath(*parts[:depth]) for depth in range(1, len(parts) + 1)]
    return folders


def _limit(folder: Path) -> float | None:
    quota, _, period = _text(folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _meminfo_bytes(root: Path, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""

"""The host's device room, on made-up machines written below a temporary root."""

from pathlib import Path

import pytest
from rooflab.machine import host_cpu, vector_unit

XEON = """processor\t: {n}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: {model}
model name\t: {name}
cpu MHz\t\t: {mhz}
cache size\t: 1024 KB
physical id\t: 0
core id\t\t: {core}
flags\t\t: fpu sse2 avx fma avx2 avx512f {more}
"""
RYZEN = """processor\t: 0
vendor_id\t: AuthenticAMD
cpu family\t: 23
model\t\t: {model}
model name\t: AMD Ryzen
flags\t\t: sse2 avx fma avx2
"""
ARM = "processor\t: 0\nBogoMIPS\t: 2000\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"


def xeon(n: int = 0, core: int = 0, model: int = 143, name: str = "Intel(R)  Xeon(R)", more: str = "") -> str:
    return XEON.format(n=n, core=core, model=model, name=name, mhz=2000 + 1000 * n, more=more)


def unit(text: str) -> vector_unit.VectorUnit:
    return vector_unit.vector_unit(vector_unit.parse_cpuinfo(text)[0])


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two cores of two threads each, all usable."""
    monkeypatch.setattr(host_cpu, "_affinity", lambda: {0, 1, 2, 3})
    write(tmp_path, "proc/cpuinfo", "\n".join(xeon(n, n // 2, more="hypervisor") for n in range(4)))
    write(tmp_path, "proc/meminfo", "MemTotal:  4000 kB\nMemFree: 10 kB\nMemAvailable:   3000 kB\n")
    for n in range(4):
        cache = f"sys/devices/system/cpu/cpu{n}/cache"
        for index, (level, kind, size, shared) in enumerate(
            [("1", "Data", "48K", n // 2), ("1", "Instruction", "32K", n // 2), ("3", "Unified", "8192K", "0-3")]
        ):
            write(tmp_path, f"{cache}/index{index}/level", level)
            write(tmp_path, f"{cache}/index{index}/type", kind)
            write(tmp_path, f"{cache}/index{index}/size", size)
            write(tmp_path, f"{cache}/index{index}/shared_cpu_list", str(shared))
    return tmp_path


def test_identity_counts_cores_and_threads(machine: Path) -> None:
    assert host_cpu.identity(machine) == {"name": "Intel(R) Xeon(R)", "cores_physical": 2, "threads": 4}


def test_only_usable_cpus_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cpu, "_affinity", lambda: {0, 1})
    assert host_cpu.identity(machine)["cores_physical"] == 1
    assert host_cpu.describe(machine)["caches_bytes"]["L1d"] == 48 * 1024


def test_quota_limits_threads(machine: Path) -> None:
    write(machine, "sys/fs/cgroup/cpu.max", "150000 100000\n")
    assert host_cpu.threads(machine) == 2
    write(machine, "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert host_cpu.threads(machine) == 4


@pytest.mark.parametrize(
    ("group", "file", "text"),
    [
        ("0::/user.slice/run.scope", "user.slice/run.scope/cpu.max", "100000 100000"),
        ("0::/user.slice/run.scope", "user.slice/cpu.max", "50000 100000"),
        ("3:cpu,cpuacct:/docker/x", "cpu,cpuacct/docker/x/cpu.cfs_quota_us", "100000"),
    ],
)
def test_the_quota_of_any_group_around_the_process_limits_its_threads(
    machine: Path, group: str, file: str, text: str
) -> None:
    write(machine, "proc/self/cgroup", f"{group}\n")
    write(machine, f"sys/fs/cgroup/{file}", f"{text}\n")
    write(machine, "sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n")
    assert host_cpu.threads(machine) == 1
    assert host_cpu.describe(machine)["cpu_quota"] in (1.0, 0.5)


def test_what_the_process_may_use_of_the_host_is_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_cpu, "_affinity", lambda: {0})
    told = host_cpu.describe(machine)
    assert (told["cpus_allowed"], told["cpus_online"], told["threads"]) == (1, 4, 1)


def test_caches_are_counted_once_each(machine: Path) -> None:
    facts = host_cpu.describe(machine)
    assert facts["caches_bytes"] == {"L1d": 2 * 48 * 1024, "L3": 8 * 2**20}
    assert facts["llc_bytes"] == 8 * 2**20
    assert facts["dram_bytes"] == 4000 * 1024
    assert facts["virtualised"] is True


def test_llc_without_sysfs_is_cpuinfos(tmp_path: Path) -> None:
    write(tmp_path, "proc/cpuinfo", xeon())
    assert host_cpu.llc_bytes(tmp_path) == 1024 * 1024


def test_clock_unknown_has_a_reason(machine: Path) -> None:
    facts = host_cpu.describe(machine)
    assert facts["clock_hz_max"] is None
    assert "cpufreq" in facts["peak"]["reason"]


def test_clock_from_cpufreq(machine: Path) -> None:
    write(machine, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3800000\n")
    facts = host_cpu.describe(machine)
    assert facts["peak"] == {"cores": 2, "clock_hz": 3.8e9, "fp32_lanes": 16, "fma_units": 2, "reason": None}


def test_state_is_the_mean_clock(machine: Path) -> None:
    assert host_cpu.state(machine)["clock_hz"] == 3.5e9


def test_available_memory_respects_the_container(machine: Path) -> None:
    assert host_cpu.available_bytes(machine) == 3000 * 1024
    write(machine, "sys/fs/cgroup/memory.max", "1000000\n")
    write(machine, "sys/fs/cgroup/memory.current", "400000\n")
    assert host_cpu.available_bytes(machine) == 600000


def test_a_machine_without_proc_still_has_an_identity(tmp_path: Path) -> None:
    assert host_cpu.identity(tmp_path)["name"]
    assert host_cpu.describe(tmp_path)["dram_bytes"] is None


@pytest.mark.parametrize(
    ("text", "simd", "lanes", "units"),
    [
        (xeon(model=207), "AVX-512", 16, 2),
        (xeon(model=85, name="Intel(R) Xeon(R) Platinum 8168"), "AVX-512", 16, 2),
        (xeon(model=85, name="Intel(R) Xeon(R) Silver 4110"), "AVX-512", 16, None),
        (RYZEN.format(model=113), "AVX2", 8, 2),
        (RYZEN.format(model=1), "AVX2", 8, 1),
        (ARM.format(part="0xd4f"), "NEON", 4, 4),
        (ARM.format(part="0xfff"), "NEON", 4, None),
    ],
)
def test_vector_unit(text: str, simd: str, lanes: int, units: int | None) -> None:
    seen = unit(text)
    assert (seen.simd, seen.fp32_lanes, seen.fma_units) == (simd, lanes, units)
    assert (seen.reason is None) == (units is not None)


def test_arm_core_is_named() -> None:
    assert vector_unit.model_name(vector_unit.parse_cpuinfo(ARM.format(part="0xd4f"))[0]) == "Arm Neoverse V2"


def test_blas_record_has_no_path() -> None:
    import numpy  # noqa: F401

    with host_cpu.blas_limited(1) as blas:
        assert blas
        assert all(pool["num_threads"] == 1 and "filepath" not in pool for pool in blas)

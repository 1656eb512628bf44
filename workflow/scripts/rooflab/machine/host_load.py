"""How busy this host's processors are with others, by the kernel's own accounts. Read from /proc below `root`."""

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
IDLE = (3, 4)  # idle, iowait: proc(5), /proc/stat; the columns of guests (8, 9) are in user and nice already
COUNTED = 8


@dataclass(frozen=True)
class Account:
    """Processor seconds since boot: of everybody on the CPUs this process may use, and of this process; and the load."""

    everybody_s: float | None
    own_s: float
    load_1min: float


def account(root: Path = ROOT) -> Account:
    """What has been used so far. Two of them, taken before and after, tell who worked in between."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return Account(_busy_s(root), own, os.getloadavg()[0])


def others_cpus(before: Account, after: Account, seconds: float) -> float | None:
    """How many CPUs others kept busy, on average over `seconds`; None where the kernel does not tell."""
    if before.everybody_s is None or after.everybody_s is None or seconds <= 0:
        return None
    used = after.everybody_s - before.everybody_s - (after.own_s - before.own_s)
    return max(0.0, used / seconds)


def _busy_s(root: Path) -> float | None:
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    try:
        lines = (root / "proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    columns = {line.split()[0]: list(map(int, line.split()[1:])) for line in lines if line.startswith("cpu")}
    mine = [columns[name] for number in allowed if (name := f"cpu{number}") in columns]
    ticks = sum(value for each in mine for place, value in enumerate(each[:COUNTED]) if place not in IDLE)
    return ticks / os.sysconf("SC_CLK_TCK") if mine else None

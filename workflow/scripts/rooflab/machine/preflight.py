"""Is this machine fit to measure? Each thing looked at is a finding; a paid program asks for a few, `doctor` for all.

Facts come in as arguments, findings go out. Nothing here measures, writes, or needs a GPU.
"""

import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflab.machine import locks
from rooflab.machine.faults import DeviceError
from rooflab.machine.variables import GPU_VARIABLES, HOST_VARIABLES, REFUSED, UNSET
from rooflab.record import handover

OK, WARN, FAIL = "ok", "warn", "FAIL"
MIB, GIB = 1 << 20, 1 << 30
FULL_BYTES = 512 << 10  # less than this does not hold one record beside its part file
LOW_BYTES = 64 * MIB  # a session is a few MiB
LEAST_GPU_BYTES = 256 * MIB
# CUDA, its libraries and this process's own context take up to this much, or a tenth of a large GPU
USUAL_GPU_BYTES, USUAL_GPU_SHARE = 2 * GIB, 0.1
# Throttle reasons that spoil a measurement from its start; a power cap is what the sustained number is about.
BRAKES = {"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}


@dataclass(frozen=True)
class Finding:
    """One thing looked at: its level (OK, WARN, FAIL), what it is about, what was seen, and what to do about it."""

    level: str
    topic: str
    text: str
    remedy: str | None = None


class NotReady(DeviceError):
    """This machine cannot measure now; the message ends with what to do."""


def required(findings: Iterable[Finding]) -> list[str]:
    """The texts of the warnings, for the record. Raises NotReady for the first failure."""
    found = list(findings)
    for each in found:
        if each.level == FAIL:
            raise NotReady(each.text, each.remedy or "see snakemake --cores 1 doctor")
    return [each.text for each in found if each.level == WARN]


def host(results: Path = Path("results")) -> list[Finding]:
    """What every paid program depends on: room for the results and for temporary files, variables."""
    return [
        room("result", nearest(results)),
        room("temporary", Path(tempfile.gettempdir())),
        lock(locks.host_lock("host")),
        *foreign("numpy", os.environ.get("PYTHONPATH", "")),
        *variables(os.environ, HOST_VARIABLES),
    ]


def lock(path: Path) -> Finding:
    """Whether the lock that keeps measurements of this host apart can be taken by this user."""
    try:
        locks.probe(path)
    except OSError as error:
        remedy = (
            f"rm {path} (as the user who made it), or name a folder shared by all: export {handover.LOCKS}=<folder>"
        )
        return Finding(
            FAIL,
            "lock",
            f"{path} cannot be opened ({error.strerror}): measurements would not exclude each other",
            remedy,
        )
    return Finding(OK, "lock", f"measurements of this host take turns by {path}")


def foreign(package: str, python_path: str) -> list[Finding]:
    """A warning where PYTHONPATH puts another copy of a package before the environment's own: that one is measured."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        spec = None
    origin = Path(spec.origin).resolve() if spec and spec.origin else None
    folders = [Path(each).resolve() for each in python_path.split(os.pathsep) if each]
    if origin is None or not any(origin.is_relative_to(folder) for folder in folders):
        return []
    text = f"{package} comes from PYTHONPATH ({private(origin.parent)}), not from this Python's environment"
    return [Finding(WARN, "packages", text, "unset PYTHONPATH")]


def nearest(path: Path) -> Path:
    """The path, or its nearest parent that exists."""
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def room(topic: str, folder: Path) -> Finding:
    """Whether a folder can be written to, and how much fits."""
    shown = f"{private(folder.absolute())} ({topic} files)"
    if not os.access(folder, os.W_OK | os.X_OK):
        remedy = (
            "make it writable for this user; on a read-only mount what is drawn can be read and nothing is drawn anew"
        )
        return Finding(FAIL, "disk", f"{shown} cannot be written to", remedy)
    free, inodes = shutil.disk_usage(folder).free, os.statvfs(folder)
    if free < FULL_BYTES or (inodes.f_files and not inodes.f_favail):
        return Finding(FAIL, "disk", f"{shown} is on a full disk", "delete something there, then run again")
    if free < LOW_BYTES:
        text = f"{shown} has less than {LOW_BYTES // MIB} MiB of room left"
        return Finding(WARN, "disk", text, "delete something there before a long session")
    return Finding(OK, "disk", f"{shown}: {free / GIB:.1f} GiB free")


def variables(environment: Mapping[str, str], effects: Mapping[str, str]) -> list[Finding]:
    """One warning per variable that changes a result. Values stay out of it: some are private paths."""
    return [
        Finding(WARN, "variables", f"{name} is set: it {effect}", f"unset {name}")
        for name, effect in effects.items()
        if environment.get(name, "") not in ("", "0")
    ]


def gpu_variables(environment: Mapping[str, str]) -> list[Finding]:
    """The variables of CUDA and its libraries: those that make a measurement wrong, then those that change it."""
    refused = [
        Finding(FAIL, each.topic, f"{each.text}, so that nothing can be measured", each.remedy)
        for each in variables(environment, REFUSED)
    ]
    return refused + variables(environment, GPU_VARIABLES)


def unset_variables(environment: Mapping[str, str]) -> list[Finding]:
    """The variables that the paid programs unset by themselves, and record."""
    return [
        Finding(OK, "variables", f"{each.text}; unset for the measurements and recorded")
        for each in variables(environment, UNSET)
    ]


def sharing(processes: Mapping[str, Any], allowed: bool) -> Finding:
    """Other processes that compute on the GPU: a failure, or a warning where the user wants it so."""
    count = processes["count"]
    if count is None:
        text = "the driver does not tell which processes use this GPU"
        return Finding(WARN, "processes", text, "make sure that nothing else uses it (nvidia-smi)")
    if not count:
        return Finding(OK, "processes", "no other process computes on this GPU")
    if allowed:
        text = "measured beside other processes on the same GPU, as allow_shared_gpu says"
        return Finding(WARN, "processes", text, "set allow_shared_gpu to false for numbers that mean something")
    return Finding(
        FAIL,
        "processes",
        f"{count} other process(es) use this GPU{_holders(processes)}: a measurement beside them would be wrong",
        "wait for them or end them (nvidia-smi lists them), or measure anyway with --config allow_shared_gpu=true "
        "(the records say so)",
    )


def _holders(processes: Mapping[str, Any]) -> str:
    pids, memory = processes.get("pids") or [], processes.get("memory_bytes")
    told = [f"pid {', '.join(map(str, pids))}"] if pids else []
    told += [f"{memory / GIB:.1f} GiB held"] if memory is not None else []
    return f" ({'; '.join(told)})" if told else ""


def gpu_memory(free_bytes: int, total_bytes: int) -> Finding:
    """Whether the GPU's memory is free."""
    shown = f"{free_bytes / GIB:.1f} of {total_bytes / GIB:.1f} GiB of the GPU's memory are free"
    remedy = "see who holds it with nvidia-smi, end that program, run again"
    if free_bytes < LEAST_GPU_BYTES:
        return Finding(FAIL, "gpu memory", shown, remedy)
    if total_bytes - free_bytes > max(USUAL_GPU_BYTES, USUAL_GPU_SHARE * total_bytes):
        return Finding(WARN, "gpu memory", "other programs held a part of the GPU's memory at the start", remedy)
    return Finding(OK, "gpu memory", shown)


def chip(facts: Mapping[str, Any], state: Mapping[str, Any]) -> list[Finding]:
    """What NVML says of the chip that lowers its numbers, from `Nvml.device_facts` and `Nvml.state`."""
    found = []
    brakes = sorted(BRAKES & set(state.get("throttle_reasons") or ()))
    if brakes:
        text = f"the GPU was slowed down by its hardware at the start ({', '.join(brakes)})"
        found.append(Finding(WARN, "gpu state", text, "let it cool down, check power and cooling, measure again"))
    limit, default = facts.get("power_limit_enforced_w"), facts.get("power_limit_default_w")
    if isinstance(limit, float) and isinstance(default, float) and limit < default:
        text = f"the GPU's power limit is {limit:g} W, its default {default:g} W"
        found.append(Finding(WARN, "gpu state", text, f"nvidia-smi -pl {default:g} (root) sets it back"))
    if "applications_clocks_setting" in (state.get("throttle_reasons") or ()):
        text = "the GPU's clocks were limited by a setting"
        found.append(Finding(WARN, "gpu state", text, "nvidia-smi -rac and nvidia-smi -rgc (root) reset them"))
    return found


def private(path: Path | str) -> str:
    """A path without the names of home folders: below this Python's environment, the user's home, or any other home."""
    text = str(path)
    for folder, short in ((sys.prefix, "$VIRTUAL_ENV"), (os.path.expanduser("~"), "~")):
        if folder not in ("/", "~") and (text == folder or text.startswith(folder + "/")):
            return short + text[len(folder) :]
    return re.sub(r"^(/root|/(?:home|Users)/[^/]+)(?=/|$)", "~", text)


def report(findings: Iterable[Finding]) -> str:
    """All findings as text for the terminal, failures marked, and the verdict in the last line."""
    found = list(findings)
    width = max(len(each.topic) for each in found)
    lines = ["Is this machine ready to measure?", ""]
    for each in found:
        lines.append(f"  {each.level:<4}  {each.topic:<{width}}  {each.text}")
        if each.remedy and each.level != OK:
            lines.append(f"        {'':<{width}}  what to do: {each.remedy}")
    failures, warnings = (sum(each.level == level for each in found) for level in (FAIL, WARN))
    verdict = "Not ready: a measurement would stop." if failures else "Ready to measure."
    return "\n".join([*lines, "", f"{failures} failure(s), {warnings} warning(s). {verdict}", ""])


def says_not_ready(text: str) -> bool:
    """Whether a report holds a failure."""
    return any(line.startswith(f"  {FAIL}  ") for line in text.splitlines())

"""Examines the machine as a measurement would find it: what is here, what is missing, what would change the numbers.

Measures nothing and writes one report. `snakemake --cores 1 doctor` runs it.
"""

import argparse
import json
import os
import platform
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy  # noqa: F401  (loads the BLAS that the CPU's part of a session measures)
from rooflab.machine import cards, detect, faults, host_cpu, locks, nvml, preflight
from rooflab.machine.preflight import FAIL, GIB, OK, WARN, Finding
from rooflab.machine.visible import SHOWN, pin, visible
from rooflab.plan import session
from rooflab.record import environment, identity, sums
from rooflab.reference import checkpoint
from rooflab.reference import minigpt as minigpt_model

RESULTS = Path("results")


def examine(device: str, variables: Mapping[str, str], minigpt: Mapping[str, Any] | None = None) -> list[Finding]:
    """Everything there is to find for the config's `device`; what cannot be looked at is a failure, not an end."""
    return [
        *_looked_at("machine", lambda: machine(device)),
        *_looked_at("cpu", cpu),
        *_looked_at("packages", lambda: packages(faults.installed_packages())),
        *_looked_at("disk", lambda: [*preflight.host(RESULTS), preflight.room("log", preflight.nearest(Path("logs")))]),
        *_looked_at("results", lambda: results(RESULTS)),
        *_looked_at("weights", lambda: weights(minigpt or {})),
        *_looked_at("variables", lambda: gpu_variables(device, variables)),
        *_looked_at("gpu", lambda: gpu(device)),
    ]


def results(folder: Path) -> list[Finding]:
    """Whether the files of every session with sums are as they were written."""
    kept = [folder / name for name in sorted(session.names(folder)) if (folder / name / sums.NAME).exists()]
    found = [(each, sums.differences(each)) for each in kept]
    told = [
        Finding(WARN, "results", f"{each}: {'; '.join(differing[:3])}", f"cd {each} && sha256sum -c {sums.NAME}")
        for each, differing in found
        if differing
    ]
    whole = len(kept) - len(told)
    return [*told, Finding(OK, "results", f"{whole} of {len(kept)} sessions with {sums.NAME} are as they were written")]


def weights(minigpt: Mapping[str, Any]) -> list[Finding]:
    """The user's checkpoint, by its header; nothing where none is given."""
    if minigpt.get("weights") is None:
        return []
    sizes = {name: minigpt[name] for name in ("layers", "heads", "kv_heads", "head_dim", "vocabulary", "context")}
    try:
        found = checkpoint.check(Path(minigpt["weights"]), minigpt_model.geometry_of(**sizes))
    except ValueError as error:
        return [Finding(FAIL, "weights", str(error), "correct minigpt in config.yaml, or set its weights to null")]
    return [
        Finding(
            OK, "weights", f"{preflight.private(minigpt['weights'])}: {len(found)} tensors as the geometry has them"
        )
    ]


def _looked_at(topic: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Exception as error:
        text = f"could not be looked at: {type(error).__name__}: {error}"
        return [Finding(FAIL, topic, text, "this is a fault of the examination itself: report it with this line")]


def machine(device: str) -> list[Finding]:
    """What a run would measure here."""
    try:
        chosen = detect.chosen(device, RESULTS)
        if chosen.is_gpu:
            identity.check_named(chosen.slug, _live_gpu(chosen.slug))
    except (detect.DetectionError, identity.WrongMachine) as error:
        return [Finding(FAIL, "machine", str(error))]
    kind = "a GPU session" if chosen.is_gpu else f"a CPU session ({_why_no_gpu(device)})"
    return [Finding(OK, "machine", f"{chosen.slug}: {kind}")]


def _live_gpu(device: str) -> str:
    card = measured_card(device)
    return detect.gpu_slug(card) if card else "not to be found"


def measured_card(device: str) -> cards.Gpu | None:
    """The card that a run would measure, by the run's own rule; None where there is none."""
    try:
        return cards.measured("" if device == "auto" else device)
    except nvml.NvmlError:
        return None


def _why_no_gpu(device: str) -> str:
    if device == "cpu":
        return "as the config's device says"
    return f"no NVIDIA device here; {other}" if (other := detect.not_measured()) else "no NVIDIA device here"


def cpu() -> list[Finding]:
    """The host: its model, its memory, its BLAS, and whether something else keeps it busy."""
    told, free = host_cpu.describe(), host_cpu.available_bytes()
    found = [
        Finding(
            OK, "cpu", f"{told['model']}: {told['cores_physical']} cores, {told['threads']} threads, {told['simd']}"
        ),
        *[Finding(OK, "cpu", f"BLAS: {_blas(pool)}") for pool in host_cpu.blas_threads()],
    ]
    if told["dram_bytes"] and free:
        found.append(Finding(OK, "cpu", f"{free / GIB:.1f} of {told['dram_bytes'] / GIB:.1f} GiB of memory are free"))
    return [*found, load(os.getloadavg()[0], told["threads"])]


def _blas(pool: Mapping[str, Any]) -> str:
    return f"{pool['name']} {pool['version']} ({pool['architecture']}), {pool['num_threads']} threads"


def load(one_minute: float, threads: int) -> Finding:
    """Whether other programs compute on this host."""
    if one_minute > threads / 2:
        text = f"this host has been busy: load {one_minute:.1f} in the last minute, on {threads} threads"
        return Finding(WARN, "cpu", text, "see that nothing else runs while the CPU's part of a session is measured")
    return Finding(OK, "cpu", f"the host is idle enough: load {one_minute:.1f} on {threads} threads")


def packages(installed: Mapping[str, str]) -> list[Finding]:
    """Python, what the project needs, and CuPy with the CUDA libraries installed beside it."""
    known = [name for name in environment.PACKAGES if name.replace("_", "-") in installed]
    listed = ", ".join(f"{name} {installed[name.replace('_', '-')]}" for name in known)
    found = [Finding(OK, "packages", f"Python {platform.python_version()}; {listed}")]
    try:
        faults.refuse_two_cupys(installed)
    except faults.DeviceError as error:
        found.append(Finding(FAIL, "packages", error.message, error.remedy))
    stray = faults.stray_wheels(installed)
    if stray:
        text = f"CUDA libraries of another major release than CuPy's are installed: {', '.join(stray)}"
        remedy = "keep one CUDA major in an environment: make setup GPU=1 in a fresh .venv"
        found.append(Finding(WARN, "packages", text, remedy))
    return found


def gpu_variables(device: str, variables: Mapping[str, str]) -> list[Finding]:
    """The variables that matter where a GPU is measured."""
    if not wants_gpu(device):
        return []
    return [*preflight.gpu_variables(variables), *preflight.unset_variables(variables)]


def gpu(device: str) -> list[Finding]:
    """The GPUs that the driver lists, then CUDA; nothing where no GPU would be measured."""
    if not wants_gpu(device):
        return []
    return [*driver(device), *cuda(device)]


def wants_gpu(device: str) -> bool:
    """Whether a GPU would be measured, or should be and cannot."""
    if device != "auto":
        return device != "cpu" and not device.startswith("cpu-")
    try:
        return bool(nvml.list_gpus()) or detect.has_nvidia_hardware()
    except nvml.NvmlError:
        return detect.has_nvidia_hardware()


def driver(device: str = "auto") -> list[Finding]:
    """What NVML lists, which of it CUDA shows, and which is measured."""
    try:
        gpus = nvml.list_gpus()
    except nvml.NvmlError as error:
        return [Finding(FAIL, "driver", str(error), error.remedy)]
    shown, card = visible(gpus, os.environ.get(SHOWN)), measured_card(device)
    return [Finding(OK, "driver", f"{each['name']}, {each['uuid']}{_place(each, shown, card)}") for each in gpus]


def _place(each: nvml.Gpu, shown: list[nvml.Gpu], card: cards.Gpu | None) -> str:
    part = f", MIG {each['mig']}" if each["mig"] else ""
    if each == card:
        return f"{part}: the one that is measured"
    return part if each in shown else f"{part}: hidden from CUDA"


def cuda(device: str = "auto") -> list[Finding]:
    """CUDA and CuPy on the card that is measured, unless a measurement is at work on this host, which would suffer."""
    alone = locks.take(locks.host_lock("host"), wait=False)
    if alone is None:
        return [Finding(WARN, "cuda", "a measurement is going on here: the GPU was left alone", "ask again after it")]
    with alone:
        from rooflab.measure.cuda.preflight import examine as examine_cuda

        if card := measured_card(device):
            pin(str(card["uuid"]))
        return examine_cuda()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--minigpt", type=json.loads, default={}, help="the config's section, as JSON")
    parser.add_argument("--out", required=True, type=Path)
    arguments = parser.parse_args()
    found = examine(arguments.device, os.environ, arguments.minigpt)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(preflight.report(found), encoding="utf-8")


if __name__ == "__main__":
    main()

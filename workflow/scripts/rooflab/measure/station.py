"""Where a paid program works: the live device behind one face, the host CPU or the GPU."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflab.machine import host_cpu, preflight
from rooflab.measure.bench import Bench
from rooflab.record import handover


def _nothing() -> None:
    return None


@dataclass
class Station:
    """A bench with the device's identity, the environment only it knows, and the locks that guard it."""

    bench: Bench
    identity: dict[str, Any]
    environment: dict[str, Any] = field(default_factory=dict)
    lock_files: tuple[Path, ...] = ()
    memory_remedy: str = "free memory on this machine, then run the same command again"
    close: Callable[[], None] = _nothing
    cpus: int | None = None  # that the measurement itself runs on
    crowded: bool = False  # others held a good part of the device's memory when it was opened


Opener = Callable[[str | None], Station]


def open_station(opener: Opener) -> Station:
    """The station that `opener` finds, given the user's checkpoint, once nothing on this host stands in the way.

    Raises DeviceError, which says what to do.
    """
    warnings = preflight.required(preflight.host())
    station = opener(handover.text(handover.WEIGHTS) or None)
    station.environment["warnings"] = warnings + station.environment.get("warnings", [])
    return station


def open_cpu_station(weights_path: str | None) -> Station:
    """The host CPU as a station; the GPU's stands in measure/cuda/station."""
    bench = Bench(state=host_cpu.state, weights_path=weights_path, load_calls=1)
    return Station(bench, host_cpu.identity(), cpus=host_cpu.threads(), crowded=host_cpu.crowded())

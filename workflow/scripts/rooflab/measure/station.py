"""Where a paid program works: the live device behind one face, the host CPU or the GPU."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflab.machine import preflight
from rooflab.measure.bench import Bench


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


def open_station(side: str) -> Station:
    """The station of this process's device, once nothing stands in the way of a measurement.

    Importing the GPU's rooms happens only when a GPU measures. Raises DeviceError, which says what to do.
    """
    warnings = preflight.required(preflight.host())
    station = _station(side)
    station.environment["warnings"] = warnings + station.environment.get("warnings", [])
    return station


def _station(side: str) -> Station:
    weights = os.environ.get("ROOFLAB_WEIGHTS") or None
    if side == "gpu":
        from rooflab.measure.cuda.station import open_cuda_station

        return open_cuda_station(weights)
    from rooflab.machine import host_cpu

    return Station(Bench(state=host_cpu.state, weights_path=weights, load_calls=1), host_cpu.identity())

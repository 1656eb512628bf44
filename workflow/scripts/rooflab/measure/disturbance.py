"""What disturbed a measurement from outside: the program was stopped, the host stood still, or others used its CPUs."""

import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from statistics import median
from typing import Any

from rooflab.machine import host_load

GAP = 1000  # a sample so many times the median is no property of what was timed
LEAST_SAMPLES = 3
SHARE_OF_OTHERS = 0.1  # of the CPUs this process may use; less is the kernel's own house-keeping
LEAST_S = 0.5  # the kernel counts in hundredths of a second

STOPPED = "the program was stopped and went on (SIGSTOP, Ctrl-Z) while this was measured"
STOOD_STILL = f"one sample took more than {GAP} times the median: the host or the program stood still"
BUSY = "other programs used more than a tenth of this host's CPUs while this was measured"


class Watch:
    """Watches one measurement; `threads` are the CPUs that it may use, None where it does not run on them."""

    def __init__(self, threads: int | None) -> None:
        self._threads, self._stops = threads, 0

    def __enter__(self) -> "Watch":
        with suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGCONT, self._went_on)
        self._begin, self._before = time.monotonic(), host_load.account()
        return self

    def __exit__(self, *_: object) -> None:
        self._seconds, self._after = time.monotonic() - self._begin, host_load.account()

    def _went_on(self, *_: object) -> None:
        self._stops += 1

    @property
    def load(self) -> dict[str, float | None]:
        """The host's load before and after, and how many CPUs others kept busy."""
        others = host_load.others_cpus(self._before, self._after, self._seconds)
        return {
            "load_1min_before": self._before.load_1min,
            "load_1min_after": self._after.load_1min,
            "others_cpus": others if self._seconds >= LEAST_S else None,
        }

    def warnings(self, series: Iterable[Mapping[str, Any]]) -> list[str]:
        """What a reader must know of the samples."""
        others = self.load["others_cpus"]
        said = {
            STOPPED: self._stops > 0,
            STOOD_STILL: any(map(_stood_still, series)),
            BUSY: self._threads is not None and others is not None and others > SHARE_OF_OTHERS * self._threads,
        }
        return [text for text, holds in said.items() if holds]


def _stood_still(series: Mapping[str, Any]) -> bool:
    samples = series["samples_s"]
    return len(samples) >= LEAST_SAMPLES and max(samples) > GAP * median(samples) > 0

"""Marks of a GPU's own clocks in the stream of what is timed."""

from functools import partial
from typing import Any

import numpy as np

from rooflab.measure.clock import MOST_MARKS, Mark
from rooflab.measure.cuda.device import CudaDevice


class CudaStamps:
    """Stamp kernels on the device's stream; `mark(slot)` enqueues one, `read` waits for those that were made."""

    def __init__(self, device: CudaDevice) -> None:
        self._marks = device.xp.zeros((MOST_MARKS, 3), np.uint64)
        kernel = device.kernel("stamp", "stamp")
        self._launches = [partial(kernel, (1,), (1,), (self._marks, np.int32(slot))) for slot in range(MOST_MARKS)]

    def mark(self, slot: int) -> None:
        """Enqueues one stamp."""
        self._launches[slot]()

    def read(self, count: int) -> list[Mark]:
        """The first `count` stamps, oldest first."""
        stored: Any = self._marks[:count].get()
        return [Mark(*(int(value) for value in row)) for row in stored]

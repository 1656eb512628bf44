"""What the CUDA cores can issue: fused multiply-adds in registers, with a check of every one of them.

cuBLAS's fp32 product stops below this, because it also has to fetch its operands.
"""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from rooflab.measure.cuda.device import Call, CudaDevice
from rooflab.reference.attention import relative_error
from rooflab.theory.protocol import FmaLaunch

UNROLL = 32  # of kernels/fma.cu
FACTOR, ADDEND = np.float32(0.999), np.float32(0.5)
CHECKED_ROUNDS = 40
TOLERANCE = 2e-6  # the order of the final sum is the kernel's; the chains themselves are exact to the last bit


class FmaCase:
    """Every thread of the device multiplying and adding `rounds * UNROLL * chains` times per launch."""

    def __init__(self, device: CudaDevice, config: FmaLaunch, rounds: int) -> None:
        self.device, self.config, self.rounds = device, config, rounds
        self.blocks = device.sm_count * config.blocks_per_sm
        self.out = device.xp.empty(self.blocks * config.threads, np.float32)
        self._kernel = device.kernel("fma", "fma_chains", CHAINS=config.chains)

    @property
    def shape(self) -> dict[str, int]:
        """Threads of a launch, and the multiply-adds of each."""
        per_thread = self.rounds * UNROLL * self.config.chains
        return {"threads": self.blocks * self.config.threads, "fma_per_thread": per_thread}

    def call(self) -> Call:
        """One launch."""
        return self._launch(self.rounds)

    def relative_error(self) -> float:
        """Of a launch of CHECKED_ROUNDS rounds of the same kernel, against the same sums on the host."""
        self.out.fill(np.nan)
        self._launch(CHECKED_ROUNDS)()
        self.device.synchronize()
        got = self.device.xp.asnumpy(self.out)
        return relative_error(got, expected(got.size, self.config.chains, CHECKED_ROUNDS))

    def _launch(self, rounds: int) -> Call:
        arguments = (self.out, FACTOR, ADDEND, np.int32(rounds))
        return partial(self._kernel, (self.blocks,), (self.config.threads,), arguments)


def expected(threads: int, chains: int, rounds: int) -> NDArray[np.float64]:
    """What the kernel writes: (threads,), each multiply-add rounded once to fp32, as the hardware does."""
    start = (np.arange(threads) % 1024).astype(np.float32)
    distinct = np.unique(start)[:, None] + np.arange(chains, dtype=np.float32)
    factor, addend = np.float64(FACTOR), np.float64(ADDEND)
    for _ in range(rounds * UNROLL):
        distinct = (distinct.astype(np.float64) * factor + addend).astype(np.float32)
    return distinct.astype(np.float64).sum(axis=1)[np.arange(threads) % 1024]

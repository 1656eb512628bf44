"""What a machine does in a second, before anything is measured on it: by the vendor's figures of its card, or by a guess that
says so. For prices alone; no figure of a roofline comes from here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from rooflab.machine.detect import slug
from rooflab.theory import issue_rates
from rooflab.theory.dtypes import DTYPES
from rooflab.theory.parts import Match, match_folder

OF_VENDOR = 0.75  # of the vendor's dense peak, under a mixed load


@dataclass(frozen=True)
class Rates:
    """What a device does in a second: FLOP per dtype, FLOP in any other dtype, bytes."""

    flop_per_s: dict[str, float]
    other_flop_per_s: float
    bytes_per_s: float
    lacking: frozenset[str] = frozenset()

    def lacks(self, dtype: str) -> bool:
        """Whether the device has no such arithmetic, nor a variant of it."""
        return any(dtype == each or dtype.startswith(f"{each}_") for each in self.lacking)

    def flop(self, dtype: str) -> float:
        """FLOP/s of a dtype; a variant (`fp8_e4m3_full`) has its dtype's rate."""
        name = dtype
        while name and name not in self.flop_per_s:
            name = name.rpartition("_")[0]
        return self.flop_per_s.get(name, self.other_flop_per_s)


# Where nothing better is known: a mid-range card, a server's CPU beside it, a laptop's own.
CARD = Rates({"fp32": 2e13, "fp64": 5e11}, 1e14, 5e11)
NUMPY_LACKS = frozenset({"fp16", "bf16"})
SERVER_CPU = Rates({"fp32": 1e12, "fp64": 5e11}, 5e11, 2e11, NUMPY_LACKS)
LAPTOP_CPU = Rates({"fp32": 2e11, "fp64": 1e11}, 1e11, 2e10, NUMPY_LACKS)


@dataclass(frozen=True)
class Machine:
    """The rates of a session's GPU and of its host. `basis` says on what the GPU's rest where its card is not known."""

    gpu: Rates
    cpu: Rates
    basis: str | None = None


def machine(device: str, card: Match | None = None) -> Machine:
    """The machine of a device: `nvidia-h200`, `nvidia-h200-mig-1g.18gb` or `cpu-…`, as its session would be named; `card` is
    what is known of it from its own record. A slice has its share of the SMs and of the memory's bandwidth."""
    if device.startswith("cpu-"):
        return Machine(CARD, LAPTOP_CPU)
    known = card or match_folder(device, slug)
    bandwidth = known.bytes_per_s()
    if known.part is None or bandwidth is None:
        guess = f"{CARD.flop_per_s['fp32'] / 1e12:g} TFLOP/s in fp32, {CARD.bytes_per_s / 1e9:g} GB/s"
        return Machine(CARD, SERVER_CPU, f"{known.reason}: the GPU's seconds are those of a mid-range card ({guess})")
    flop = {peak: OF_VENDOR * rate for peak in known.part.flop_per_s if (rate := known.flop_per_s(peak)) is not None}
    lacking = frozenset(each for each in DTYPES if issue_rates.lacking(each, known.part.compute_capability))
    return Machine(Rates(flop, CARD.other_flop_per_s, OF_VENDOR * bandwidth, lacking), SERVER_CPU)


def pace_of(device: str) -> Callable[[str], float | None]:
    """The vendor's dense peak of a device by dtype, FLOP/s; None where it is not known. Named as in `machine`."""
    return match_folder(device, slug).flop_per_s

"""The parts of the vendor table, and which of them a card is: exactly one, or none with the reason.

The table is data/vendor_peaks.csv, one row per part. Its `device_name` is the name that NVML and CUDA print. Two parts may
share a name (RTX 3080 with 10 and 12 GB): SM count and memory tell them apart. No name is matched by its beginning, so a
laptop's or a virtual GPU never gets the figures of the card that it is named after. Knows its own table: no GPU, no clock.
"""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parents[1] / "data" / "vendor_peaks.csv"

GIB = 2**30
MEMORY_TOLERANCE = (
    0.08  # the driver and ECC keep up to 7.3 % of a GDDR card for themselves (Quadro RTX 8000: 44.5 of 48)
)

# Keys of every `flop_per_s` mapping: a format, or a variant of it that the vendor prints apart (fp16_acc16 accumulates in
# fp16, fp8_e4m3_full in fp32 throughout). int8 counts integer operations.
PEAKS = ("fp32", "tf32", "fp16", "bf16", "fp8_e4m3", "int8", "fp64", "fp16_acc16", "fp8_e4m3_full")
CUDA_CORE_PEAKS = (
    "fp32",
    "fp64",
)  # their peaks assume the CUDA core clock, fp64 on Tensor Cores too (Hopper white paper)

MIG_SUFFIX = re.compile(r" MIG (?P<profile>\S+)$")
MIG_PROFILE = re.compile(r"(?P<slices>\d+)g\.(?P<gb>\d+)gb")
MIG_SLICES = 8  # memory slices of a card that can be divided
VIRTUAL = re.compile(r"^GRID |-\d+(-\d+)?[ABCQ](ME)?$")
LAPTOP = re.compile(r"\b(Laptop|Mobile|Max-Q)\b")


@dataclass(frozen=True)
class Part:
    """One row of the table, SI units. `flop_per_s` holds the dense peaks that the vendor publishes for the part, no others.

    `cuda_core_hz` and `tensor_core_hz` are the clocks that the peaks assume: the vendor's boost clock or, where
    `clock_source` says "computed back", figure / (SMs x FLOP per clock per SM). `half_rate`: Tensor Cores accumulate in
    fp32 at half speed. `power_cap` says that the power limit keeps long products below those clocks, where that is known.
    `source_status` says how far a row was checked: "read in a secondary source" (named in `checked_against`),
    "formula-checked" or "from memory". `formula_exempt` lists the peaks that SMs x FLOP per clock per SM x clock does not
    give, and `formula_note` says why. `fp64_cuda_core_flop_per_s` stands beside a Tensor Core figure of fp64.
    """

    name: str
    device_name: str
    compute_capability: str
    sm_count: int
    memory_bytes: float
    cuda_core_hz: float
    tensor_core_hz: float
    clock_source: str
    half_rate: bool
    flop_per_s: dict[str, float]
    fp64_cuda_core_flop_per_s: float | None
    bytes_per_s: float
    board_power_w: float
    power_cap: str | None
    source: str
    source_status: str
    checked_against: str | None
    formula_exempt: tuple[str, ...]
    formula_note: str | None
    note: str | None

    def clock_hz(self, peak: str) -> float:
        """The SM clock that the vendor's figure of `peak` (of PEAKS) assumes, Hz."""
        return self.cuda_core_hz if peak in CUDA_CORE_PEAKS else self.tensor_core_hz


@dataclass(frozen=True)
class Match:
    """What the table knows of a card. `reason` is None if the card is the whole `part`.

    A MIG slice has its card's `part`, its shares of SMs and memory, and a reason; any other card has neither part nor share.
    """

    part: Part | None
    reason: str | None = None
    sm_share: float = 1.0
    memory_share: float = 1.0

    @property
    def whole(self) -> bool:
        """Whether the card is the whole part, so that the vendor's figures are its own."""
        return self.part is not None and self.reason is None

    def flop_per_s(self, peak: str) -> float | None:
        """The part's dense peak by the share of SMs, FLOP/s; None where the vendor publishes none."""
        known = self.part.flop_per_s.get(peak) if self.part else None
        return known * self.sm_share if known is not None else None

    def bytes_per_s(self) -> float | None:
        """The part's memory bandwidth by the share of memory, byte/s."""
        return self.part.bytes_per_s * self.memory_share if self.part else None


@cache
def parts() -> tuple[Part, ...]:
    """Every row of vendor_peaks.csv; an empty cell is a figure that the vendor does not publish or the part does not have."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(_part(row) for row in csv.DictReader(file))


def match(
    name: str,
    *,
    sm_count: int | None = None,
    memory_bytes: float | None = None,
    compute_capability: str | None = None,
    mig: str | bool | None = None,
) -> Match:
    """The part that a card is, by its NVML or CUDA name and whatever else is known of it (None: not known).

    `mig` is the profile ("1g.18gb") of a MIG slice, or True where only that is known; CUDA has the profile in the name.
    """
    card, suffix = MIG_SUFFIX.sub("", name), MIG_SUFFIX.search(name)
    profile = mig or (suffix["profile"] if suffix else None)
    named = [part for part in parts() if part.device_name == card]
    if not named:
        return Match(None, _unknown(name, card, bool(profile)))
    if profile:
        return _slice(named, str(profile), sm_count, memory_bytes)
    fitting = [part for part in named if _mismatch(part, sm_count, memory_bytes, compute_capability) is None]
    if len(fitting) == 1:
        return Match(fitting[0])
    if fitting:
        return Match(
            None, f"{name!r} is one of {', '.join(part.name for part in fitting)}: its memory size tells which"
        )
    return Match(None, _mismatch(_nearest(named, memory_bytes), sm_count, memory_bytes, compute_capability))


def match_folder(folder: str, slug: Callable[[str], str]) -> Match:
    """The same by the folder name that `slug` makes of a device's name; a MIG slice's ends in "-mig-" and its profile."""
    card, _, profile = folder.partition("-mig-")
    names = {slug(part.device_name): part.device_name for part in parts()}
    return match(names.get(card, card), mig=profile or None)


def _unknown(name: str, card: str, is_slice: bool) -> str:
    reason = f"{name!r} is not in the vendor table"
    if is_slice:
        return f"{reason} (MIG slice)"
    if VIRTUAL.search(card):
        return f"{reason} (virtual GPU: its share of the card is not known)"
    return f"{reason} (laptop GPU: its clocks follow the power limit of the machine)" if LAPTOP.search(card) else reason


def _slice(named: list[Part], profile: str, sm_count: int | None, memory_bytes: float | None) -> Match:
    if len(named) > 1:
        return Match(None, f"MIG slice of one of {', '.join(part.name for part in named)}")
    part, sizes = named[0], MIG_PROFILE.match(profile)
    sm_share = sm_count / part.sm_count if sm_count else int(sizes["slices"]) / MIG_SLICES if sizes else None
    memory = memory_bytes or (int(sizes["gb"]) * GIB if sizes else None)
    if sm_share is None or memory is None:
        return Match(None, f"MIG slice of {part.name} of unknown size")
    has = f"{sm_count} of {part.sm_count} SMs" if sm_count else f"profile {profile}"
    return Match(part, f"MIG slice: {has}", min(sm_share, 1.0), min(memory / part.memory_bytes, 1.0))


def _mismatch(
    part: Part, sm_count: int | None, memory_bytes: float | None, compute_capability: str | None
) -> str | None:
    """Why `part`, found by name, is not this very card; None if it is."""
    if sm_count is not None and sm_count < part.sm_count:
        return f"MIG slice: {sm_count} of {part.sm_count} SMs, or another version of {part.name}"
    if sm_count is not None and sm_count > part.sm_count:
        return f"{sm_count} SMs, but {part.name} has {part.sm_count}: another version of the part"
    if compute_capability not in (None, part.compute_capability):
        return f"compute capability {compute_capability}, but {part.name} has {part.compute_capability}"
    if memory_bytes is not None and abs(memory_bytes / part.memory_bytes - 1) > MEMORY_TOLERANCE:
        expected = f"{part.memory_bytes / GIB:g}"
        return f"{memory_bytes / GIB:.1f} GiB of memory, but {part.name} has {expected}: another version of the part"
    return None


def _nearest(named: list[Part], memory_bytes: float | None) -> Part:
    """The part of this name whose memory is nearest: the one that a reason speaks of."""
    return min(named, key=lambda part: abs(part.memory_bytes - (memory_bytes or 0.0)))


def _part(row: dict[str, str]) -> Part:
    cells = {peak: row["int8_tops" if peak == "int8" else f"{peak}_tflops"] for peak in PEAKS}
    cuda_core_fp64 = cells["fp64"] if row["fp64_tensor_tflops"] else ""
    cells["fp64"] = row["fp64_tensor_tflops"] or cells["fp64"]
    return Part(
        name=row["gpu"],
        device_name=row["device_name"],
        compute_capability=row["compute_capability"],
        sm_count=int(row["sm_count"]),
        memory_bytes=float(row["memory_gib"]) * GIB,
        cuda_core_hz=float(row["cuda_core_clock_mhz"]) * 1e6,
        tensor_core_hz=float(row["tensor_core_clock_mhz"]) * 1e6,
        clock_source=row["clock_source"],
        half_rate=row["fp32_accumulate"] == "half",
        flop_per_s={peak: float(cell) * 1e12 for peak, cell in cells.items() if cell},
        fp64_cuda_core_flop_per_s=float(cuda_core_fp64) * 1e12 if cuda_core_fp64 else None,
        bytes_per_s=float(row["memory_gb_per_s"]) * 1e9,
        board_power_w=float(row["board_power_w"]),
        power_cap=row["power_cap"] or None,
        source=row["source"],
        source_status=row["source_status"],
        checked_against=row["checked_against"] or None,
        formula_exempt=tuple(row["formula_exempt"].split()),
        formula_note=row["formula_note"] or None,
        note=row["note"] or None,
    )

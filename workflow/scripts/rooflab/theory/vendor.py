"""What the vendor says a GPU can do: dense peaks and memory bandwidth of an exact part, each with its source.

The figures stand in data/vendor_peaks.csv, one row per device name as NVML and CUDA print it; "dense" means without
2:4 sparsity. A part without a row gets null and the reason, and beside it an estimate from its attributes that is
labelled as one; it never gets the figures of another part. Knows arithmetic and its own table: no GPU, no clock.
"""

import csv
import re
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parents[1] / "data" / "vendor_peaks.csv"

# Keys of every `flop_per_s` mapping. fp16_acc16 is fp16 with fp16 accumulate; int8 counts integer operations.
PEAKS = ("fp32", "tf32", "fp16", "bf16", "fp8_e4m3", "int8", "fp64", "fp16_acc16")

# Dense FLOP (2 per fused multiply-add) per clock per SM at full rate. fp64 is the Tensor Core rate where there is one.
# Sources: the architecture white papers, and datasheet peak / (SMs x clock), which the tests repeat for every row.
FLOP_PER_CLOCK_PER_SM: dict[str, dict[str, int]] = {
    "7.0": {"fp32": 128, "fp16": 1024, "fp64": 64, "fp16_acc16": 1024},
    "7.5": {"fp32": 128, "fp16": 1024, "int8": 2048, "fp64": 4, "fp16_acc16": 1024},
    "8.0": {"fp32": 128, "tf32": 1024, "fp16": 2048, "bf16": 2048, "int8": 4096, "fp64": 128, "fp16_acc16": 2048},
    "8.6": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "int8": 2048, "fp64": 4, "fp16_acc16": 1024},
    "8.9": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8_e4m3": 2048, "int8": 2048, "fp64": 4,
            "fp16_acc16": 1024},
    "9.0": {"fp32": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "fp8_e4m3": 8192, "int8": 8192, "fp64": 256,
            "fp16_acc16": 4096},
    "10.0": {"fp32": 256, "tf32": 4096, "fp16": 8192, "bf16": 8192, "fp8_e4m3": 16384, "int8": 16384, "fp64": 128,
             "fp16_acc16": 8192},
    "12.0": {"fp32": 256, "tf32": 512, "fp16": 1024, "bf16": 1024, "fp8_e4m3": 2048, "int8": 2048, "fp64": 4,
             "fp16_acc16": 1024},
}  # fmt: skip
FP64_TENSOR_CORES = ("8.0", "9.0", "10.0")

# GeForce parts of these architectures (and table rows that say so) accumulate in fp32 at half of the Tensor Core rate.
HALF_RATE_ARCHITECTURES = ("7.5", "8.6", "8.9", "12.0")
FP32_ACCUMULATE = ("tf32", "fp16", "bf16", "fp8_e4m3")

FIRST_CAPABILITY = {"fp16": (7, 0), "int8": (7, 5), "tf32": (8, 0), "bf16": (8, 0), "fp8_e4m3": (8, 9)}

# Compute capability 7.5 without Tensor Cores (TU116, TU117), and export versions whose rates were cut.
NO_TENSOR_CORES = re.compile(r"\b(GTX 16\d\d|MX\d{3}|T\d{3,4})\b")
EXPORT_VERSIONS = re.compile(r"\b(H20|H800|L20|L2)\b")
MIG_SUFFIX = re.compile(r" MIG \S+$")

MEMORY_TOLERANCE = 0.10  # the driver and ECC keep up to 8 % of a GDDR card for themselves
GIB = 2**30


@dataclass(frozen=True)
class Figure:
    """One vendor number in SI base units, or null with its `reason`.

    `kind` is "datasheet" or "formula"; a formula figure is an estimate and its `note` says so.
    """

    value: float | None
    kind: str
    source: str | None = None
    reason: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class VendorPeaks:
    """Vendor figures of one device. `matched` is the part of the table, else None with the `reason`.

    `flop_per_s` (keys PEAKS) and `bytes_per_s` come from the table only. `estimate_flop_per_s` (same keys) and
    `estimate_bytes_per_s` are filled only when no row matched.
    """

    matched: str | None
    reason: str | None
    flop_per_s: dict[str, Figure]
    bytes_per_s: Figure
    board_power_w: float | None
    note: str | None = None
    estimate_flop_per_s: dict[str, Figure] = field(default_factory=dict)
    estimate_bytes_per_s: Figure | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, strings, numbers and None, ready for JSON."""
        return asdict(self)


@cache
def table() -> dict[str, dict[str, str]]:
    """The rows of vendor_peaks.csv by device name, cells as text; an empty cell is a figure the part does not have.

    The two clocks are those that the CUDA core (fp32, fp64) and Tensor Core peaks assume. `fp16_tflops` accumulates in
    fp32. `source_status` says how far a row was checked: "read in a secondary source" (named in `checked_against`),
    "formula-checked" or "from memory". `formula_exempt` lists the peaks that SMs x FLOP per clock per SM x clock does
    not give, and `formula_note` says why.
    """
    with TABLE.open(encoding="utf-8", newline="") as file:
        return {row["device_name"]: row for row in csv.DictReader(file)}


def vendor_peaks(
    name: str,
    sm_count: int,
    compute_capability: str,
    max_sm_clock_hz: float | None,
    memory_bytes: int | None = None,
    mig: bool = False,
    max_memory_clock_hz: float | None = None,
    bus_width_bit: int | None = None,
) -> VendorPeaks:
    """Vendor figures of the device with this exact name, SM count, compute capability ("9.0") and memory size.

    A MIG slice has none: its reason is "MIG slice: N of M SMs". The clocks and the bus width serve the estimate only.
    Raises ValueError for a compute capability in another form.
    """
    _capability(compute_capability)
    row = table().get(_card(name))
    reason = _mismatch(row, name, sm_count, compute_capability, memory_bytes, mig)
    if row is not None and reason is None:
        return _from_row(row)
    hole = Figure(None, "datasheet", reason=reason)
    if _is_slice(name, mig):
        bandwidth = Figure(None, "formula", reason="MIG slice: the bus width is that of the whole card")
    else:
        bandwidth = memory_estimate(max_memory_clock_hz, bus_width_bit)
    return VendorPeaks(
        matched=None,
        reason=reason,
        flop_per_s=dict.fromkeys(PEAKS, hole),
        bytes_per_s=hole,
        board_power_w=None,
        estimate_flop_per_s=formula_estimate(name, sm_count, compute_capability, max_sm_clock_hz),
        estimate_bytes_per_s=bandwidth,
    )


def formula_estimate(
    name: str, sm_count: int, compute_capability: str, max_sm_clock_hz: float | None
) -> dict[str, Figure]:
    """Estimated dense peaks in FLOP/s, keys PEAKS: SMs x FLOP per clock per SM x maximum SM clock.

    Null where the architecture lacks the format, is unknown, or the part is known not to follow it. The maximum clock
    exceeds what Hopper datasheets assume for Tensor Cores (1980 against 1830 MHz), so the estimate may be 8 % high.
    """
    if not max_sm_clock_hz:
        return dict.fromkeys(PEAKS, Figure(None, "formula", reason="the driver does not give the maximum SM clock"))
    return {peak: _formula_figure(peak, _card(name), sm_count, compute_capability, max_sm_clock_hz) for peak in PEAKS}


def memory_estimate(max_memory_clock_hz: float | None, bus_width_bit: int | None) -> Figure:
    """Estimated memory bandwidth in byte/s: 2 (double data rate) x memory clock x bus width / 8, clock as in NVML."""
    if not max_memory_clock_hz or not bus_width_bit:
        return Figure(None, "formula", reason="the driver does not give memory clock and bus width")
    return Figure(
        2 * max_memory_clock_hz * bus_width_bit / 8,
        "formula",
        source=f"2 x {max_memory_clock_hz / 1e6:g} MHz x {bus_width_bit} bit / 8",
        note="estimate, not a vendor figure",
    )


def _mismatch(
    row: dict[str, str] | None, name: str, sm_count: int, compute_capability: str, memory_bytes: int | None, mig: bool
) -> str | None:
    """Why `row`, found by name, is not this very device; None if it is."""
    if row is None:
        return f"{name!r} is not in the vendor table" + (" (MIG slice)" if _is_slice(name, mig) else "")
    gpu, part_sm_count, part_gib = row["gpu"], int(row["sm_count"]), float(row["memory_gib"])
    if _is_slice(name, mig):
        return f"MIG slice: {sm_count} of {part_sm_count} SMs"
    if sm_count < part_sm_count:
        return f"MIG slice: {sm_count} of {part_sm_count} SMs, or another version of {gpu}"
    if sm_count > part_sm_count:
        return f"{sm_count} SMs, but {gpu} has {part_sm_count}: another version of the part"
    if compute_capability != row["compute_capability"]:
        return f"compute capability {compute_capability}, but {gpu} has {row['compute_capability']}"
    if memory_bytes is not None and abs(memory_bytes / GIB / part_gib - 1) > MEMORY_TOLERANCE:
        return f"{memory_bytes / GIB:.1f} GiB of memory, but {gpu} has {part_gib:g}: another version of the part"
    return None


def _is_slice(name: str, mig: bool) -> bool:
    return mig or MIG_SUFFIX.search(name) is not None


def _card(name: str) -> str:
    """The name of the whole card; CUDA appends the profile of a MIG slice to it."""
    return MIG_SUFFIX.sub("", name)


def _from_row(row: dict[str, str]) -> VendorPeaks:
    bandwidth = float(row["memory_gb_per_s"]) * 1e9
    return VendorPeaks(
        matched=row["gpu"],
        reason=None,
        flop_per_s={peak: _datasheet_figure(peak, row) for peak in PEAKS},
        bytes_per_s=Figure(bandwidth, "datasheet", source=_source(row)),
        board_power_w=float(row["board_power_w"]),
        note=row["note"] or None,
    )


def _datasheet_figure(peak: str, row: dict[str, str]) -> Figure:
    cell, note = row["int8_tops" if peak == "int8" else f"{peak}_tflops"], None
    if peak == "fp64" and row["fp64_tensor_tflops"]:
        cell, note = row["fp64_tensor_tflops"], f"Tensor Core rate; on CUDA cores {cell} TFLOPS"
    elif peak == "fp64":
        note = "CUDA core rate; the part has no fp64 Tensor Cores"
    if cell:
        return Figure(float(cell) * 1e12, "datasheet", source=_source(row), note=note)
    lacking = _lacking(peak, row["compute_capability"])
    return Figure(None, "datasheet", reason=lacking or f"the vendor table holds no {peak} figure of {row['gpu']}")


def _source(row: dict[str, str]) -> str:
    checked = f": {row['checked_against']}" if row["checked_against"] else ""
    return f"{row['source']} ({row['source_status']}{checked})"


def _formula_figure(peak: str, card: str, sm_count: int, compute_capability: str, max_sm_clock_hz: float) -> Figure:
    reason = _no_formula(peak, card, compute_capability)
    if reason is not None:
        return Figure(None, "formula", reason=reason)
    half = peak in FP32_ACCUMULATE and _is_half_rate(card, compute_capability)
    rate = FLOP_PER_CLOCK_PER_SM[compute_capability][peak] // (2 if half else 1)
    unit = "; Tensor Core rate" if peak == "fp64" and compute_capability in FP64_TENSOR_CORES else ""
    return Figure(
        sm_count * rate * max_sm_clock_hz,
        "formula",
        source=f"{sm_count} SMs x {rate} FLOP/clock/SM x {max_sm_clock_hz / 1e6:g} MHz",
        note=f"estimate, not a vendor figure{unit}{'; half-rate fp32 accumulate' if half else ''}",
    )


def _no_formula(peak: str, card: str, compute_capability: str) -> str | None:
    """Why the formula would be wrong or is unknown for this part; None if it holds."""
    if compute_capability not in FLOP_PER_CLOCK_PER_SM:
        return f"no FLOP per clock per SM known for compute capability {compute_capability}"
    if EXPORT_VERSIONS.search(card):
        return f"{card!r} is an export version that whose rates were cut below its architecture"
    if compute_capability == "7.5" and NO_TENSOR_CORES.search(card) and peak not in ("fp32", "fp64"):
        return f"{card!r} has no Tensor Cores"
    return _lacking(peak, compute_capability)


def _is_half_rate(card: str, compute_capability: str) -> bool:
    listed = table().get(card, {}).get("fp32_accumulate") == "half"
    return listed or ("GeForce" in card and compute_capability in HALF_RATE_ARCHITECTURES)


def _lacking(peak: str, compute_capability: str) -> str | None:
    first = FIRST_CAPABILITY.get(peak, (0, 0))
    if _capability(compute_capability) >= first:
        return None
    return f"no {peak} Tensor Cores on compute capability {compute_capability}: they start at {first[0]}.{first[1]}"


def _capability(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"\d+\.\d", text):
        raise ValueError(f"compute capability is {text!r}: expected major and minor like '9.0'")
    major, minor = text.split(".")
    return int(major), int(minor)

"""What the vendor says a GPU can do: dense peaks and memory bandwidth of an exact part, each with its source.

The figures stand in the table of `parts`; "dense" means without 2:4 sparsity. A card that is no part of it gets null and the
reason, and beside it an estimate from its attributes that is labelled as one; it never gets the figures of another part.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

from rooflab.theory.issue_rates import capability, issue_rate, lacking
from rooflab.theory.parts import GIB, MIG_SUFFIX, PEAKS, Match, Part, match


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

    `flop_per_s` (keys PEAKS) and `bytes_per_s` come from the table only. `clock_hz` (keys PEAKS) are the SM clocks that those
    peaks assume, and `clock_source` how they are known; `power_cap` says that the board's power limit keeps long products
    below them. `estimate_flop_per_s` (keys PEAKS) and `estimate_bytes_per_s` are filled only when no row matched.
    """

    matched: str | None
    reason: str | None
    flop_per_s: dict[str, Figure]
    bytes_per_s: Figure
    board_power_w: float | None
    note: str | None = None
    clock_hz: dict[str, float] = field(default_factory=dict)
    clock_source: str | None = None
    power_cap: str | None = None
    estimate_flop_per_s: dict[str, Figure] = field(default_factory=dict)
    estimate_bytes_per_s: Figure | None = None

    def to_dict(self) -> dict[str, Any]:
        """The same as plain dicts, strings, numbers and None, ready for JSON."""
        return asdict(self)


def vendor_peaks(
    name: str,
    sm_count: int,
    compute_capability: str,
    max_sm_clock_hz: float | None,
    memory_bytes: int | None = None,
    mig: str | bool | None = None,
    max_memory_clock_hz: float | None = None,
    bus_width_bit: int | None = None,
) -> VendorPeaks:
    """Vendor figures of the device with this exact name, SM count, compute capability ("9.0") and memory size.

    A MIG slice has none: its reason is "MIG slice: N of M SMs", its estimate its share of the card. The clocks and the bus
    width serve the estimate only. Raises ValueError for a compute capability in another form.
    """
    capability(compute_capability)
    found = match(name, sm_count=sm_count, memory_bytes=memory_bytes, compute_capability=compute_capability, mig=mig)
    if found.whole and found.part is not None:
        return _from_part(found.part)
    hole = Figure(None, "datasheet", reason=found.reason)
    is_slice = bool(mig) or MIG_SUFFIX.search(name) is not None
    if found.part is not None:
        flop, moved = _share(found, found.part)
    else:
        flop = formula_estimate(name, sm_count, compute_capability, max_sm_clock_hz)
        whole_bus = Figure(None, "formula", reason="MIG slice: the bus width is that of the whole card")
        moved = whole_bus if is_slice else memory_estimate(max_memory_clock_hz, bus_width_bit)
    return VendorPeaks(
        matched=None,
        reason=found.reason,
        flop_per_s=dict.fromkeys(PEAKS, hole),
        bytes_per_s=hole,
        board_power_w=None,
        estimate_flop_per_s=flop,
        estimate_bytes_per_s=moved,
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
    card = MIG_SUFFIX.sub("", name)
    return {peak: _formula_figure(peak, card, sm_count, compute_capability, max_sm_clock_hz) for peak in PEAKS}


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


def _from_part(part: Part) -> VendorPeaks:
    return VendorPeaks(
        matched=part.name,
        reason=None,
        flop_per_s={peak: _datasheet_figure(peak, part) for peak in PEAKS},
        bytes_per_s=Figure(part.bytes_per_s, "datasheet", source=_source(part)),
        board_power_w=part.board_power_w,
        note=part.note,
        clock_hz={peak: part.clock_hz(peak) for peak in PEAKS},
        clock_source=part.clock_source,
        power_cap=part.power_cap,
    )


def _datasheet_figure(peak: str, part: Part) -> Figure:
    note = None
    if peak == "fp64" and part.fp64_cuda_core_flop_per_s is not None:
        note = f"Tensor Core rate; on CUDA cores {part.fp64_cuda_core_flop_per_s / 1e12:g} TFLOPS"
    elif peak == "fp64":
        note = "CUDA core rate; the part has no fp64 Tensor Cores"
    if peak in part.flop_per_s:
        return Figure(part.flop_per_s[peak], "datasheet", source=_source(part), note=note)
    reason = lacking(peak, part.compute_capability) or f"the vendor table holds no {peak} figure of {part.name}"
    return Figure(None, "datasheet", reason=reason)


def _source(part: Part) -> str:
    checked = f": {part.checked_against}" if part.checked_against else ""
    return f"{part.source} ({part.source_status}{checked})"


def _share(found: Match, part: Part) -> tuple[dict[str, Figure], Figure]:
    """Estimates of a slice: its card's figures by the shares of SMs and of memory."""
    sms = f"{found.sm_share:.3g} of the SMs of {part.name}"
    memory = f"{found.memory_share:.3g} of the {part.memory_bytes / GIB:g} GiB of {part.name}"
    flop = {peak: _shared(found.flop_per_s(peak), sms, f"no {peak} figure of {part.name}") for peak in PEAKS}
    return flop, _shared(found.bytes_per_s(), memory, "")


def _shared(value: float | None, share: str, reason: str) -> Figure:
    if value is None:
        return Figure(None, "formula", reason=reason)
    return Figure(value, "formula", source=share, note="estimate, not a vendor figure")


def _formula_figure(peak: str, card: str, sm_count: int, compute_capability: str, max_sm_clock_hz: float) -> Figure:
    sheet = issue_rate(card, compute_capability, peak, on_sheet=True)
    if sheet.flop_per_clock is None:
        return Figure(None, "formula", reason=sheet.reason)
    half = "; half-rate fp32 accumulate" if sheet.half_rate else ""
    return Figure(
        sm_count * sheet.flop_per_clock * max_sm_clock_hz,
        "formula",
        source=f"{sm_count} SMs x {sheet.flop_per_clock:g} FLOP/clock/SM x {max_sm_clock_hz / 1e6:g} MHz",
        note=f"estimate, not a vendor figure; {sheet.unit} rate{half}",
    )

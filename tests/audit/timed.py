"""The raw samples of a session and the few definitions that turn them into rates, each in one function.

A definition that changes is changed here, from its written form, and never by looking it up in the product.
"""

import csv
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "workflow" / "scripts" / "rooflab" / "data" / "vendor_peaks.csv"
MOVED = {"d2d": 2, "read": 1, "write": 1, "triad": 3, "l2": 1}  # copies of a buffer that a pattern moves
EMPTY = "empty kernel"
L2_REACH = 0.9
FEWEST = 5  # samples that a ceiling rests on
SETTLING = 1 / 3  # of a sustained run, which is left out

# What one SM of an architecture multiplies and adds in a clock, FLOP: the H100 white paper (9.0), dense
PER_SM_AND_CLOCK = {
    "9.0": {
        "fp32": 256, "fp64": 256, "tf32": 2048, "fp16": 4096, "bf16": 4096, "fp16_acc16": 4096, "int8": 8192,
        "fp8_e4m3": 8192, "fp8_e4m3_full": 8192,
    },
}  # fmt: skip


def per_launch(series: Json) -> np.ndarray:
    """Seconds of one launch, sample by sample."""
    return np.array(series["samples_s"]) / series["iterations_per_sample"]


def median(series: Json) -> float:
    """The middle of the samples, seconds per launch."""
    return float(np.quantile(per_launch(series), 0.5))


def tenths(series: Json) -> tuple[float, float]:
    """The 10th and the 90th percentile (linear between neighbours), seconds per launch."""
    low, high = np.quantile(per_launch(series), [0.1, 0.9])
    return float(low), float(high)


def cycles(series: Json) -> slice:
    """The blocks of a sustained run from one rise of the block times above their mean to the last such rise, whole cycles of
    the power limit, after the first third; all of the rest where there are not two rises."""
    blocks = np.array(series["samples_s"])
    start = int(len(blocks) * SETTLING)
    above = blocks[start:] > blocks[start:].mean()
    rises = start + 1 + np.flatnonzero(~above[:-1] & above[1:])
    return slice(int(rises[0]), int(rises[-1])) if len(rises) > 1 else slice(start, len(blocks))


def settled(series: Json) -> float:
    """What a sustained run holds: time over launches across whole cycles, seconds per launch."""
    held = series["samples_s"][cycles(series)]
    return float(sum(held) / (len(held) * series["iterations_per_sample"]))


def mean_over_cycles(series: Json, what: str) -> float | None:
    """The mean of what was tracked block by block ("sm_hz", "temperature_c") over the same blocks."""
    known = [each for each in ((series.get("track") or {}).get(what) or [])[cycles(series)] if each is not None]
    return float(np.mean(known)) if known else None


def inside(series: Json) -> float | None:
    """The SM clock inside the timed blocks, where pairs of stamps gave one, Hz."""
    return (series.get("clock") or {}).get("sm_hz")


def was_wrong(series: Json) -> bool:
    """Whether the result was compared with float64 and did not agree."""
    error, tolerance = series["relative_error"], series["tolerance"]
    return error is not None and not (tolerance is not None and error <= tolerance)


def was_right(series: Json) -> bool:
    """Whether it was compared and agreed."""
    return series["relative_error"] is not None and not was_wrong(series)


def gemm_rate(record: Json, series: Json) -> float:
    """FLOP/s of a product: sustained runs by work over time, all others by their median."""
    return gemm_flop(record) / (settled(series) if series["name"].startswith("sustained") else median(series))


def gemm_flop(record: Json) -> int:
    """FLOP of one product."""
    shape = record["shape"]
    return int(2 * shape["m"] * shape["n"] * shape["k"])


def variant(record: Json) -> str:
    """fp8_e4m3_full of fp8_e4m3_full-n8192."""
    return str(record["name"].rsplit("-n", 1)[0])


def moved_bytes(record: Json, series: Json) -> int:
    """Bytes that one launch of a bandwidth kernel reads and writes."""
    buffer = record["details"].get("bytes_per_series", {}).get(series["name"], record["shape"]["bytes_per_array"])
    return int(MOVED[record["name"]] * buffer)


def paid_s(ledger: Path) -> float:
    """Seconds of all runs, each from its launch (not before the end of the one before) to the end of its last measurement.

    Within a boot the time since it counts, from the time of its first event on: nobody sets that clock.
    """
    total, end, begin = 0.0, 0.0, None
    zero: dict[str, float] = {}
    for event in map(json.loads, ledger.read_text(encoding="utf-8").splitlines()):
        if "boot" in event:
            shift = (
                zero.setdefault(event["boot"], event["time"] - event["uptime_s"]) + event["uptime_s"] - event["time"]
            )
            event["time"] = round(event["time"] + shift, 3)
        if event["event"] == "run start":
            total += max(0.0, end - begin) if begin is not None else 0.0
            begin = max(min(event["time"], event.get("launched", event["time"])), end)
            end = event["time"]
        elif event.get("job"):
            end = max(end, event["time"])
    return total + (max(0.0, end - begin) if begin is not None else 0.0)


def sealed(record: Json) -> str:
    """SHA-256 over the record without its seal: keys in order, whole numbers without a point, no spaces."""
    body = {key: value for key, value in record.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(_plain(body), sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True)
class Session:
    """A committed session: what was derived, and the records it was derived from."""

    folder: Path

    @cached_property
    def roofline(self) -> Json:
        """What was derived."""
        return dict(json.loads((self.folder / "roofline.json").read_text(encoding="utf-8")))

    @cached_property
    def records(self) -> dict[str, Json]:
        """The measured records that roofline.json names as its origin, by file."""
        files = [each["file"] for each in self.roofline["generated_from"]]
        found = {file: json.loads((self.folder / file).read_text(encoding="utf-8")) for file in files}
        return {file: record for file, record in found.items() if record["status"] == "measured"}

    def of(self, side: str, stage: str) -> dict[str, Json]:
        """The records of one stage on one side."""
        return {f: r for f, r in self.records.items() if (r["side"], r["stage"]) == (side, stage)}

    def device(self, side: str) -> Json:
        """What CUDA, NVML or the operating system said of the device; what they refused is left out."""
        for record in self.of(side, "device").values():
            said = record["details"]
            merged = {**said.get("nvml", {}), **said.get("cuda", {}), **said, **record["device"]}
            return {k: v for k, v in merged.items() if not (isinstance(v, dict) and "unavailable" in v)}
        return {}

    @cached_property
    def vendor(self) -> Json:
        """The row of the vendor table for this very card, cells as text; empty where there is none."""
        card = self.device("gpu")
        if not card or card.get("mig"):
            return {}
        with TABLE.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["device_name"] == card["name"]]
        fitting = [
            row
            for row in rows
            if int(row["sm_count"]) == card["sm_count"]
            and abs(card["memory_bytes"] / 2**30 / float(row["memory_gib"]) - 1) < 0.08
        ]
        return fitting[0] if len(fitting) == 1 else {}

    def vendor_clock_hz(self, name: str) -> float | None:
        """The SM clock that the vendor's figure assumes: another one for Tensor Cores than for CUDA cores and fp64."""
        column = "cuda_core_clock_mhz" if name in ("fp32", "fp64") else "tensor_core_clock_mhz"
        return float(self.vendor[column]) * 1e6 if self.vendor else None

    def most_flop_per_s(self, side: str, name: str, series: Json | None) -> float | None:
        """The physical limit: SMs x FLOP per clock x the clock inside the blocks, else the card's maximum."""
        if side == "cpu":
            return self._cpu_peak(name)
        card = self.device("gpu")
        rate = PER_SM_AND_CLOCK[card["compute_capability"]].get(name)
        clock = (inside(series) if series else None) or max(card["max_sm_clock_hz"], card["sm_clock_hz"])
        return card["sm_count"] * rate * clock if rate else None

    def most_bytes_per_s(self, tier: str) -> float | None:
        """The physical limit of main memory: two transfers a clock over the bus."""
        card = self.device("gpu")
        if tier != "HBM" or not card:
            return None
        clock = max(card["max_memory_clock_hz"], card["memory_clock_hz"])
        return float(2 * clock * card["memory_bus_bits"] / 8)

    def vendor_flop_per_s(self, side: str, name: str) -> float | None:
        """The vendor's dense peak of a format or variant; fp64 on Tensor Cores where the part has them for it."""
        if side == "cpu":
            return self._cpu_peak(name)
        column = {"int8": "int8_tops"}.get(name, f"{name}_tflops")
        cell = self.vendor.get(column, "")
        if name == "fp64":
            cell = self.vendor.get("fp64_tensor_tflops") or cell
        return float(cell) * 1e12 if cell else None

    def _cpu_peak(self, name: str) -> float | None:
        """Cores x clock x fp32 lanes x FMA units x 2, half of it in fp64."""
        factors = self.device("cpu").get("peak") or {}
        known = [factors.get(each) for each in ("cores", "clock_hz", "fp32_lanes", "fma_units")]
        share = {"fp32": 2.0, "fp64": 1.0}.get(name)
        return None if share is None or None in known else float(share * np.prod(np.array(known, dtype=float)))

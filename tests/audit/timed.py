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


def settled(series: Json) -> float:
    """What a sustained run settles to, seconds per launch: the mean of what follows its first third, from the first block that
    rises above the mean level to the last that does, so that only whole swings of the power limit count."""
    late = per_launch(series)[int(len(series["samples_s"]) / 3) :]
    is_high = late > late.mean()
    (rises,) = np.nonzero(is_high[1:] & ~is_high[:-1])
    return float(late[rises[0] + 1 : rises[-1] + 1].mean() if len(rises) > 1 else late.mean())


def was_wrong(series: Json) -> bool:
    """Whether the result was compared with float64 and did not agree."""
    error, tolerance = series["relative_error"], series["tolerance"]
    return error is not None and not (tolerance is not None and error <= tolerance)


def was_right(series: Json) -> bool:
    """Whether it was compared and agreed."""
    return series["relative_error"] is not None and not was_wrong(series)


def gemm_rate(record: Json, series: Json) -> float:
    """FLOP/s of a product: sustained runs by where they settle, all others by their median."""
    shape = record["shape"]
    flop = 2 * shape["m"] * shape["n"] * shape["k"]
    return flop / (settled(series) if series["name"].startswith("sustained") else median(series))


def variant(record: Json) -> str:
    """fp8_e4m3_full of fp8_e4m3_full-n8192."""
    return str(record["name"].rsplit("-n", 1)[0])


def moved_bytes(record: Json, series: Json) -> int:
    """Bytes that one launch of a bandwidth kernel reads and writes."""
    buffer = record["details"].get("bytes_per_series", {}).get(series["name"], record["shape"]["bytes_per_array"])
    return int(MOVED[record["name"]] * buffer)


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

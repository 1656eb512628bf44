"""Do two sessions of the same model of GPU agree? Burst ceilings within 2 %, medians of decode steps within 5 %.

    python benchmarks/agreement.py results/nvidia-h200 results/nvidia-h200-again

Prints a Markdown table of what disagrees, with the chip's state in both sessions, and how much was compared.
"""

import json
import sys
from pathlib import Path
from typing import Any

CEILING, STEP = 0.02, 0.05
Item = dict[str, Any]


def pairs(one: Item, other: Item, kind: str) -> list[tuple[Item, Item]]:
    """The GPU's ceilings or decode points that both sessions have."""
    found = {item["id"]: item for item in other[kind]}
    mine = (item for item in one[kind] if item["side"] == "gpu" and item.get("operator") != "gemm")
    return [(item, found[item["id"]]) for item in mine if item["id"] in found]


def state(folder: Path, file: str) -> str:
    """What the chip said during the loads of a record: clocks, temperature and reasons for a lower clock."""
    record = json.loads((folder / file).read_text())
    chips = [series["chip"]["during"] for series in record["series"]]
    clocks = sorted({round(chip["sm_clock_hz"] / 1e6) for chip in chips if chip.get("sm_clock_hz")})
    reasons = sorted({reason for chip in chips for reason in chip.get("throttle_reasons") or []})
    hottest = max((chip.get("temperature_c") or 0 for chip in chips), default=0)
    return (
        f"{clocks[0]}–{clocks[-1]} MHz, {hottest} °C, {', '.join(reasons) or 'no throttling'}" if clocks else "unknown"
    )


def line(
    name: str, values: tuple[float, float], files: tuple[str, str], folders: tuple[Path, Path], most: float
) -> str | None:
    """A row for what lies further apart than `most`; None for what agrees."""
    apart = abs(values[0] - values[1]) / min(values)
    if apart <= most:
        return None
    states = [state(folder, file) for folder, file in zip(folders, files, strict=True)]
    return f"| {name} | {values[0]:.4g} | {values[1]:.4g} | {apart:.1%} | {states[0]} | {states[1]} |"


def main() -> None:
    folders = (Path(sys.argv[1]), Path(sys.argv[2]))
    one, other = (json.loads((folder / "roofline.json").read_text()) for folder in folders)
    ceilings, points = pairs(one, other, "ceilings"), pairs(one, other, "points")
    rows = [line(a["id"], (a["burst"], b["burst"]), (a["file"], b["file"]), folders, CEILING) for a, b in ceilings] + [
        line(a["id"], (a["median_s"], b["median_s"]), (a["file"], b["file"]), folders, STEP) for a, b in points
    ]
    differing = [row for row in rows if row]
    print(
        f"{len(ceilings)} ceilings (2 %) and {len(points)} decode medians (5 %) compared, {len(differing)} disagree:\n"
    )
    print("| figure (SI) | first | second | apart | chip in the first | chip in the second |\n|--|--|--|--|--|--|")
    print("\n".join(differing))


if __name__ == "__main__":
    main()

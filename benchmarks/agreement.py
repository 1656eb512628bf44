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


def host(point: Item) -> str:
    """The empty launch of the same way in the same program: what the host was like."""
    return f"; empty launch {point['launch_floor_s'] * 1e6:.1f} µs" if point.get("launch_floor_s") else ""


def line(pair: tuple[Item, Item], key: str, folders: tuple[Path, Path], most: float) -> str | None:
    """A row for what lies further apart than `most`; None for what agrees."""
    first, second = (item[key] for item in pair)
    apart = abs(first - second) / min(first, second)
    if apart <= most:
        return None
    states = [state(folder, item["file"]) + host(item) for folder, item in zip(folders, pair, strict=True)]
    return f"| {pair[0]['id']} | {first:.4g} | {second:.4g} | {apart:.1%} | {states[0]} | {states[1]} |"


def main() -> None:
    folders = (Path(sys.argv[1]), Path(sys.argv[2]))
    one, other = (json.loads((folder / "roofline.json").read_text()) for folder in folders)
    points = pairs(one, other, "points")
    graphs = [pair for pair in points if pair[0]["timing"] == "graph"]
    kinds = (
        ("burst ceilings", "burst", CEILING, pairs(one, other, "ceilings")),
        ("decode steps replayed in a graph", "median_s", STEP, graphs),
        ("decode steps launched one by one", "median_s", STEP, [pair for pair in points if pair not in graphs]),
    )
    for title, key, most, compared in kinds:
        rows = [row for row in (line(pair, key, folders, most) for pair in compared) if row]
        print(f"{title}: {len(compared) - len(rows)} of {len(compared)} agree within {most:.0%}.\n")
        if rows:
            print("| figure (SI) | first | second | apart | in the first | in the second |\n|--|--|--|--|--|--|")
            print("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()

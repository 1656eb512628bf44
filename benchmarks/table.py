"""Prints the JSON that `peers.py` or `dram_bytes.py` wrote as a Markdown table: python benchmarks/table.py FILE"""

import json
import sys
from pathlib import Path
from typing import Any


def peers(rows: list[dict[str, Any]]) -> list[str]:
    """One line per pair."""
    head = ["| case | peer | ours, µs | theirs, µs | ratio [lowest..highest block] |", "|--|--|--|--|--|"]
    return head + [
        f"| {r['case']} | {r['peer']} | {r['ours_s'] * 1e6:.2f} | {r['peer_s'] * 1e6:.2f} "
        f"| {r['ratio']:.3f} [{r['ratio_low']:.3f}..{r['ratio_high']:.3f}] |"
        for r in rows
    ]


def dram(rows: list[dict[str, Any]]) -> list[str]:
    """One line per case."""
    head = ["| case | K and V come from | theory, bytes | DRAM read, bytes | read / theory |", "|--|--|--|--|--|"]
    return head + [
        f"| {r['case']} | {r['tier']} | {r['theory_bytes']} | {r['dram_read_bytes']:.0f} | {r['ratio']:.4f} |"
        for r in rows
    ]


if __name__ == "__main__":
    found = json.loads(Path(sys.argv[1]).read_text())
    print("\n".join(dram(found["rows"]) if "metrics" in found else peers(found["rows"])))

"""Does a decode step read from DRAM what the theory says? Counted by Nsight Compute on the GPU machine.

    python benchmarks/dram_bytes.py --out benchmarks/dram-bytes-nvidia-h200.json

Runs itself under `ncu` once per case: `ncu` counts the DRAM bytes of the last of a few launches of the fused kernel.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
# batch, KV heads, S, head size, dtype; where the theory expects K and V to come from
CASES = [
    (1024, 8, 1024, 64, "fp16", "HBM"),
    (1024, 8, 1024, 64, "fp32", "HBM"),
    (1024, 8, 1024, 64, "fp8_e4m3", "HBM"),
    (1, 8, 1024, 64, "fp16", "L2"),
    (1, 8, 1024, 64, "fp32", "L2"),
]
LAUNCHES = 4


def step(case: tuple[Any, ...]) -> None:
    """LAUNCHES launches of the fused kernel, the cache as warm as its size allows."""
    from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
    from rooflab.measure.cuda.device import open_device

    batch, heads, sequence, head_dim, dtype, _ = case
    device = open_device()
    made = DecodeCase.random(device, DecodeShape(batch, heads, heads, sequence, head_dim), dtype, seed=0)
    call = made.fused(made.fused_candidates(1)[0])
    for _ in range(LAUNCHES):
        call()
    device.synchronize()


def counted(index: int) -> dict[str, float]:
    """Bytes per metric of the last launch. `--cache-control none`: ncu must not flush the caches between launches."""
    command = ["ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(METRICS)]
    command += ["--print-units", "base", "--kernel-name", "decode_attention", "--launch-skip", str(LAUNCHES - 1)]
    command += [sys.executable, __file__, "--case", str(index)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line for line in told.splitlines() if line.startswith('"')]
    return {each["Metric Name"]: float(each["Metric Value"].replace(",", "")) for each in csv.DictReader(lines)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", type=int)
    given = parser.parse_args()
    if given.case is not None:
        return step(CASES[given.case])
    from rooflab.theory import work
    from rooflab.theory.dtypes import dtype

    rows = []
    for index, (batch, heads, sequence, head_dim, name, tier) in enumerate(CASES):
        expected = work.decode_attention(batch, heads, heads, sequence, head_dim, dtype(name).bytes).bytes
        seen = counted(index)
        read = seen["dram__bytes_read.sum"]
        made = {"case": f"B{batch} H{heads} S{sequence} D{head_dim} {name}", "tier": tier, "theory_bytes": expected}
        rows.append(
            made
            | {"dram_read_bytes": read, "dram_write_bytes": seen["dram__bytes_write.sum"], "ratio": read / expected}
        )
        print(
            f"{made['case']:<28}{tier:<5}theory {expected:>12} B  DRAM read {read:>14.0f} B  ratio {read / expected:.4f}",
            flush=True,
        )
    given.out.write_text(json.dumps({"metrics": METRICS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

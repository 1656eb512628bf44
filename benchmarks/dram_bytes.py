"""Does a decode step read from DRAM what the theory says? Counted by Nsight Compute on the GPU machine.

    python benchmarks/dram_bytes.py --out benchmarks/dram-bytes-nvidia-h200.json

Runs itself under `ncu` once per case: `ncu` counts the DRAM bytes of the last of a few launches of a fused kernel.
"""

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

RANK, ROPE = 512, 64  # of a latent cache
METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
# kernel; batch, query heads, KV heads, S, head size, dtype; where the theory expects K and V to come from
CASES = [
    ("decode_attention", 1024, 8, 8, 1024, 64, "fp16", "HBM"),
    ("decode_attention", 1024, 8, 8, 1024, 64, "fp32", "HBM"),
    ("decode_attention", 1024, 8, 8, 1024, 64, "fp8_e4m3", "HBM"),
    ("decode_attention", 1, 8, 8, 1024, 64, "fp16", "L2"),
    ("decode_attention", 1, 8, 8, 1024, 64, "fp32", "L2"),
    ("grouped_attention", 64, 64, 8, 8192, 128, "bf16", "HBM"),
    ("grouped_attention", 64, 28, 4, 8192, 128, "bf16", "HBM"),
    ("grouped_attention", 64, 32, 8, 8192, 128, "fp8_e4m3", "HBM"),
    ("grouped_attention", 16, 32, 8, 32768, 96, "fp16", "HBM"),
    ("latent_attention", 64, 16, 1, 8192, RANK + ROPE, "bf16", "HBM"),
    ("latent_attention", 64, 16, 1, 8192, RANK + ROPE, "fp8_e4m3", "HBM"),
]
LAUNCHES = 4


def step(case: tuple[Any, ...]) -> None:
    """LAUNCHES launches of the kernel, the cache as warm as its size allows."""
    from rooflab.measure.cuda.device import open_device

    device = open_device()
    calls = _latent_calls(device, case) if case[0] == "latent_attention" else _calls(device, case)
    for _ in range(LAUNCHES):
        for call in calls:
            call()
    device.synchronize()


def _calls(device: Any, case: tuple[Any, ...]) -> tuple[Any, ...]:
    from rooflab.measure.cuda.attention.decode import DecodeCase, DecodeShape
    from rooflab.measure.cuda.attention.grouped import GroupedConfig

    kernel, *sizes, dtype, _ = case
    made = DecodeCase.random(device, DecodeShape(*sizes), dtype, seed=0)
    grouped = kernel == "grouped_attention"
    return (made.fused(next(c for c in made.fused_candidates() if isinstance(c, GroupedConfig) == grouped)),)


def _latent_calls(device: Any, case: tuple[Any, ...]) -> tuple[Any, ...]:
    from rooflab.measure.cuda.attention.latent import LatentCase, LatentShape

    _, batch, heads, _, sequence, _, dtype, _ = case
    made = LatentCase(device, LatentShape(batch, heads, sequence, RANK, ROPE), dtype, scale=1 / 16, copies=1)
    return made.fused(next(c for c in made.fused_candidates(4) if c.staged), 0)


def counted(index: int) -> dict[str, float]:
    """Bytes per metric of the last launch. `--cache-control none`: ncu must not flush the caches between launches."""
    command = ["ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(METRICS)]
    command += ["--print-units", "base", "--kernel-name", CASES[index][0], "--launch-skip", str(LAUNCHES - 1)]
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
    from rooflab.theory.dtypes import dtype

    rows = []
    for index, (kernel, batch, heads, kv_heads, sequence, row_size, name, tier) in enumerate(CASES):
        arrays = 1 if kernel == "latent_attention" else 2
        expected = arrays * batch * kv_heads * sequence * row_size * dtype(name).bytes  # K and V, or the latents
        seen = counted(index)
        read = seen["dram__bytes_read.sum"]
        made = {
            "case": f"{kernel} B{batch} {heads}/{kv_heads} S{sequence} D{row_size} {name}",
            "tier": tier,
            "theory_bytes": expected,
        }
        rows.append(
            made
            | {"dram_read_bytes": read, "dram_write_bytes": seen["dram__bytes_write.sum"], "ratio": read / expected}
        )
        print(
            f"{made['case']:<52}{tier:<5}theory {expected:>12} B  DRAM read {read:>14.0f} B  ratio {read / expected:.4f}",
            flush=True,
        )
    given.out.write_text(json.dumps({"metrics": METRICS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

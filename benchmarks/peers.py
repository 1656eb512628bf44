"""Ours against PyTorch and FlashInfer on the same card, in one process, alternating: GEMM, copy, decode and latent attention.

For the GPU machine only; PyTorch and FlashInfer are peers here and nowhere needed. Prints a table and writes it as JSON:

    python benchmarks/peers.py --out benchmarks/peers-nvidia-h200.json
    python benchmarks/peers.py --peer flashinfer --out benchmarks/peers-flashinfer-nvidia-h200.json

Every figure is the median of short blocks with idle gaps.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from alternate import alternate, row
from peer_decode import decode_rows
from peer_flashinfer import flashinfer_rows
from rooflab.measure.cuda.bandwidth import pattern
from rooflab.measure.cuda.gemm import GemmCase, neutralise_tf32_environment

N = 4096
ALGORITHMS = 8


def gemm_rows(device: Any, torch: Any) -> Iterator[dict[str, Any]]:
    """The product in the plain path and in the fastest algorithm found, against torch.matmul and torch._scaled_mm."""
    for name, dtype in (("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16"), ("tf32", "float32")):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(N, N, device="cuda", dtype=getattr(torch, dtype)) for _ in range(2))
        theirs = partial(torch.matmul, a, b, out=torch.empty_like(a))
        yield from _gemm_pair(device, GemmCase(device, name, N), name, "torch.matmul", theirs)
    a, b = (torch.randn(N, N, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.tensor(0.5, device="cuda")
    for name, fast in (("fp8_e4m3", True), ("fp8_e4m3_full", False)):
        options = {"scale_a": scale, "scale_b": scale, "out_dtype": torch.bfloat16, "use_fast_accum": fast}
        theirs = partial(torch._scaled_mm, a, b.t(), **options)
        yield from _gemm_pair(device, GemmCase(device, name, N), name, "torch._scaled_mm", theirs)


def _gemm_pair(device: Any, case: GemmCase, name: str, peer: str, theirs: Any) -> Iterator[dict[str, Any]]:
    from alternate import fastest

    calls = {"plain": case.call()} | {each.name: each.call for each in case.candidates(ALGORITHMS)}
    yield row(f"gemm {name} {N} plain", peer, alternate(device, calls["plain"], theirs))
    best = fastest(device, calls, 30)
    if best != "plain":
        yield row(f"gemm {name} {N} {best}", peer, alternate(device, calls[best], theirs))


def copy_row(device: Any, torch: Any, size: int = 4 << 30) -> dict[str, Any]:
    """Device-to-device copy of `size` bytes."""
    ours = pattern(device, "d2d", size)
    source, target = (torch.empty(size // 4, device="cuda").uniform_() for _ in range(2))
    return row("copy 4 GiB", "torch copy_", alternate(device, ours.call, partial(target.copy_, source)))


def torch_rows(device: Any, torch: Any) -> Iterator[dict[str, Any]]:
    yield from gemm_rows(device, torch)
    yield copy_row(device, torch)
    device.free_pool()
    torch.cuda.empty_cache()
    yield from decode_rows(device, torch)


PEERS = {"torch": torch_rows, "flashinfer": flashinfer_rows}


def main() -> None:
    warnings.filterwarnings("ignore", category=UserWarning)  # SDPA says why a backend does not take the operands
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--peer", choices=PEERS, default="torch")
    given = parser.parse_args()
    neutralise_tf32_environment()
    import torch
    from rooflab.machine import nvml
    from rooflab.measure.cuda.device import open_device

    device = open_device()
    chip = nvml.Nvml(device.properties()["pci_bus_id"])
    before, made = chip.state(), []
    with torch.no_grad(), torch.cuda.stream(torch.cuda.ExternalStream(device.stream.ptr)):
        for each in PEERS[given.peer](device, torch):
            made.append(each)
            print(
                f"{each['case']:<48}{each['peer']:<42}ours {each['ours_s'] * 1e6:>9.2f} µs  theirs {each['peer_s'] * 1e6:>9.2f} µs"
                f"  ratio {each['ratio']:.3f} [{each['ratio_low']:.3f}..{each['ratio_high']:.3f}]",
                flush=True,
            )
    found = {
        "device": device.properties()["name"],
        "versions": {"torch": torch.__version__} | device.versions(),
        "chip": {"before": before, "after": chip.state()},
    }
    given.out.write_text(json.dumps(found | {"rows": made}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Ours against PyTorch on the same card, in one process, alternating: GEMM, copy and decode attention.

For the GPU machine only; PyTorch is a peer here and nowhere needed. Prints a table and writes it as JSON:

    python benchmarks/peers.py --out benchmarks/peers-nvidia-h200.json

Every figure is the median of short blocks with idle gaps, ours and theirs in turn, so that both meet the same chip.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from rooflab.cuda_bandwidth import pattern
from rooflab.cuda_decode import DecodeCase
from rooflab.cuda_gemm import GemmCase, neutralise_tf32_environment
from rooflab.operators import random_kv, random_normal

BLOCKS, BLOCK_S, GAP_S = 10, 0.015, 0.2
Call = Callable[[], Any]


def alternate(device: Any, ours: Call, theirs: Call) -> tuple[list[float], list[float]]:
    """Seconds per call of BLOCKS blocks each, taken in turn."""
    for call in (ours, theirs):  # the first calls load libraries and choose algorithms
        _block(device, call, 10)
    counts = [max(1, round(BLOCK_S / _block(device, call, 3))) for call in (ours, theirs)]
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(BLOCKS):
        for call, count, kept in zip((ours, theirs), counts, samples, strict=True):
            time.sleep(GAP_S)
            kept.append(_block(device, call, count))
    return samples


def _block(device: Any, call: Call, count: int) -> float:
    device.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        call()
    device.synchronize()
    return (time.perf_counter() - start) / count


def row(name: str, peer: str, samples: tuple[list[float], list[float]]) -> dict[str, Any]:
    """Medians and their ratio: theirs over ours, so that more than 1 means that ours is faster."""
    ratios = [theirs / ours for ours, theirs in zip(*samples, strict=True)]
    return {
        "case": name,
        "peer": peer,
        "ours_s": median(samples[0]),
        "peer_s": median(samples[1]),
        "ratio": median(samples[1]) / median(samples[0]),
        "ratio_low": min(ratios),
        "ratio_high": max(ratios),
    }


def gemm_rows(device: Any, torch: Any) -> list[dict[str, Any]]:
    """The plain 4096 product against torch.matmul, and fp8 against torch._scaled_mm."""
    rows = []
    for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
        case = GemmCase(device, name, 4096)
        a, b = (torch.randn(4096, 4096, device="cuda", dtype=dtype) for _ in range(2))
        out = torch.empty_like(a)
        theirs = partial(torch.matmul, a, b, out=out)
        rows.append(row(f"gemm {name} 4096", "torch.matmul", alternate(device, case.call(), theirs)))
    return [*rows, fp8_row(device, torch)]


def fp8_row(device: Any, torch: Any) -> dict[str, Any]:
    """fp8 with fast accumulation on both sides."""
    case = GemmCase(device, "fp8_e4m3", 4096)
    a, b = (torch.randn(4096, 4096, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.tensor(0.5, device="cuda")
    theirs = partial(
        torch._scaled_mm, a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
    )
    return row("gemm fp8_e4m3 4096", "torch._scaled_mm", alternate(device, case.call(), theirs))


def copy_row(device: Any, torch: Any, size: int = 4 << 30) -> dict[str, Any]:
    """Device-to-device copy of `size` bytes."""
    ours = pattern(device, "d2d", size)
    source, target = (torch.empty(size // 4, device="cuda").uniform_() for _ in range(2))
    return row("copy 4 GiB", "torch copy_", alternate(device, ours.call, partial(target.copy_, source)))


def decode_rows(device: Any, torch: Any, sequence: int = 1024) -> list[dict[str, Any]]:
    """The fused kernel against the fastest SDPA backend, launched from Python and in a graph of 100."""
    rows = []
    q, (k, v) = random_normal((1, 8, 64), 1), random_kv(1, 8, sequence, 64, seed=0)
    for name, dtype in (("fp32", torch.float32), ("fp16", torch.float16), ("bf16", torch.bfloat16)):
        case = DecodeCase.from_host(device, q, k, v, name)
        fused = _fastest(device, {str(c): case.fused(c) for c in case.fused_candidates()})[1]
        tensors = [torch.from_numpy(x).to("cuda", dtype) for x in (q[:, :, None], k, v)]
        eager, graphs = sdpa_calls(torch, tensors)
        for how, ours, calls in (
            ("python", fused, eager),
            ("graph", partial(device.launch, device.capture([fused] * 100)), graphs),
        ):
            backend, theirs = _fastest(device, calls)
            rows.append(row(f"decode {name} S{sequence} {how}", f"SDPA {backend}", alternate(device, ours, theirs)))
    return rows


def _fastest(device: Any, calls: dict[str, Call]) -> tuple[str, Call]:
    return min(calls.items(), key=lambda item: min(_block(device, item[1], 20) for _ in range(5)))


def sdpa_calls(torch: Any, tensors: list[Any]) -> tuple[dict[str, Call], dict[str, Call]]:
    """Every SDPA backend that takes these operands: eager, and 100 steps in a CUDA graph."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    eager, graphs = {}, {}
    for name in ("default", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH"):

        def call(name: str = name) -> Any:
            chosen = nullcontext() if name == "default" else sdpa_kernel(getattr(SDPBackend, name))
            with chosen, torch.no_grad():
                return torch.nn.functional.scaled_dot_product_attention(*tensors)

        try:
            call()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                kept = [call() for _ in range(100)]
        except RuntimeError as error:
            print(f"  {name}: not for these operands ({str(error).splitlines()[0][:60]})")
            continue
        eager[name], graphs[name] = call, (lambda graph=graph, kept=kept: graph.replay())
    return eager, graphs


def main() -> None:
    warnings.filterwarnings("ignore", category=UserWarning)  # SDPA says why a backend does not take the operands
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    neutralise_tf32_environment()
    import torch
    from rooflab import nvml
    from rooflab.cuda_device import open_device

    device = open_device()
    chip = nvml.Nvml(device.properties()["pci_bus_id"])
    before = chip.state()
    with torch.cuda.stream(torch.cuda.ExternalStream(device.stream.ptr)):
        rows = [*gemm_rows(device, torch), copy_row(device, torch), *decode_rows(device, torch)]
    for each in rows:
        print(
            f"{each['case']:<28}{each['peer']:<26}ours {each['ours_s'] * 1e6:>9.2f} µs  theirs {each['peer_s'] * 1e6:>9.2f} µs"
            f"  ratio {each['ratio']:.3f} [{each['ratio_low']:.3f}..{each['ratio_high']:.3f}]"
        )
    versions = {"torch": torch.__version__} | device.versions()
    found = {
        "device": device.properties()["name"],
        "versions": versions,
        "chip": {"before": before, "after": chip.state()},
    }
    given.out.write_text(json.dumps(found | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

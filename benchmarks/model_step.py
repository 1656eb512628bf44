"""A whole decode step against the sum of its parts: the table of a model held against the same step in PyTorch.

For the GPU machine only; PyTorch is a peer here and nowhere needed. Ours is what a model's page adds up: each part measured
alone, times its layers. Theirs is every layer with weights and a cache of its own, run whole, eager and as one CUDA graph:

    python benchmarks/model_step.py --model llama-3-2-1b --out benchmarks/model-step-nvidia-h200.json

Both leave out embedding, rotary embedding, the cache's write and sampling; a last row adds rotary embedding and write to
theirs. The ratio is their time over ours: above 1 means that a whole step takes longer than its parts.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "workflow" / "scripts"))

from paid import model_attention, model_step
from rooflab.measure.bench import Bench
from rooflab.measure.cuda.gemm import neutralise_tf32_environment
from rooflab.plan.models import resolved
from rooflab.theory import step as model_theory
from rooflab.theory.geometry import Decoder

TIMING = {"warmups": 2, "graph_nodes": 10, "graph_samples": 10, "configurations": 6}
EPSILON = 1e-5
SAMPLES = 20
Call = Callable[[], Any]


# ---- ours: the parts


def parts_s(device: Any, name: str, model: Decoder, dtype: str, sequence: int, batch: int) -> dict[str, float]:
    """Seconds of each part in one step, by its name: the median of one occurrence, times its count."""
    bench = Bench(synchronize=device.synchronize, device=device)
    spec = {"operator": name, "geometry": model.timed(), "dtype": dtype, "batch": batch} | TIMING
    found = {}
    for each in model_theory.attentions(model, sequence, batch):
        taken = model_attention.measure(spec | {"sequence": each.length}, bench)
        found[each.part] = each.count * _median_s(taken.series[0])
        device.free_pool()
    counts = {e.part: e.count for e in [*model_theory.products(model, batch), *model_theory.elementwise(model, batch)]}
    for series in model_step.measure(spec, bench).series:
        found[series["name"]] = counts[series["name"]] * _median_s(series)
    device.free_pool()
    return found


def _median_s(series: dict[str, Any]) -> float:
    return float(median(series["samples_s"]) / series["iterations_per_sample"])


# ---- theirs: the whole step


class Step:
    """A decoder's step in PyTorch: plain modules' functions, one set of weights and one cache per layer."""

    def __init__(self, torch: Any, model: Decoder, dtype: Any, sequence: int, batch: int, complete: bool) -> None:
        """`complete` adds the rotary embedding and the write of the new token's key and value."""
        self.torch, self.model, self.complete, self.batch = torch, model, complete, batch
        self.functional = torch.nn.functional
        self.place = {"device": "cuda", "dtype": dtype}
        heads, cached = model.heads * model.head_dim, model.kv_heads * model.head_dim
        up = model.inner * (2 if model.gated else 1)
        shapes = {"qkv": (heads + 2 * cached, model.width), "out": (model.width, heads), "up": (up, model.width)}
        shapes |= {"down": (model.width, model.inner), "norm1": (model.width,), "norm2": (model.width,)}
        self.layers = [{name: self._random(*shape) for name, shape in shapes.items()} for _ in range(model.layers)]
        cache = (batch, model.kv_heads, sequence, model.head_dim)
        self.caches = [(self._random(*cache), self._random(*cache)) for _ in range(model.layers)]
        self.head, self.last_norm = self._random(model.vocabulary, model.width), self._random(model.width)
        self.hidden = self._random(batch, model.width)
        self.cosine, self.sine = self._random(model.head_dim), self._random(model.head_dim)

    def __call__(self) -> Any:
        x = self.hidden
        for weights, (keys, values) in zip(self.layers, self.caches, strict=True):
            x = x + self._attention(self._norm(x, weights["norm1"]), weights, keys, values)
            x = x + self._mlp(self._norm(x, weights["norm2"]), weights)
        return self.functional.linear(self._norm(x, self.last_norm), self.head)

    def _random(self, *shape: int) -> Any:
        return self.torch.randn(*shape, **self.place) * 0.02

    def _norm(self, x: Any, gain: Any) -> Any:
        size = (self.model.width,)
        if self.model.norm == "rmsnorm":
            return self.functional.rms_norm(x, size, gain, EPSILON)
        return self.functional.layer_norm(x, size, gain, gain, EPSILON)

    def _attention(self, x: Any, weights: dict[str, Any], keys: Any, values: Any) -> Any:
        model = self.model
        cached = model.kv_heads * model.head_dim
        q, k, v = self.functional.linear(x, weights["qkv"]).split(
            [model.heads * model.head_dim, cached, cached], dim=-1
        )
        q = q.view(self.batch, model.heads, 1, model.head_dim)
        if self.complete:
            q = self._rotated(q)
            keys[:, :, -1:] = self._rotated(k.view(self.batch, model.kv_heads, 1, model.head_dim))
            values[:, :, -1:] = v.view(self.batch, model.kv_heads, 1, model.head_dim)
        grouped = model.kv_heads != model.heads
        mixed = self.functional.scaled_dot_product_attention(q, keys, values, enable_gqa=grouped)
        return self.functional.linear(mixed.reshape(self.batch, -1), weights["out"])

    def _rotated(self, x: Any) -> Any:
        low, high = x.chunk(2, dim=-1)
        return x * self.cosine + self.torch.cat((-high, low), dim=-1) * self.sine

    def _mlp(self, x: Any, weights: dict[str, Any]) -> Any:
        wide = self.functional.linear(x, weights["up"])
        if self.model.gated:
            gate, wide = wide.chunk(2, dim=-1)
            return self.functional.linear(self._activation(gate) * wide, weights["down"])
        return self.functional.linear(self._activation(wide), weights["down"])

    def _activation(self, x: Any) -> Any:
        if self.model.activation == "silu":
            return self.functional.silu(x)
        return self.functional.gelu(x, approximate="tanh")


def whole_s(torch: Any, call: Call) -> float:
    """Median seconds of a step, synchronised on both sides."""
    for _ in range(5):
        call()
    samples = []
    for _ in range(SAMPLES):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        samples.append(time.perf_counter() - start)
    return median(samples)


def as_graph(torch: Any, call: Call) -> Call:
    """The step as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    return lambda kept=kept: graph.replay()


def rows(torch: Any, device: Any, name: str, dtype: str, sequence: int, batch: int) -> list[dict[str, Any]]:
    """Ours against theirs at one S and batch: eager, in a graph, and in a graph with what both left out before."""
    model = resolved([{"name": name}])[name]
    if model.latent or model.experts or model.window:
        raise SystemExit(f"{name}: the step in PyTorch is written for dense models whose heads cache keys and values")
    parts = parts_s(device, name, model, dtype, sequence, batch)
    ours, case, made = sum(parts.values()), f"{name} {dtype} S{sequence} B{batch}", []
    torch_dtype = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    for told, complete, captured in (
        ("eager", False, False),
        ("CUDA graph", False, True),
        ("CUDA graph, with rotary embedding and cache write", True, True),
    ):
        with torch.no_grad():
            step = Step(torch, model, torch_dtype, sequence, batch, complete)
            theirs = whole_s(torch, as_graph(torch, step) if captured else step)
        del step
        torch.cuda.empty_cache()
        row = {"case": case, "peer": f"torch, {told}", "ours_s": ours, "peer_s": theirs, "ratio": theirs / ours}
        made.append(row | {"parts_s": parts})
        print(
            f"{case:<34} {row['peer']:<58} {ours * 1e3:8.3f} ms {theirs * 1e3:8.3f} ms  {row['ratio']:.3f}", flush=True
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="llama-3-2-1b")
    parser.add_argument("--dtype", default="bf16", choices=["fp16", "bf16", "fp32"])
    parser.add_argument("--sequences", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    neutralise_tf32_environment()
    import torch
    from rooflab.measure.cuda.device import open_device

    device, made = open_device(), []
    for sequence in given.sequences:
        for batch in given.batches:
            made += rows(torch, device, given.model, given.dtype, sequence, batch)
    found = {
        "device": device.properties()["name"],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rows": made,
    }
    given.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

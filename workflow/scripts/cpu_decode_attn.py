"""Paid: decode attention on the host CPU with NumPy, one token of a MiniGPT against a filled KV cache.

Outside the timed region: the weights, K and V, and the query W_q h + b_q of a hidden state the model computed. Inside:
q K^T, scale, softmax, p V, into buffers allocated before.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rooflab import host_cpu, minigpt, paid, weights
from rooflab.operators import decode_attention_into, random_kv, reference_attention, relative_error
from rooflab.protocol import Bench

# fp32 sums of up to a few thousand terms; a sound BLAS is an order of magnitude better
TOLERANCE = 1e-5
PROMPT_TOKENS = 16

Array = NDArray[np.float32]


def measure(spec: dict[str, Any], bench: Bench) -> paid.Measurement:
    """One series, `numpy`, verified against float64 before it is timed.

    Raises paid.Unsupported for a dtype other than fp32, paid.Failed for weights that cannot be used or a wrong result.
    """
    if spec["dtype"] != "fp32":
        raise paid.Unsupported(f"NumPy's BLAS has no fast {spec['dtype']} product: decode runs in fp32 on the CPU")
    geometry = minigpt.Geometry(**spec["geometry"])
    loaded, source = load(spec["weights"], geometry, bench.weights_path)
    q = query(loaded, geometry)
    k, v = random_kv(1, geometry.cached_heads, spec["sequence"], geometry.head_dim, seed=0)
    with host_cpu.blas_limited(host_cpu.threads()) as blas:
        series = _timed(spec, bench, q, k, v)
    return paid.Measurement(
        operator="decode_attention",
        dtype="fp32",
        shape=_shape(geometry, spec["sequence"]),
        series=[series],
        details={"threads": host_cpu.threads(), "blas": blas, "weights_source": source},
    )


def load(named: dict[str, Any], geometry: minigpt.Geometry, path: str | None) -> tuple[dict[str, Any], str]:
    """The weights `named` by the spec, {"seed", "generator"} or {"sha256"}, and the words that say which they are.

    Raises paid.Failed for another generator version, a checkpoint with no path, another content or another geometry.
    """
    if "sha256" in named:
        return _checkpoint(named["sha256"], geometry, path), f"checkpoint, sha256 {named['sha256']}"
    if named["generator"] != minigpt.GENERATOR_VERSION:
        raise paid.Failed(
            f"weights of generator {named['generator']}: this program has generator {minigpt.GENERATOR_VERSION}",
            "measure with the version of this project that planned this file",
        )
    return minigpt.seeded_weights(geometry, named["seed"]), f"generated, seed {named['seed']}"


def query(loaded: dict[str, Any], geometry: minigpt.Geometry) -> Array:
    """The query (1, H, D), C-contiguous, of the last token of a short prompt in the last layer."""
    layer = geometry.layers - 1
    length = min(PROMPT_TOKENS, geometry.context)
    tokens = np.random.default_rng(0).integers(0, geometry.vocabulary, length).tolist()
    hidden = minigpt.hidden_state(loaded, geometry, tokens, layer)[-1]
    return np.ascontiguousarray(minigpt.query_of_token(loaded, geometry, layer, hidden))


def _checkpoint(sha256: str, geometry: minigpt.Geometry, path: str | None) -> dict[str, Any]:
    remedy = "set minigpt.weights and minigpt.weights_sha256 in the config to the same file"
    if path is None:
        raise paid.Failed(f"weights with sha256 {sha256} are asked for, but no path to them is given", remedy)
    try:
        seen = weights.sha256_of(Path(path))
        if seen != sha256:
            raise paid.Failed(f"the weights file has sha256 {seen}: expected {sha256}", remedy)
        return weights.load_weights(Path(path), geometry)
    except (OSError, ValueError) as error:
        raise paid.Failed(f"the weights cannot be used: {error}", remedy) from error


def _timed(spec: dict[str, Any], bench: Bench, q: Array, k: Array, v: Array) -> dict[str, Any]:
    scores = np.empty((*q.shape[:2], k.shape[2]), np.float32)
    out = np.empty_like(q)

    def call() -> None:
        decode_attention_into(q, k, v, scores, out)

    call()
    error = checked_error(out, q, k, v)
    series = bench.sync_each(
        call,
        name="numpy",
        implementation="numpy.matmul",
        warmups=spec["warmups"],
        iterations=spec["iterations"],
    )
    return series | {"relative_error": error, "tolerance": TOLERANCE}


def checked_error(out: Array, q: Array, k: Array, v: Array) -> float:
    """Relative error of `out` against float64. Raises paid.Failed beyond the tolerance or for NaN."""
    error = relative_error(out, reference_attention(q, k, v))
    if not error <= TOLERANCE:
        raise paid.Failed(
            f"decode attention is off by {error:.2g} relative to float64: expected at most {TOLERANCE:.2g}",
            "install another NumPy build, or set OPENBLAS_CORETYPE to an older core",
        )
    return error


def _shape(geometry: minigpt.Geometry, sequence: int) -> dict[str, int]:
    return {
        "batch": 1,
        "query_heads": geometry.heads,
        "kv_heads": geometry.cached_heads,
        "sequence": sequence,
        "head_dim": geometry.head_dim,
    }


if __name__ == "__main__":
    paid.main(measure, side="cpu")

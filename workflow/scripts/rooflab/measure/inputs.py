"""What a decode measurement starts from, the same on the CPU and on the GPU: weights, one token's query, a filled cache."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.machine.preflight import NotReady
from rooflab.reference import minigpt, weights
from rooflab.theory.dtypes import dtype
from rooflab.theory.geometry import Sizes

PROMPT_TOKENS = 16

Array = NDArray[np.float32]


def load(named: dict[str, Any], geometry: Sizes, path: str | None) -> tuple[dict[str, Any], str]:
    """The weights `named` by the spec, {"seed", "generator"} or {"sha256"}, and the words that say which they are.

    Raises NotReady for another generator version, a checkpoint with no path, another content or another geometry.
    """
    if "sha256" in named:
        return _checkpoint(named["sha256"], geometry, path), f"checkpoint, sha256 {named['sha256']}"
    if named["generator"] != minigpt.GENERATOR_VERSION:
        raise NotReady(
            f"weights of generator {named['generator']}: this program has generator {minigpt.GENERATOR_VERSION}",
            "measure with the version of this project that planned this file",
        )
    return minigpt.seeded_weights(geometry, named["seed"]), f"generated, seed {named['seed']}"


def query(loaded: dict[str, Any], geometry: Sizes) -> Array:
    """The query (1, H, D), C-contiguous, of the last token of a short prompt in the last layer."""
    layer = geometry.layers - 1
    length = min(PROMPT_TOKENS, geometry.context)
    tokens = np.random.default_rng(0).integers(0, geometry.vocabulary, length).tolist()
    hidden = minigpt.hidden_state(loaded, geometry, tokens, layer)[-1]
    return np.ascontiguousarray(minigpt.query_of_token(loaded, geometry, layer, hidden))


def _checkpoint(sha256: str, geometry: Sizes, path: str | None) -> dict[str, Any]:
    """Raises NotReady, which stops the session: it is the user's file, and nothing of it can be measured."""
    remedy = "set minigpt.weights and minigpt.weights_sha256 in the config to the same file"
    if path is None:
        raise NotReady(f"weights with sha256 {sha256} are asked for, but no path to them is given", remedy)
    try:
        seen = weights.sha256_of(Path(path))
        if seen != sha256:
            raise NotReady(f"the weights file has sha256 {seen}: expected {sha256}", remedy)
        return weights.load_weights(Path(path), geometry)
    except (OSError, ValueError) as error:
        raise NotReady(
            f"the weights cannot be used: {error}", "give another file, or none: the seeded weights"
        ) from error


def sizes(spec: dict[str, Any], total_bytes: int | None = None) -> dict[str, int]:
    """The sizes of one step, as a record holds them. A spec with `kv_bytes` leaves the batch open: as many sequences as
    fit into that, or into a quarter of the device's `total_bytes` where that is less."""
    given = spec["geometry"]
    heads = given.get("query_heads", given.get("heads"))
    found = {
        "query_heads": heads,
        "kv_heads": given["kv_heads"] or heads,
        "sequence": spec["sequence"],
        "head_dim": given["head_dim"],
    }
    return {"batch": _batch(spec, found, total_bytes) if "kv_bytes" in spec else spec.get("batch", 1), **found}


def _batch(spec: dict[str, Any], found: dict[str, int], total_bytes: int | None) -> int:
    room = min(spec["kv_bytes"], total_bytes // 4 if total_bytes else spec["kv_bytes"])
    per_sequence = 2 * found["kv_heads"] * found["sequence"] * found["head_dim"] * dtype(spec["dtype"]).bytes
    return max(1, room // per_sequence)

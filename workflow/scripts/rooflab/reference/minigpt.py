"""MiniGPT: a small GPT-2 style decoder in NumPy with a KV cache, the model whose decode attention is measured.

Architecture and tensor names follow GPT-2 (A. Radford et al., "Language models are unsupervised multitask learners",
2019): learned positions, pre-layer-norm blocks, fused q, k, v projection with bias, GELU MLP. Projections are stored
(in, out) and applied as x @ W + b. The output head is the token embedding unless the weights hold `lm_head.weight`.

Letters in shapes: T tokens, E = heads * head_dim, H query heads, G KV heads, D head_dim, V vocabulary.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rooflab.reference.attention import decode_attention, softmax
from rooflab.reference.step import gelu, layernorm
from rooflab.theory.geometry import Sizes, require_size

# Raised by any change to the numbers `seeded_weights` returns, because they are part of what a measurement used.
GENERATOR_VERSION = 1

INITIAL_STD = 0.02
MLP_RATIO = 4

Array = NDArray[Any]
Weights = Mapping[str, Array]


def geometry_of(layers: int, heads: int, kv_heads: int, head_dim: int, vocabulary: int, context: int) -> Sizes:
    """A MiniGPT of these sizes: its width is that of all heads, and its MLP MLP_RATIO times as wide.

    Raises GeometryError, a ValueError, for a size that is not a whole number above 0, or `heads` not a multiple of `kv_heads`.
    """
    require_size("heads", heads)
    require_size("head_dim", head_dim)
    width = heads * head_dim
    return Sizes(layers, width, heads, kv_heads, head_dim, MLP_RATIO * width, vocabulary, context)


@dataclass
class KVCache:
    """Keys and values of the tokens seen so far, each (layers, G, context, D); `length` positions are filled."""

    keys: Array
    values: Array
    length: int = 0

    @classmethod
    def empty(cls, geometry: Sizes) -> "KVCache":
        """A cache in fp32 with room for `geometry.context` tokens."""
        shape = (geometry.layers, geometry.kv_heads, geometry.context, geometry.head_dim)
        return cls(np.zeros(shape, np.float32), np.zeros(shape, np.float32))

    def write(self, layer: int, key: Array, value: Array) -> tuple[Array, Array]:
        """Puts the key and value (G, D) of the next token in; returns all keys and values (G, length + 1, D)."""
        self.keys[layer, :, self.length] = key
        self.values[layer, :, self.length] = value
        filled = slice(self.length + 1)
        return self.keys[layer, :, filled], self.values[layer, :, filled]


def tensor_shapes(geometry: Sizes) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor a MiniGPT must have, in the order `seeded_weights` draws them."""
    width, wide = geometry.width, geometry.inner
    fused = width + 2 * geometry.kv_heads * geometry.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (geometry.vocabulary, width),
        "wpe.weight": (geometry.context, width),
    }
    for layer in range(geometry.layers):
        block = f"h.{layer}"
        shapes |= _norm_shapes(f"{block}.ln_1", width)
        shapes |= _linear_shapes(f"{block}.attn.c_attn", width, fused)
        shapes |= _linear_shapes(f"{block}.attn.c_proj", width, width)
        shapes |= _norm_shapes(f"{block}.ln_2", width)
        shapes |= _linear_shapes(f"{block}.mlp.c_fc", width, wide)
        shapes |= _linear_shapes(f"{block}.mlp.c_proj", wide, width)
    return shapes | _norm_shapes("ln_f", width)


def seeded_weights(geometry: Sizes, seed: int) -> dict[str, Array]:
    """Random fp32 weights for a session without a checkpoint: normal with GPT-2's deviation 0.02, layer-norm gains
    around 1. The numbers depend on `geometry`, `seed` and GENERATOR_VERSION only."""
    generator = np.random.default_rng(seed)
    weights = {}
    for name, shape in tensor_shapes(geometry).items():
        is_gain = name.endswith(".weight") and len(shape) == 1
        centre = np.float32(1 if is_gain else 0)
        weights[name] = centre + np.float32(INITIAL_STD) * generator.standard_normal(shape, dtype=np.float32)
    return weights


def embedding(weights: Weights, geometry: Sizes, tokens: Sequence[int], first_position: int = 0) -> Array:
    """Hidden states (T, E) of `tokens` standing at `first_position` and after: token plus position embedding.

    Raises ValueError for no tokens, a token outside the vocabulary, or a position outside the context.
    """
    end = first_position + len(tokens)
    if len(tokens) == 0 or end > geometry.context:
        raise ValueError(
            f"{len(tokens)} tokens from position {first_position}: expected at least 1, ending by {geometry.context}"
        )
    for token in tokens:
        if not 0 <= token < geometry.vocabulary:
            raise ValueError(f"token {token}: expected 0 to {geometry.vocabulary - 1}")
    return weights["wte.weight"][list(tokens)] + weights["wpe.weight"][first_position:end]


def layer_norm(weights: Weights, name: str, hidden: Array) -> Array:
    """Each hidden state (T, E) normed, with the gain and bias of layer norm `name`."""
    return layernorm(np, hidden, weights[f"{name}.weight"], weights[f"{name}.bias"])


def attention(weights: Weights, geometry: Sizes, layer: int, hidden: Array, cache: KVCache | None) -> Array:
    """Attention of `layer` over layer-normed hidden states (T, E), before the residual sum.

    Without a cache each token attends to those up to itself in `hidden`. With one, `hidden` is a single token, which
    is written to the cache and attends to everything in it.
    """
    q, k, v = _split_heads(geometry, _linear(weights, f"h.{layer}.attn.c_attn", hidden))
    if cache is None:
        mixed = _causal_attention(q, k, v)
    else:
        keys, values = cache.write(layer, k[0], v[0])
        mixed = decode_attention(np, q, keys[None], values[None])
    return _linear(weights, f"h.{layer}.attn.c_proj", mixed.reshape(hidden.shape))


def mlp(weights: Weights, layer: int, hidden: Array) -> Array:
    """The two-layer perceptron of `layer` over layer-normed hidden states (T, E), before the residual sum."""
    return _linear(weights, f"h.{layer}.mlp.c_proj", gelu(np, _linear(weights, f"h.{layer}.mlp.c_fc", hidden)))


def logits(weights: Weights, hidden: Array) -> Array:
    """Scores (T, V) of every next token: final layer norm, then `lm_head.weight` (V, E), or `wte.weight` without it."""
    head = weights.get("lm_head.weight", weights["wte.weight"])
    return layer_norm(weights, "ln_f", hidden) @ head.T


def forward(weights: Weights, geometry: Sizes, tokens: Sequence[int]) -> Array:
    """Scores (T, V) of the token after each of `tokens`, computed without a cache. Raises ValueError as `embedding`."""
    return logits(weights, _before_layer(weights, geometry, tokens, geometry.layers))


def decode_step(weights: Weights, geometry: Sizes, token: int, cache: KVCache) -> Array:
    """Scores (V,) of the token after `token`, whose keys and values join `cache`. Raises ValueError as `embedding`."""
    hidden = embedding(weights, geometry, [token], cache.length)
    for layer in range(geometry.layers):
        hidden = _block(weights, geometry, layer, hidden, cache)
    cache.length += 1
    return logits(weights, hidden)[0]


def hidden_state(weights: Weights, geometry: Sizes, tokens: Sequence[int], layer: int) -> Array:
    """The layer-normed hidden states (T, E) that enter the attention of `layer`. Raises ValueError for a bad layer."""
    if not 0 <= layer < geometry.layers:
        raise ValueError(f"layer {layer}: expected 0 to {geometry.layers - 1}")
    return layer_norm(weights, f"h.{layer}.ln_1", _before_layer(weights, geometry, tokens, layer))


def query_of_token(weights: Mapping[str, Any], geometry: Sizes, layer: int, hidden: Any) -> Any:
    """The query (1, H, D) of one token in `layer`: W_q h + b_q for its layer-normed hidden state `hidden` (E,).

    Only indexing and products, so NumPy and CuPy arrays serve alike as long as weights and `hidden` are of one module.
    """
    if hidden.shape != (geometry.width,):
        raise ValueError(f"hidden has shape {hidden.shape}: expected ({geometry.width},), the state of one token")
    name = f"h.{layer}.attn.c_attn"
    query = hidden @ weights[f"{name}.weight"][:, : geometry.width] + weights[f"{name}.bias"][: geometry.width]
    return query.reshape(1, geometry.heads, geometry.head_dim)


def _block(weights: Weights, geometry: Sizes, layer: int, hidden: Array, cache: KVCache | None) -> Array:
    normed = layer_norm(weights, f"h.{layer}.ln_1", hidden)
    hidden = hidden + attention(weights, geometry, layer, normed, cache)
    return hidden + mlp(weights, layer, layer_norm(weights, f"h.{layer}.ln_2", hidden))


def _before_layer(weights: Weights, geometry: Sizes, tokens: Sequence[int], layer: int) -> Array:
    hidden = embedding(weights, geometry, tokens)
    for earlier in range(layer):
        hidden = _block(weights, geometry, earlier, hidden, None)
    return hidden


def _causal_attention(q: Array, k: Array, v: Array) -> Array:
    """q (T, H, D), k and v (T, G, D) -> (T, H, D); token t sees tokens 0 to t."""
    tokens, heads, head_dim = q.shape
    group = heads // k.shape[1]
    keys, values = (np.repeat(x, group, axis=1).swapaxes(0, 1) for x in (k, v))
    scores = q.swapaxes(0, 1) @ keys.swapaxes(1, 2) / math.sqrt(head_dim)
    future = np.triu(np.ones((tokens, tokens), bool), k=1)
    return (softmax(np, np.where(future, -np.inf, scores)) @ values).swapaxes(0, 1)


def _split_heads(geometry: Sizes, fused: Array) -> tuple[Array, Array, Array]:
    width, cached = geometry.width, geometry.kv_heads * geometry.head_dim
    q, k, v = (
        part.reshape(len(fused), -1, geometry.head_dim) for part in np.split(fused, [width, width + cached], axis=-1)
    )
    return q, k, v


def _linear(weights: Weights, name: str, x: Array) -> Array:
    return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _linear_shapes(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (inputs, outputs), f"{name}.bias": (outputs,)}


def _norm_shapes(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}

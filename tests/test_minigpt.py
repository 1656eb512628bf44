"""The MiniGPT: its parts by hand, the whole against a token-by-token float64 version, and the cache against none."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rooflab.reference.minigpt import (
    GENERATOR_VERSION,
    KVCache,
    decode_step,
    embedding,
    forward,
    geometry_of,
    hidden_state,
    layer_norm,
    query_of_token,
    seeded_weights,
    tensor_shapes,
)
from rooflab.reference.step import gelu
from rooflab.theory.geometry import Sizes

TINY = geometry_of(layers=2, heads=4, kv_heads=4, head_dim=8, vocabulary=61, context=24)
GROUPED = replace(geometry_of(layers=3, heads=6, head_dim=4, vocabulary=97, context=20, kv_heads=2), inner=72)
MULTI_QUERY = geometry_of(layers=1, heads=3, head_dim=5, vocabulary=31, context=16, kv_heads=1)
GEOMETRIES = [TINY, GROUPED, MULTI_QUERY]
PROMPT = [3, 17, 5, 29, 0]


def vivid_weights(geometry: Sizes, seed: int) -> dict[str, NDArray[Any]]:
    """Seeded weights with matrices ten times larger and a head of their own, so that attention decides the tokens."""
    weights = {
        name: tensor * np.float32(10 if tensor.ndim == 2 else 1)
        for name, tensor in seeded_weights(geometry, seed).items()
    }
    generator = np.random.default_rng((seed, 1))
    head = generator.standard_normal((geometry.vocabulary, geometry.width), dtype=np.float32)
    return weights | {"lm_head.weight": head}


def greedy(
    weights: Mapping[str, NDArray[Any]], geometry: Sizes, prompt: Sequence[int], steps: int, use_cache: bool
) -> list[int]:
    """The `steps` tokens that follow `prompt` when the highest score always wins; the cache must not change them.

    Raises ValueError for an empty prompt, a token outside the vocabulary, or prompt and steps beyond the context.
    """
    if len(prompt) == 0 or steps < 0 or len(prompt) + steps > geometry.context:
        raise ValueError(
            f"{len(prompt)} tokens and {steps} steps: expected a token, no negative steps, {geometry.context} in all"
        )
    continued = _greedy_cached if use_cache else _greedy_uncached
    return continued(weights, geometry, list(prompt), steps)


def _greedy_cached(weights: Mapping[str, NDArray[Any]], geometry: Sizes, tokens: list[int], steps: int) -> list[int]:
    cache, prompt_length = KVCache.empty(geometry), len(tokens)
    for position in range(prompt_length + steps - 1):
        scores = decode_step(weights, geometry, tokens[position], cache)
        if position + 1 == len(tokens):
            tokens.append(int(scores.argmax()))
    return tokens[prompt_length:]


def _greedy_uncached(weights: Mapping[str, NDArray[Any]], geometry: Sizes, tokens: list[int], steps: int) -> list[int]:
    prompt_length = len(tokens)
    for _ in range(steps):
        tokens.append(int(forward(weights, geometry, tokens)[-1].argmax()))
    return tokens[prompt_length:]


def plain_forward(weights: dict[str, NDArray[Any]], geometry: Sizes, tokens: list[int]) -> NDArray[np.float64]:
    """Scores (T, V) computed one token and one head at a time in float64: the model read from its description."""
    w = {name: tensor.astype(np.float64) for name, tensor in weights.items()}
    width, dim = geometry.width, geometry.head_dim
    kv_heads = geometry.kv_heads or geometry.heads

    def norm(x: NDArray[Any], name: str) -> NDArray[Any]:
        return (x - x.mean()) / math.sqrt(x.var() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: NDArray[Any], name: str) -> NDArray[Any]:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    seen: dict[int, list[NDArray[Any]]] = {layer: [] for layer in range(geometry.layers)}
    rows = []
    for position, token in enumerate(tokens):
        x = w["wte.weight"][token] + w["wpe.weight"][position]
        for layer in range(geometry.layers):
            fused = linear(norm(x, f"h.{layer}.ln_1"), f"h.{layer}.attn.c_attn")
            seen[layer].append(fused[width:].reshape(2, kv_heads, dim))
            mixed = np.zeros((geometry.heads, dim))
            for head in range(geometry.heads):
                g = head // (geometry.heads // kv_heads)
                query = fused[head * dim : (head + 1) * dim]
                weight = np.exp([query @ kv[0, g] / math.sqrt(dim) for kv in seen[layer]])
                mixed[head] = sum(a * kv[1, g] for a, kv in zip(weight / weight.sum(), seen[layer], strict=True))
            x = x + linear(mixed.ravel(), f"h.{layer}.attn.c_proj")
            inner = linear(norm(x, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc")
            inner = inner / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
            x = x + linear(inner, f"h.{layer}.mlp.c_proj")
        rows.append(w.get("lm_head.weight", w["wte.weight"]) @ norm(x, "ln_f"))
    return np.array(rows)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("make", [seeded_weights, vivid_weights])
def test_the_whole_model_against_the_plain_one(geometry: Sizes, make: Any) -> None:
    weights = make(geometry, 1)
    want = plain_forward(weights, geometry, PROMPT)
    got = forward(weights, geometry, PROMPT)
    assert got.dtype == np.float32
    assert np.abs(got - want).max() < 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_greedy_decoding_is_the_same_with_and_without_the_cache(geometry: Sizes, seed: int) -> None:
    weights = vivid_weights(geometry, seed)
    steps = geometry.context - len(PROMPT)
    cached = greedy(weights, geometry, PROMPT, steps, use_cache=True)
    assert cached == greedy(weights, geometry, PROMPT, steps, use_cache=False)
    assert len(cached) == steps
    assert len(set(cached)) > 2


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_every_step_scores_as_the_model_without_a_cache(geometry: Sizes) -> None:
    weights = vivid_weights(geometry, 4)
    tokens = PROMPT + greedy(weights, geometry, PROMPT, 8, use_cache=False)
    want = forward(weights, geometry, tokens)
    cache = KVCache.empty(geometry)
    for position, token in enumerate(tokens):
        got = decode_step(weights, geometry, token, cache)
        assert np.abs(got - want[position]).max() < 2e-5 * np.abs(want).max()
    assert cache.length == len(tokens)


def test_an_earlier_token_changes_what_follows_and_a_later_one_nothing_before() -> None:
    weights = vivid_weights(TINY, 0)
    one, two = forward(weights, TINY, [1, 2, 3]), forward(weights, TINY, [1, 9, 3])
    assert np.array_equal(one[0], two[0])
    assert not np.allclose(one[2], two[2])


def test_the_head_is_the_embedding_unless_given() -> None:
    weights = seeded_weights(TINY, 0)
    assert "lm_head.weight" not in weights
    tied = forward(weights, TINY, PROMPT)
    assert np.array_equal(tied, forward(weights | {"lm_head.weight": weights["wte.weight"]}, TINY, PROMPT))
    doubled = forward(weights | {"lm_head.weight": 2 * weights["wte.weight"]}, TINY, PROMPT)
    np.testing.assert_allclose(doubled, 2 * tied, rtol=1e-6)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("layer", [0, -1])
def test_the_query_of_a_token_is_the_one_its_attention_uses(geometry: Sizes, layer: int) -> None:
    layer %= geometry.layers
    weights = vivid_weights(geometry, 2)
    hidden = hidden_state(weights, geometry, PROMPT, layer)[-1]
    query = query_of_token(weights, geometry, layer, hidden)
    name = f"h.{layer}.attn.c_attn"
    fused = hidden @ weights[f"{name}.weight"] + weights[f"{name}.bias"]
    assert query.shape == (1, geometry.heads, geometry.head_dim)
    np.testing.assert_allclose(query.ravel(), fused[: geometry.width], rtol=1e-5, atol=1e-5)


def test_the_hidden_state_is_the_normed_input_of_its_layer() -> None:
    weights = vivid_weights(TINY, 2)
    first = hidden_state(weights, TINY, PROMPT, 0)
    np.testing.assert_array_equal(first, layer_norm(weights, "h.0.ln_1", embedding(weights, TINY, PROMPT)))
    unchanged = weights | {name: 0 * weights[name] for name in weights if name.startswith("h.0.") and "c_proj" in name}
    want = layer_norm(weights, "h.1.ln_1", embedding(weights, TINY, PROMPT))
    np.testing.assert_array_equal(hidden_state(unchanged, TINY, PROMPT, 1), want)
    assert not np.allclose(hidden_state(weights, TINY, PROMPT, 1), want)


def test_layer_norm_by_hand() -> None:
    weights = {"n.weight": np.array([2.0, 1.0]), "n.bias": np.array([0.0, 5.0])}
    got = layer_norm(weights, "n", np.array([[1.0, 3.0]]))  # mean 2, variance 1
    root = math.sqrt(1 + 1e-5)
    np.testing.assert_allclose(got, [[-2 / root, 1 / root + 5]], rtol=1e-14)


def test_gelu_is_close_to_the_exact_one() -> None:
    x = np.linspace(-6, 6, 101)
    exact = np.array([value * (1 + math.erf(value / math.sqrt(2))) / 2 for value in x])
    assert np.abs(gelu(np, x) - exact).max() < 5e-4
    assert gelu(np, np.array([1.0]))[0] == pytest.approx(0.8411919906)


def test_the_tensors_of_a_geometry() -> None:
    shapes = tensor_shapes(GROUPED)
    assert len(shapes) == 2 + 12 * GROUPED.layers + 2
    assert shapes["wte.weight"] == (97, 24)
    assert shapes["wpe.weight"] == (20, 24)
    assert shapes["h.2.attn.c_attn.weight"] == (24, 24 + 2 * 8)
    assert shapes["h.0.attn.c_attn.bias"] == (40,)
    assert shapes["h.0.mlp.c_fc.weight"] == (24, 72)
    assert shapes["h.0.mlp.c_proj.weight"] == (72, 24)
    assert shapes["ln_f.bias"] == (24,)


def test_gpt2_small_has_its_published_number_of_parameters() -> None:
    shapes = tensor_shapes(geometry_of(layers=12, heads=12, kv_heads=12, head_dim=64, vocabulary=50257, context=1024))
    assert sum(math.prod(shape) for shape in shapes.values()) == 124_439_808


def test_seeded_weights_fit_the_geometry_and_the_seed() -> None:
    weights = seeded_weights(GROUPED, 7)
    assert {name: tensor.shape for name, tensor in weights.items()} == tensor_shapes(GROUPED)
    assert {tensor.dtype for tensor in weights.values()} == {np.dtype(np.float32)}
    assert all(np.array_equal(tensor, weights[name]) for name, tensor in seeded_weights(GROUPED, 7).items())
    assert not np.array_equal(weights["wte.weight"], seeded_weights(GROUPED, 8)["wte.weight"])
    assert abs(float(weights["h.1.ln_2.weight"].mean()) - 1) < 0.05
    assert abs(float(weights["wte.weight"].std()) - 0.02) < 0.002


def test_the_numbers_of_generator_version_1_are_pinned() -> None:
    weights = seeded_weights(geometry_of(layers=1, heads=2, kv_heads=2, head_dim=2, vocabulary=5, context=3), seed=0)
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(name.encode() + tensor.astype("<f4").tobytes())
    assert GENERATOR_VERSION == 1
    assert digest.hexdigest() == "3b5a5a2fd088499746b9fbdfb8f89712388dc8dd25854163c29559f44a04eea1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers is 0: expected a whole number, at least 1"),
        ({"head_dim": 64.0}, "head_dim is 64.0"),
        ({"vocabulary": "61"}, "vocabulary is '61'"),
        ({"context": True}, "context is True"),
        ({"kv_heads": 0}, "kv_heads is 0"),
        ({"kv_heads": 3}, "heads 4 is not a multiple of kv_heads 3"),
    ],
)
def test_a_geometry_that_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    sizes: dict[str, Any] = {"layers": 2, "heads": 4, "kv_heads": 4, "head_dim": 8, "vocabulary": 61, "context": 24}
    with pytest.raises(ValueError, match=message):
        geometry_of(**(sizes | change))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([61], "token 61: expected 0 to 60"), ([-1], "token -1"), ([], "0 tokens"), ([1] * 25, "25 tokens")],
)
def test_tokens_the_model_cannot_take_are_refused(tokens: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        forward(seeded_weights(TINY, 0), TINY, tokens)


def test_a_full_cache_is_refused() -> None:
    weights, cache = seeded_weights(MULTI_QUERY, 0), KVCache.empty(MULTI_QUERY)
    for _ in range(MULTI_QUERY.context):
        decode_step(weights, MULTI_QUERY, 1, cache)
    with pytest.raises(ValueError, match="1 tokens from position 16"):
        decode_step(weights, MULTI_QUERY, 1, cache)


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(("prompt", "steps"), [([], 3), ([1], 24), ([1], -1)])
def test_greedy_refuses_what_does_not_fit(prompt: list[int], steps: int, use_cache: bool) -> None:
    with pytest.raises(ValueError, match=r"tokens and .* steps: expected"):
        greedy(seeded_weights(TINY, 0), TINY, prompt, steps, use_cache)


@pytest.mark.parametrize("use_cache", [True, False])
def test_no_steps_give_no_tokens(use_cache: bool) -> None:
    assert greedy(seeded_weights(TINY, 0), TINY, PROMPT, 0, use_cache) == []


def test_a_wrong_layer_or_state_is_refused() -> None:
    weights = seeded_weights(TINY, 0)
    with pytest.raises(ValueError, match="layer 2: expected 0 to 1"):
        hidden_state(weights, TINY, PROMPT, 2)
    with pytest.raises(ValueError, match=r"hidden has shape \(5, 32\): expected \(32,\)"):
        query_of_token(weights, TINY, 0, hidden_state(weights, TINY, PROMPT, 0))

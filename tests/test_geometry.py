"""Geometries: the shipped ones, config.json of each family, and one clear error for everything else."""

import json
from pathlib import Path
from typing import Any

import pytest
from rooflab.geometry import Decoder, Experts, GeometryError, Latent, decoder
from rooflab.huggingface import FAMILIES, decoder_of
from rooflab.known_models import resolved, shipped, source_of

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "hidden_act": "silu",
}  # fmt: skip
DEEPSEEK = {
    **LLAMA, "model_type": "deepseek_v2", "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128,
}  # fmt: skip
EXPERTS = {
    "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}  # fmt: skip


def test_a_llama_with_grouped_queries() -> None:
    made = decoder_of(LLAMA)
    assert made == Decoder(32, 4096, 32, 8, 128, 14336, 128256, 131072)
    assert made.gated and made.norm == "rmsnorm" and made.window == 0


@pytest.mark.parametrize("kv_heads", [1, 4, 32])
def test_multi_query_grouped_and_one_per_head(kv_heads: int) -> None:
    assert decoder_of({**LLAMA, "num_key_value_heads": kv_heads}).kv_heads == kv_heads


def test_without_kv_heads_every_head_has_its_own() -> None:
    assert decoder_of({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}).kv_heads == 32


def test_an_explicit_head_size_wins_over_width_by_heads() -> None:
    gemma = {**LLAMA, "model_type": "gemma", "head_dim": 256, "hidden_act": "gelu_pytorch_tanh"}
    made = decoder_of(gemma)
    assert made.head_dim == 256 and made.activation == "gelu"


@pytest.mark.parametrize(
    ("changes", "window", "layers"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, 4096, 32),
        ({"model_type": "mistral", "sliding_window": None}, 0, 0),
        ({"model_type": "phi3", "sliding_window": 262144}, 0, 0),  # longer than the context
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, 0, 0),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 28}, 4096, 4),
        ({"model_type": "gemma2", "sliding_window": 4096}, 4096, 16),
        ({"model_type": "gemma3_text", "sliding_window": 1024, "num_hidden_layers": 26}, 1024, 22),
        ({"model_type": "llama", "sliding_window": 4096}, 0, 0),
        ({"layer_types": ["sliding_attention", "full_attention"] * 16, "sliding_window": 512}, 512, 16),
    ],
)
def test_the_layers_with_a_sliding_window(changes: dict[str, Any], window: int, layers: int) -> None:
    made = decoder_of({**LLAMA, **changes})
    assert (made.window, made.window_layers) == (window, layers)


def test_gpt2_has_names_of_its_own() -> None:
    made = decoder_of(shipped()["gpt2"]["config"])
    assert (made.width, made.inner, made.head_dim, made.kv_heads) == (768, 3072, 64, 12)
    assert not made.gated and made.norm == "layernorm" and made.activation == "gelu"


def test_a_text_config_inside_a_larger_config() -> None:
    nested = {"model_type": "gemma3", "text_config": {**LLAMA, "model_type": "gemma3_text"}}
    assert decoder_of(nested).norms_per_layer == 4


def test_latent_attention_and_its_experts() -> None:
    made = decoder_of({**DEEPSEEK, **EXPERTS})
    assert made.latent == Latent(rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536)
    assert made.experts == Experts(count=64, chosen=6, inner=1408, shared=2, dense_layers=1)
    assert decoder_of({**DEEPSEEK, "q_lora_rank": None}).latent.query_rank == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("name", list(shipped()))
def test_every_shipped_geometry_is_read_and_has_its_source(name: str) -> None:
    made = resolved([{"name": name}])[name]
    assert made.layers > 0 and source_of(name, made) == shipped()[name]["source"]
    assert shipped()[name]["source"].endswith("/config.json")
    assert decoder(json.loads(json.dumps(made.as_dict()))) == made


def test_one_of_each_kind_ships() -> None:
    models = resolved([{"name": name} for name in shipped()])
    assert any(m.latent for m in models.values())
    assert any(m.kv_heads == m.heads and not m.latent and m.context >= 32768 for m in models.values())
    assert any(1 < m.kv_heads < m.heads for m in models.values())


def test_a_local_config_json(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    made = resolved([{"name": "mine", "config_json": str(file)}])["mine"]
    assert made == decoder_of(LLAMA) and source_of("mine", made) is None


def test_a_geometry_written_out() -> None:
    sizes = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 1, "head_dim": 16, "inner": 128, "vocabulary": 100}
    assert resolved([{"name": "tiny", "geometry": {**sizes, "context": 512}}])["tiny"].kv_heads == 1


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"name": "nobody"}, "nobody: not a shipped geometry"),
        ({"name": "minigpt"}, "expected another name"),
        ({"name": "x", "config_json": "absent.json"}, "x: absent.json cannot be read"),
        ({"name": "x", "geometry": {"layers": 2}}, "missing width, heads"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "wide": 1}}, "unknown wide"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "heads": 30}}, "not a multiple of kv_heads"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "layers": "4"}}, "layers is '4'"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "window": 9}}, "expected both or neither"),
    ],
)
def test_an_entry_that_is_none_says_what_is_needed(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(GeometryError, match=told.replace("(", r"\(")):
        resolved([entry])


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "mamba"}, "model_type is 'mamba': expected llama, .*give its geometry: layers, width"),
        ({"model_type": "llama", "hidden_size": 8}, "lacks num_hidden_layers, num_attention_heads"),
        ({**LLAMA, "hidden_act": "relu2"}, "hidden_act is 'relu2'"),
        ({**LLAMA, "num_local_experts": 8}, "llama with num_local_experts: give the geometry itself"),
        ({**DEEPSEEK, "kv_lora_rank": None}, "lacks kv_lora_rank"),
    ],
)
def test_a_config_json_that_is_not_understood_names_the_fields(config: dict[str, Any], told: str) -> None:
    with pytest.raises(GeometryError, match=told):
        decoder_of(config)


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(GeometryError, match="another name"):
        resolved([{"name": "gpt2"}, {"name": "gpt2"}])


def test_the_common_families_are_there() -> None:
    assert set(FAMILIES) >= {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "gpt2", "deepseek_v2"}

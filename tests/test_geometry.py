"""Geometries: the shipped ones, config.json of each family, and one clear error for everything else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rooflab.plan.huggingface import FAMILIES, decoder_of
from rooflab.plan.models import resolved, shipped, source_of
from rooflab.theory.geometry import Decoder, Experts, GeometryError, Latent, decoder

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "hidden_act": "silu",
}  # fmt: skip
DEEPSEEK = {
    **LLAMA, "model_type": "deepseek_v2", "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128,
    "n_routed_experts": None,
}  # fmt: skip
EXPERTS = {
    "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "n_shared_experts": 2,
    "first_k_dense_replace": 1,
}  # fmt: skip
GEMMA = {**LLAMA, "head_dim": 256, "sliding_window": 1024}
SIZES = decoder_of(LLAMA).as_dict()


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


def test_a_llama_with_grouped_queries() -> None:
    made = decoder_of(LLAMA)
    assert made == Decoder(32, 4096, 32, 8, 128, 14336, 128256, 131072)
    assert made.gated and made.norm == "rmsnorm" and made.window == 0


@pytest.mark.parametrize("kv_heads", [1, 4, 32])
def test_multi_query_grouped_and_one_per_head(kv_heads: int) -> None:
    assert decoder_of({**LLAMA, "num_key_value_heads": kv_heads}).kv_heads == kv_heads


def test_without_kv_heads_every_head_has_its_own() -> None:
    assert decoder_of(without(LLAMA, "num_key_value_heads")).kv_heads == 32
    mistral = {**LLAMA, "model_type": "mistral", "num_key_value_heads": None, "sliding_window": None}
    assert decoder_of(mistral).kv_heads == 32


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
        ({"model_type": "qwen2", "layer_types": ["sliding_attention"] * 32, "sliding_window": 512}, 0, 0),
        ({"model_type": "gemma2", "head_dim": 256, "sliding_window": 4096}, 4096, 16),
        ({"model_type": "gemma3_text", "head_dim": 256, "sliding_window": 1024, "num_hidden_layers": 26}, 1024, 22),
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
    nested = {"model_type": "gemma3", "text_config": {**GEMMA, "model_type": "gemma3_text"}}
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


def test_a_local_config_json_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert resolved([{"name": "mine", "config_json": "~/config.json"}])["mine"] == decoder_of(LLAMA)


def test_a_config_json_nested_too_deeply(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("[" * 100_000)
    with pytest.raises(GeometryError, match=r"x: config\.json cannot be read"):
        resolved([{"name": "x", "config_json": str(file)}])


def test_a_geometry_written_out() -> None:
    sizes = {"layers": 2, "width": 64, "heads": 4, "kv_heads": 1, "head_dim": 16, "inner": 128, "vocabulary": 100}
    assert resolved([{"name": "tiny", "geometry": {**sizes, "context": 512}}])["tiny"].kv_heads == 1


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"name": "nobody"}, "nobody: not a shipped geometry"),
        ({"name": "minigpt"}, "expected another name"),
        ({"name": "Llama-3.1-8B"}, "expected small letters, digits and hyphens: write llama-3-1-8b, which is shipped"),
        ({"name": "My_Model"}, "expected small letters, digits and hyphens: write my-model"),
        ({"name": "x", "config_json": "absent.json"}, "x: absent.json cannot be read"),
        ({"name": "x", "geometry": {"layers": 2}}, "missing width, heads"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "wide": 1}}, "unknown wide"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "heads": 30}}, "not a multiple of kv_heads"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "layers": "4"}}, "layers is '4'"),
        ({"name": "x", "geometry": {**decoder_of(LLAMA).as_dict(), "window": 9}}, "expected both or neither"),
        ({"name": "x", "geometry": [1]}, "geometry is [1]: expected a mapping"),
        ({"name": "x", "geometry": SIZES | {"latent": 3}}, "latent is 3: expected a mapping"),
        ({"name": "x", "geometry": SIZES | {"latent": [1]}}, "latent is [1]: expected a mapping"),
        ({"name": "x", "geometry": SIZES | {"gated": "yes"}}, "gated is 'yes': expected true or false"),
        ({"name": "x", "geometry": SIZES | {"head_dim": 7}}, "head_dim is 7: expected a multiple of 8"),
        ({"name": "x", "geometry": SIZES | {"head_dim": 0}}, "head_dim is 0: expected a whole number, at least 1"),
        ({"name": "x", "geometry": SIZES | {"norm": []}}, "norm is []: expected rmsnorm or layernorm"),
        ({"name": "x", "geometry": {3: 4}}, "missing layers"),
        ({"name": "x", "geometry": SIZES | {3: 4}}, "unknown 3"),  # type: ignore[dict-item]
        ({"name": "x", "geometry": SIZES, "config_json": "config.json"}, "geometry and config_json are both given"),
    ],
)
def test_an_entry_that_is_none_says_what_is_needed(entry: dict[str, Any], told: str) -> None:
    with pytest.raises(GeometryError, match=re.escape(told)):
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


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("gemma", "head_dim"),
        ("gemma2", "head_dim"),
        ("gemma3_text", "head_dim"),
        ("qwen3", "head_dim"),
        ("qwen2", "num_key_value_heads"),
        ("mistral", "num_key_value_heads"),
        ("mistral", "sliding_window"),
        ("gemma2", "sliding_window"),
        ("gemma3_text", "sliding_window"),
        ("deepseek_v2", "q_lora_rank"),
        ("deepseek_v3", "q_lora_rank"),
        ("deepseek_v2", "n_routed_experts"),
        ("deepseek_v3", "n_shared_experts"),
        ("deepseek_v3", "first_k_dense_replace"),
    ],
)
def test_a_field_that_its_class_sets_itself_is_demanded(kind: str, field: str) -> None:
    whole = {**(DEEPSEEK | EXPERTS if kind.startswith("deepseek") else GEMMA), "model_type": kind}
    assert decoder_of(whole).layers == 32
    with pytest.raises(GeometryError, match=f"^config.json of {kind} lacks {field}: add"):
        decoder_of(without(whole, field))


@pytest.mark.parametrize("field", ["sliding_window", "max_window_layers"])
def test_a_window_that_is_switched_on_needs_its_fields(field: str) -> None:
    late = {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 28}
    with pytest.raises(GeometryError, match=f"lacks {field}"):
        decoder_of(without({**LLAMA, **late}, field))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model_type": ["llama"]}, "model_type is ['llama']: expected llama"),
        ({"model_type": None}, "model_type is None: expected llama"),
        ({"hidden_size": "4096"}, "hidden_size is '4096': expected a whole number, at least 1"),
        ({"hidden_size": 4096.0}, "hidden_size is 4096.0: expected a whole number"),
        ({"hidden_size": True}, "hidden_size is True: expected a whole number"),
        ({"num_attention_heads": "32"}, "num_attention_heads is '32': expected a whole number"),
        ({"num_attention_heads": 24}, "width 4096 is not a multiple of heads 24: give head_dim"),
        ({"num_key_value_heads": 0}, "num_key_value_heads is 0: expected a whole number, at least 1"),
        ({"head_dim": 7}, "head_dim is 7: expected a multiple of 8"),
        ({"head_dim": 0}, "head_dim is 0: expected a whole number, at least 1"),
        ({"hidden_act": ["silu"]}, "hidden_act is ['silu']: expected one of silu"),
        ({"hidden_activation": 3}, "hidden_activation is 3: expected one of silu"),
        ({"sliding_window": "4096"}, "sliding_window is '4096': expected a whole number, at least 0"),
        ({"sliding_window": -1}, "sliding_window is -1: expected a whole number, at least 0"),
        ({"layer_types": 3}, "layer_types is 3: expected a list of full_attention or sliding_attention"),
        ({"model_type": "qwen2", "layer_types": 3}, "layer_types is 3: expected a list"),
        ({"layer_types": "sliding_attention"}, "layer_types is 'sliding_attention': expected a list"),
        ({"layer_types": ["sliding_attention"]}, "one for each of 32 layers"),
        ({"layer_types": ["linear_attention"] * 32}, "expected a list of full_attention or sliding_attention"),
        ({"layer_types": [["full_attention"]] * 32}, "expected a list of full_attention or sliding_attention"),
        ({"layer_types": ["sliding_attention"] * 32}, "lacks sliding_window"),
        ({"model_type": "qwen2", "max_window_layers": None}, "max_window_layers is None: expected a whole number"),
        ({"model_type": "qwen2", "use_sliding_window": "no"}, "use_sliding_window is 'no': expected true or false"),
        ({**GEMMA, "model_type": "gemma3_text", "sliding_window_pattern": 0}, "sliding_window_pattern is 0: expected"),
        ({**GEMMA, "model_type": "gemma3_text", "sliding_window_pattern": None}, "sliding_window_pattern is None: exp"),
        ({"text_config": 3}, "text_config is 3: expected the text model's fields"),
        ({"text_config": []}, "text_config is []: expected the text model's fields"),
        ({"num_local_experts": "8"}, "num_local_experts is '8': expected a whole number, at least 0"),
        ({**DEEPSEEK, "q_lora_rank": "1536"}, "q_lora_rank is '1536': expected a whole number, at least 0"),
        ({**DEEPSEEK, **EXPERTS, "num_experts_per_tok": 0}, "chosen is 0: expected a whole number, at least 1"),
    ],
)
def test_a_field_of_another_kind_is_one_clear_error(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(GeometryError, match=re.escape(told)) as caught:
        decoder_of({**LLAMA, **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"n_embd": "768"}, "n_embd is '768': expected a whole number, at least 1"),
        ({"n_embd": None}, "config.json of gpt2 lacks n_embd: add"),
        ({"activation_function": []}, "activation_function is []: expected one of silu"),
    ],
)
def test_an_error_of_gpt2_names_its_own_field(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(GeometryError, match=f"^{re.escape(told)}"):
        decoder_of({**shipped()["gpt2"]["config"], **changes})


def test_the_same_name_twice_is_refused() -> None:
    with pytest.raises(GeometryError, match="another name"):
        resolved([{"name": "gpt2"}, {"name": "gpt2"}])


def test_the_common_families_are_there() -> None:
    assert set(FAMILIES) >= {"llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "gpt2", "deepseek_v2"}

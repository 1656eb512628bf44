"""A config.json's fields: the small inputs with their right answers, and what stops by its name."""

from typing import Any

import pytest
from rooflab.plan.huggingface import decoder_of, parameters
from rooflab.theory import storage
from rooflab.theory.geometry import Decoder, GeometryError
from rooflab.theory.step import weight_elements

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 131072, "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
CODE_LLAMA = LLAMA | {"hidden_size": 8192, "intermediate_size": 22016, "num_hidden_layers": 48, "num_attention_heads": 64,
                      "vocab_size": 32000, "max_position_embeddings": 16384}  # fmt: skip
SMALL = LLAMA | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "head_dim": 64,
                 "tie_word_embeddings": True}  # fmt: skip
SANTACODER = {
    "architectures": ["GPT2LMHeadCustomModel"], "model_type": "gpt2", "attention_head_type": "multiquery", "n_embd": 2048,
    "n_head": 16, "n_layer": 24, "n_inner": 8192, "n_positions": 2048, "vocab_size": 49280,
    "activation_function": "gelu_pytorch_tanh",
}  # fmt: skip
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128],
       "modules_to_not_convert": ["lm_head"]}  # fmt: skip


def quantized(config: dict[str, Any], scheme: dict[str, Any]) -> Decoder:
    return decoder_of({**config, "quantization_config": scheme})


def test_four_bits_with_a_scale_and_a_zero_point_per_group() -> None:
    model = quantized(CODE_LLAMA, AWQ)
    assert parameters(model) == pytest.approx(33.74e9, rel=0.001)
    assert model.quantization and model.quantization.method == "awq" and model.quantization.bits == 4
    assert storage.weight_bytes(model, 2) == pytest.approx(18.3e9, rel=0.005)
    assert storage.kv_bytes_per_token(model, 2) == 196_608


def test_fp8_with_a_scale_per_block_leaves_head_and_embedding_in_two_bytes() -> None:
    model = quantized(LLAMA, FP8)
    linear = weight_elements(model) - 128256 * 4096
    assert storage.weight_bytes(model, 2) == pytest.approx(linear * (1 + 4 / 128**2) + 2 * 2 * 128256 * 4096, rel=1e-9)
    assert storage.weight_bytes(model, 2) == pytest.approx(9.1e9, rel=0.01)


def test_a_tied_embedding_is_stored_once_and_its_head_still_read() -> None:
    model = decoder_of(SMALL)
    assert model.tied and parameters(model) == pytest.approx(1.236e9, rel=0.001)
    assert weight_elements(model) == parameters(model)  # a step reads the head, and not the embedding
    assert storage.kv_bytes_per_token(model, 2) == 32_768
    apart = decoder_of({**SMALL, "tie_word_embeddings": False})
    assert parameters(apart) - parameters(model) == 128256 * 2048 and weight_elements(apart) == weight_elements(model)


@pytest.mark.parametrize(("kind", "tied"), [("llama", False), ("gemma", True), ("mistral", False)])
def test_what_the_class_ties_where_the_config_is_silent(kind: str, tied: bool) -> None:
    silent = {name: value for name, value in LLAMA.items() if name not in ("tie_word_embeddings", "architectures")}
    model = decoder_of({**silent, "model_type": kind, "head_dim": 128, "sliding_window": None})
    assert model.tied is tied


def test_another_architecture_under_a_known_type_is_refused_by_its_field() -> None:
    with pytest.raises(
        GeometryError, match="attention_head_type .'multiquery'. is not understood in gpt2.*architectures"
    ):
        decoder_of(SANTACODER)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"draft_vocab_size": 32000}, "draft_vocab_size (32000) is not understood in llama"),
        ({"architectures": ["LlamaModel"]}, "architectures is 'LlamaModel', understood is LlamaForCausalLM"),
        (
            {"auto_map": {"AutoModelForCausalLM": "modeling_x.XForCausalLM"}},
            "auto_map is 'XForCausalLM', understood is",
        ),
        ({"medusa_num_heads": 4}, "medusa_num_heads (4) is not understood"),
        ({"model_type": "qwen9"}, "model_type is 'qwen9': expected llama, mistral, ministral3 … ("),
        ({"model_type": "qwen9"}, "the nearest is qwen"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder (True) is not understood"),
        (
            {"model_type": "qwen3_moe", "moe_layer_freq": 2, "architectures": None},
            "moe_layer_freq (2) is not understood",
        ),
    ],
)
def test_a_field_that_nobody_told_of_stops_by_its_name(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(GeometryError) as caught:
        decoder_of({**LLAMA, **changes})
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "harmless", [{"rope_theta": 5e5}, {"_name_or_path": "x"}, {"unheard_of": None}, {"bos_token_id": 1}]
)
def test_a_field_that_changes_no_size_is_passed_over(harmless: dict[str, Any]) -> None:
    assert decoder_of({**LLAMA, **harmless}) == decoder_of(LLAMA)


def test_a_head_of_no_whole_row_is_padded_in_the_cache_and_in_no_weight() -> None:
    config = {**LLAMA, "hidden_size": 3200, "num_attention_heads": 32, "num_key_value_heads": 32}
    model = decoder_of(config)
    assert (model.head_dim, model.head_padding, model.stored_head_dim) == (104, 4, 100)
    assert storage.kv_bytes_per_token(model, 2) == 2 * 2 * 32 * 32 * 104
    assert weight_elements(model) == 32 * (4 * 3200**2 + 3 * 3200 * 14336) + 128256 * 3200


def test_yarn_makes_the_context_longer() -> None:
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    assert decoder_of({**LLAMA, "max_position_embeddings": 32768, "rope_scaling": scaling}).context == 131072
    already = {"max_position_embeddings": 131072, "rope_scaling": scaling}
    assert decoder_of({**LLAMA, **already}).context == 131072


def test_sizes_that_a_text_part_leaves_to_its_class() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
            "sliding_window": 1024}  # fmt: skip
    model = decoder_of({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}})
    assert (model.heads, model.kv_heads, model.head_dim, model.vocabulary) == (8, 4, 256, 262208)
    with pytest.raises(GeometryError, match="lacks hidden_size: add these fields to its text_config"):
        decoder_of({"model_type": "gemma3", "text_config": {k: v for k, v in text.items() if k != "hidden_size"}})
    with pytest.raises(GeometryError, match=r"text_config in a config.json of model_type 'llama'"):
        decoder_of({**LLAMA, "text_config": text})


@pytest.mark.parametrize(
    ("scheme", "told"),
    [
        ({"quant_method": "aqlm"}, "quantization_config.quant_method is 'aqlm': expected one of awq, gptq"),
        (3, "quantization_config.quant_method is 3"),
        ({**AWQ, "bits": None}, "bits is None"),
        ({**AWQ, "group_size": 0}, "group_size is 0"),
        ({**AWQ, "modules_to_not_convert": ["whatever"]}, "leaves 'whatever' unquantized: expected a module"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"x": 1}}, "dynamic is given"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "config_groups is {}"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "quant_algo is 'W4A8_AWQ'"),
        ({"quant_method": "bitsandbytes"}, "expected load_in_4bit or load_in_8bit"),
        ({**FP8, "kv_cache_scheme": {"num_bits": 4}}, "kv_cache_scheme has 4 bits: expected 8"),
    ],
)
def test_a_scheme_that_is_not_understood_is_refused_in_one_line(scheme: Any, told: str) -> None:
    with pytest.raises(GeometryError) as caught:
        quantized(LLAMA, scheme)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_layers_that_stay_unquantized_count_in_full() -> None:
    whole, first = quantized(LLAMA, FP8), {**FP8, "modules_to_not_convert": ["lm_head", "model.layers.0.mlp"]}
    more = storage.weight_bytes(quantized(LLAMA, first), 2) - storage.weight_bytes(whole, 2)
    assert more == pytest.approx(3 * 4096 * 14336, rel=0.001)


def test_a_quantized_cache_has_one_byte_an_element() -> None:
    model = quantized(LLAMA, {**FP8, "kv_cache_scheme": {"num_bits": 8, "type": "float"}})
    assert storage.kv_bytes_per_token(model, 2) == 65_536


def test_a_geometry_can_say_tied_and_how_it_is_quantized() -> None:
    made = quantized(SMALL, AWQ)
    assert Decoder(**{**SHAPE, "tied": True}).tied and made.as_dict()["tied"] is True
    assert "tied" not in decoder_of(LLAMA).as_dict() and "tied" not in made.timed()


SHAPE = {
    "layers": 2,
    "width": 64,
    "heads": 4,
    "kv_heads": 1,
    "head_dim": 16,
    "inner": 128,
    "vocabulary": 100,
    "context": 512,
}

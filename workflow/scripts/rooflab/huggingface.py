"""A geometry out of a Hugging Face `config.json`: which field means what in which family.

Field names and defaults: the configuration classes of the `transformers` library, one per `model_type`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rooflab.geometry import Decoder, Experts, GeometryError, Latent

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """How the models of one `model_type` are built. `windows` says which layers a sliding window holds for."""

    gated: bool = True
    norm: str = "rmsnorm"
    norms_per_layer: int = 2
    windows: str = "none"


FAMILIES = {
    "llama": Family(),
    "mistral": Family(windows="all"),
    "qwen2": Family(windows="late"),
    "qwen3": Family(windows="late"),
    "gemma": Family(),
    "gemma2": Family(norms_per_layer=4, windows="alternate"),
    "gemma3_text": Family(norms_per_layer=4, windows="pattern"),
    "phi": Family(gated=False, norm="layernorm", norms_per_layer=1),
    "phi3": Family(windows="all"),
    "gpt2": Family(gated=False, norm="layernorm"),
    "deepseek_v2": Family(),
    "deepseek_v3": Family(),
}
LATENT = ("deepseek_v2", "deepseek_v3")
# GPT-2's names for what the others call otherwise
GPT2_NAMES = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_positions": "max_position_embeddings",
    "activation_function": "hidden_act",
}
SIZES = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "inner",
    "vocab_size": "vocabulary",
    "max_position_embeddings": "context",
}
LATENT_SIZES = {
    "kv_lora_rank": "rank",
    "qk_rope_head_dim": "rope_dim",
    "qk_nope_head_dim": "nope_dim",
    "v_head_dim": "value_dim",
}
EXPERT_SIZES = {"n_routed_experts": "count", "num_experts_per_tok": "chosen", "moe_intermediate_size": "inner"}
OTHER_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
}


def decoder_of(config: Config) -> Decoder:
    """The geometry that a parsed `config.json` describes. Raises GeometryError naming the fields that it needs."""
    text: Config = config.get("text_config") or config
    kind = text.get("model_type")
    if kind not in FAMILIES:
        raise GeometryError(
            f"model_type is {kind!r}: expected {', '.join(FAMILIES)}; for another architecture give its geometry: "
            f"{', '.join(entry.name for entry in fields(Decoder))}"
        )
    if kind == "gpt2":
        text = _renamed(text)
    family = FAMILIES[kind]
    _refuse_other_experts(kind, text)
    sizes = _sizes(text, SIZES)
    heads, width = sizes["heads"], sizes["width"]
    window, window_layers = _window(text, family, sizes["layers"], sizes["context"])
    return Decoder(
        **sizes,
        kv_heads=heads if kind in LATENT else text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or width // heads,
        gated=family.gated,
        activation=_activation(text),
        norm=family.norm,
        norms_per_layer=family.norms_per_layer,
        window=window,
        window_layers=window_layers,
        latent=_latent(text) if kind in LATENT else None,
        experts=_experts(text) if kind in LATENT and text.get("n_routed_experts") else None,
    )


def _renamed(config: Config) -> Config:
    named = {GPT2_NAMES.get(name, name): value for name, value in config.items()}
    if named.get("intermediate_size") is None and "hidden_size" in named:
        named["intermediate_size"] = 4 * named["hidden_size"]
    return named


def _sizes(config: Config, names: Mapping[str, str]) -> dict[str, int]:
    missing = [name for name in names if not config.get(name)]
    if missing:
        raise GeometryError(f"config.json of {config['model_type']} lacks {', '.join(missing)}: add these fields to it")
    return {ours: config[theirs] for theirs, ours in names.items()}


def _activation(config: Config) -> str:
    given = config.get("hidden_activation") or config.get("hidden_act")
    if given not in ACTIVATIONS:
        raise GeometryError(f"hidden_act is {given!r}: expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[given]


def _window(config: Config, family: Family, layers: int, context: int) -> tuple[int, int]:
    """The sliding window and how many layers have it; none where it is as long as the context."""
    window = config.get("sliding_window") or 0
    kinds = config.get("layer_types")
    counted = sum(kind == "sliding_attention" for kind in kinds or ())
    count = _windowed_layers(config, family, layers) if kinds is None else counted
    return (window, count) if 0 < window < context and count > 0 else (0, 0)


def _windowed_layers(config: Config, family: Family, layers: int) -> int:
    match family.windows:
        case "all":
            return layers
        case "late":
            late = layers - config.get("max_window_layers", layers)
            return max(0, late) if config.get("use_sliding_window") else 0
        case "alternate":
            return (layers + 1) // 2
        case "pattern":
            return layers - layers // config.get("sliding_window_pattern", 6)
    return 0


def _latent(config: Config) -> Latent:
    return Latent(**_sizes(config, LATENT_SIZES), query_rank=config.get("q_lora_rank") or 0)


def _experts(config: Config) -> Experts:
    return Experts(
        **_sizes(config, EXPERT_SIZES),
        shared=config.get("n_shared_experts") or 0,
        dense_layers=config.get("first_k_dense_replace") or 0,
    )


def _refuse_other_experts(kind: str, config: Config) -> None:
    found = [name for name in OTHER_EXPERTS if (config.get(name) or 0) > 1]
    if found and kind not in LATENT:
        raise GeometryError(f"{kind} with {found[0]}: give the geometry itself, with experts (count, chosen, inner)")

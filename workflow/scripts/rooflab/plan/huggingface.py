"""A geometry out of a Hugging Face `config.json`: which field means what in which family.

Field names: the configuration classes of the `transformers` library, one per `model_type`. A field that is left out is
filled only where its class derives it from the others (`num_key_value_heads`, `head_dim`, `n_inner`) or leaves the
feature out; one that its class sets to a number of its own is demanded (`Family.needs`), never guessed. The one number
taken over is Gemma 3's `sliding_window_pattern`, 6.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from reprlib import repr as shown
from typing import Any

from rooflab.theory.geometry import Decoder, Experts, GeometryError, Latent

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Family:
    """How the models of one `model_type` are built. `windows` says which layers a sliding window holds for, `needs` which
    fields their configuration class would set to a number of its own."""

    gated: bool = True
    norm: str = "rmsnorm"
    norms_per_layer: int = 2
    windows: str = "none"
    needs: tuple[str, ...] = ()


KV = "num_key_value_heads"
FAMILIES = {
    "llama": Family(),
    "mistral": Family(windows="all", needs=(KV, "sliding_window")),
    "qwen2": Family(windows="late", needs=(KV,)),
    "qwen3": Family(windows="late", needs=(KV, "head_dim")),
    "gemma": Family(needs=(KV, "head_dim")),
    "gemma2": Family(norms_per_layer=4, windows="alternate", needs=(KV, "head_dim", "sliding_window")),
    "gemma3_text": Family(norms_per_layer=4, windows="pattern", needs=(KV, "head_dim", "sliding_window")),
    "phi": Family(gated=False, norm="layernorm", norms_per_layer=1),
    "phi3": Family(windows="all"),
    "gpt2": Family(gated=False, norm="layernorm"),
    "deepseek_v2": Family(needs=("q_lora_rank", "n_routed_experts")),
    "deepseek_v3": Family(needs=("q_lora_rank", "n_routed_experts")),
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
EXPERT_NEEDS = ("n_shared_experts", "first_k_dense_replace")
OTHER_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
# whole numbers, none below its least; null stands for "none" or "as many as there are heads" where it may
AT_LEAST_ONE = (*SIZES, *LATENT_SIZES, KV, "head_dim", "sliding_window_pattern")
AT_LEAST_ZERO = (*EXPERT_SIZES, *EXPERT_NEEDS, *OTHER_EXPERTS, "q_lora_rank", "sliding_window", "max_window_layers")
LEAST = dict.fromkeys(AT_LEAST_ONE, 1) | dict.fromkeys(AT_LEAST_ZERO, 0)
NEVER_NULL = ("sliding_window_pattern", "max_window_layers")
NULL_MEANS_NONE = (KV, "sliding_window", "q_lora_rank", "n_routed_experts", "n_shared_experts")
ATTENTION = ("full_attention", "sliding_attention")
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
    text = _text(config)
    kind = text.get("model_type")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise GeometryError(
            f"model_type is {shown(kind)}: expected {', '.join(FAMILIES)}; for another architecture give its geometry: "
            f"{', '.join(entry.name for entry in fields(Decoder))}"
        )
    text, family = _common(text), FAMILIES[kind]
    _refuse_other_experts(kind, text)
    _require_given(text, (*SIZES, *(LATENT_SIZES if kind in LATENT else ()), *family.needs))
    sizes = _sizes(text, SIZES)
    heads = sizes["heads"]
    window, window_layers = _window(text, family, sizes["layers"], sizes["context"])
    return Decoder(
        **sizes,
        kv_heads=heads if kind in LATENT else text.get(KV) or heads,
        head_dim=text.get("head_dim") or _derived_head_dim(sizes["width"], heads),
        gated=family.gated,
        activation=_activation(text),
        norm=family.norm,
        norms_per_layer=family.norms_per_layer,
        window=window,
        window_layers=window_layers,
        latent=_latent(text) if kind in LATENT else None,
        experts=_experts(text) if kind in LATENT and text["n_routed_experts"] else None,
    )


def _text(config: Config) -> Config:
    nested = config.get("text_config")
    if nested is None:
        return config
    if not isinstance(nested, Mapping):
        raise GeometryError(f"text_config is {shown(nested)}: expected the text model's fields")
    return nested


def _common(config: Config) -> Config:
    """The fields under the names that most families use, every size in it a whole number."""
    if config["model_type"] != "gpt2":
        _require_whole_numbers(config)
        return config
    named = {GPT2_NAMES.get(name, name): value for name, value in config.items()}
    _require_whole_numbers(named)
    if named.get("intermediate_size") is None:
        named["intermediate_size"] = 4 * (named.get("hidden_size") or 0)
    return named


def _called(config: Config, name: str) -> str:
    """What the family itself calls a field, for a message."""
    own = {common: gpt2 for gpt2, common in GPT2_NAMES.items()} if config["model_type"] == "gpt2" else {}
    return own.get(name, name)


def _require_whole_numbers(config: Config) -> None:
    for name in (name for name in LEAST if name in config):
        value = config[name]
        if value is None and name not in NEVER_NULL:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < LEAST[name]:
            raise GeometryError(
                f"{_called(config, name)} is {shown(value)}: expected a whole number, at least {LEAST[name]}"
            )


def _require_given(config: Config, names: Iterable[str]) -> None:
    missing = [
        _called(config, name)
        for name in names
        if config.get(name) is None and not (name in config and name in NULL_MEANS_NONE)
    ]
    if missing:
        raise GeometryError(f"config.json of {config['model_type']} lacks {', '.join(missing)}: add these fields to it")


def _sizes(config: Config, names: Mapping[str, str]) -> dict[str, int]:
    return {ours: config[theirs] for theirs, ours in names.items()}


def _derived_head_dim(width: int, heads: int) -> int:
    if width % heads:
        raise GeometryError(f"width {width} is not a multiple of heads {heads}: give head_dim")
    return width // heads


def _activation(config: Config) -> str:
    name = "hidden_activation" if config.get("hidden_activation") is not None else "hidden_act"
    given = config.get(name)
    if not isinstance(given, str) or given not in ACTIVATIONS:
        raise GeometryError(f"{_called(config, name)} is {shown(given)}: expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[given]


def _window(config: Config, family: Family, layers: int, context: int) -> tuple[int, int]:
    """The sliding window and how many layers have it; none where it is as long as the context."""
    count = _windowed_layers(config, family, layers)
    window = config.get("sliding_window") or 0
    return (window, count) if 0 < window < context and count > 0 else (0, 0)


def _windowed_layers(config: Config, family: Family, layers: int) -> int:
    listed = _listed_layers(config, layers)
    if family.windows == "late" and not _switched_on(config, "use_sliding_window"):
        return 0
    if listed is not None:
        _require_given(config, ("sliding_window",) if listed else ())
        return listed
    match family.windows:
        case "all":
            return layers
        case "late":
            _require_given(config, ("sliding_window", "max_window_layers"))
            return max(0, layers - int(config["max_window_layers"]))
        case "alternate":
            return (layers + 1) // 2
        case "pattern":
            return layers - layers // int(config.get("sliding_window_pattern", 6))
    return 0


def _switched_on(config: Config, name: str) -> bool:
    given = config.get(name, False)
    if not isinstance(given, bool):
        raise GeometryError(f"{name} is {shown(given)}: expected true or false")
    return given


def _listed_layers(config: Config, layers: int) -> int | None:
    """How many layers `layer_types` gives a window; None where the config has no such list."""
    kinds = config.get("layer_types")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in ATTENTION for kind in kinds):
        raise GeometryError(
            f"layer_types is {shown(kinds)}: expected a list of {' or '.join(ATTENTION)}, one for each of {layers} layers"
        )
    return kinds.count("sliding_attention")


def _latent(config: Config) -> Latent:
    return Latent(**_sizes(config, LATENT_SIZES), query_rank=config["q_lora_rank"] or 0)


def _experts(config: Config) -> Experts:
    _require_given(config, (*EXPERT_SIZES, *EXPERT_NEEDS))
    return Experts(
        **_sizes(config, EXPERT_SIZES),
        shared=config["n_shared_experts"] or 0,
        dense_layers=config["first_k_dense_replace"],
    )


def _refuse_other_experts(kind: str, config: Config) -> None:
    found = [name for name in OTHER_EXPERTS if (config.get(name) or 0) > 1]
    if found and kind not in LATENT:
        raise GeometryError(f"{kind} with {found[0]}: give the geometry itself, with experts (count, chosen, inner)")

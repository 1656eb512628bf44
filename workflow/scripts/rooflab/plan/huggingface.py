"""A geometry out of a Hugging Face `config.json`: which field means what in which family.

Field names: the configuration classes of the `transformers` library, one per `model_type` (`data/families.yaml`). A field
that is left out is filled only where its class derives it from the others (`num_key_value_heads`, `head_dim`, `n_inner`) or
leaves the feature out; one that its class sets to a number of its own is demanded, never guessed, unless the config leaves
its text model's sizes to the class. A field that nobody told of is refused by its name.
"""

from collections.abc import Mapping
from dataclasses import fields as entries
from dataclasses import replace
from difflib import get_close_matches
from reprlib import repr as shown
from typing import Any

from rooflab.plan.reading.experts import experts_of
from rooflab.plan.reading.families import (
    INDEXER_SIZES,
    LATENT_SIZES,
    Family,
    families,
    reason_against,
    wrapped,
    wrappers,
)
from rooflab.plan.reading.fields import Config, Fields, fields_of
from rooflab.plan.reading.quantization import quantization_of
from rooflab.plan.reading.windows import window_of
from rooflab.theory.geometry import Decoder, GeometryError, Indexer, Latent
from rooflab.theory.storage import parameters

__all__ = ["FAMILIES", "decoder_of", "parameters"]

FAMILIES = families()
SIZES = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "inner",
    "vocab_size": "vocabulary",
    "max_position_embeddings": "context",
}
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
}
ROW = 8  # elements that a head's row in the cache is a multiple of: 16 bytes in the two-byte formats


def decoder_of(config: Config) -> Decoder:
    """The geometry that a parsed `config.json` describes, with what is tied and how it is quantized.

    Raises GeometryError naming the fields that it needs, and the field that it does not understand.
    """
    text, place = _text(config)
    kind, family = _family(text.get("model_type"))
    fields = fields_of(text, kind, family, place, config)
    indexed = INDEXER_SIZES if family.indexer else {}
    fields.require((*SIZES, *family.needs, *(_latent_needs(fields) if family.latent else ()), *indexed))
    made = _decoder(fields, family, _tied(config, fields, family))
    return replace(made, quantization=quantization_of(_quantized(config, text), made))


def _decoder(fields: Fields, family: Family, tied: bool) -> Decoder:
    sizes = {ours: fields.get(theirs) for theirs, ours in SIZES.items()}
    sizes |= {"inner": sizes["inner"] // family.inner_share, "context": _context(fields)}
    heads, layers = sizes["heads"], sizes["layers"]
    head_dim = fields.get("head_dim") or _derived_head_dim(fields, sizes["width"], heads)
    padding = 0 if head_dim % 2 else -head_dim % ROW  # rotary positions turn pairs: an odd head is none
    experts = experts_of(fields, family.experts, layers)
    if experts and family.experts and "dense_inner" in family.experts:
        sizes["inner"] = fields.get(family.experts["dense_inner"])
    window, window_layers = window_of(fields, family, layers, sizes["context"])
    return Decoder(
        **sizes,
        kv_heads=_kv_heads(fields, family, heads),
        head_dim=head_dim + padding,
        gated=family.gated,
        activation=family.activation or _activation(fields),
        norm=family.norm,
        norms_per_layer=family.norms_per_layer,
        window=window,
        window_layers=window_layers,
        latent=_latent(fields, head_dim) if family.latent else None,
        experts=experts,
        head_padding=padding,
        indexer=_indexer(fields) if family.indexer else None,
        tied=tied,
        positions=sizes["context"] if family.positions else 0,
    )


def _text(config: Config) -> tuple[Config, str]:
    """The text model's fields, and the place they stand at."""
    nested = config.get("text_config")
    if nested is None:
        return config, "it"
    if not isinstance(nested, Mapping):
        raise GeometryError(f"text_config is {shown(nested)}: expected the text model's fields")
    kind = config.get("model_type")
    if kind not in wrappers():
        raise GeometryError(
            f"text_config in a config.json of model_type {shown(kind)}: {_expected(', '.join(wrappers()))}"
        )
    beside = [name for name in config if name not in wrapped() | {"text_config", *nested, *BESIDE}]
    unknown = [name for name in beside if not name.startswith("_") and config[name] is not None]
    if unknown:
        raise GeometryError(f"{unknown[0]} is not understood in {kind}: give the text model's `geometry:`")
    return {"model_type": wrappers()[kind], **nested}, "its text_config"


BESIDE = (
    "model_type",
    "architectures",
    "auto_map",
    "tie_word_embeddings",
    "quantization_config",
    "torch_dtype",
    "dtype",
)


def _expected(kinds: str) -> str:
    sizes = ", ".join(entry.name for entry in entries(Decoder))
    return f"expected {kinds}; for another architecture give its geometry: {sizes}"


def _family(kind: Any) -> tuple[str, Family]:
    if not isinstance(kind, str) or kind not in FAMILIES:
        because = reason_against(kind)
        near = get_close_matches(str(kind), list(FAMILIES), 1)
        told = _expected(f"{', '.join(list(FAMILIES)[:3])} … ({len(FAMILIES)} in data/families.yaml)")
        told += f"; the nearest is {near[0]}" if near else ""
        raise GeometryError(f"model_type is {shown(kind)}: {told}" + (f" ({kind}: {because})" if because else ""))
    return kind, FAMILIES[kind]


def _quantized(config: Config, text: Config) -> Any:
    places = [each.get(name) for each in (config, text) for name in ("quantization_config", "compression_config")]
    return next((each for each in places if each is not None), None)


def _tied(config: Config, fields: Fields, family: Family) -> bool:
    """Whether the LM head is the embedding: what the whole config says, else its text part, else the class."""
    given = config.get("tie_word_embeddings")
    return given if isinstance(given, bool) else fields.switch("tie_word_embeddings", family.tied)


def _kv_heads(fields: Fields, family: Family, heads: int) -> int:
    if family.latent:
        return heads
    for switch, count in family.kv:
        if fields.switch(switch):
            fields.require([count] if isinstance(count, str) else [])
            return int(fields.get(count)) if isinstance(count, str) else count
    return fields.get("num_key_value_heads") or heads


def _derived_head_dim(fields: Fields, width: int, heads: int) -> int:
    """A head's even share of the width; where a latent says the size of a head otherwise, it need not be one."""
    if width % heads and fields.get("qk_nope_head_dim"):
        return int(fields.get("qk_nope_head_dim"))
    if width % heads:
        raise GeometryError(f"width {width} is not a multiple of heads {heads}: give head_dim")
    return width // heads


def _context(fields: Fields) -> int:
    """The longest context: that of the positions, or what YaRN makes of its original one (arXiv:2309.00071)."""
    longest = int(fields.get("max_position_embeddings"))
    scaling = fields.get("rope_scaling") or fields.get("rope_parameters")
    if not isinstance(scaling, Mapping) or scaling.get("rope_type", scaling.get("type")) != "yarn":
        return longest
    original, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
    if not isinstance(original, int) or not isinstance(factor, int | float):
        return longest
    return max(longest, round(original * factor))


def _activation(fields: Fields) -> str:
    name = "hidden_activation" if fields.get("hidden_activation") is not None else "hidden_act"
    given = fields.get(name)
    if not isinstance(given, str) or given not in ACTIVATIONS:
        raise GeometryError(f"{fields.own(name)} is {shown(given)}: expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[given]


def _indexer(fields: Fields) -> Indexer:
    return Indexer(**{ours: fields.get(theirs) for theirs, ours in INDEXER_SIZES.items()})


def _latent_needs(fields: Fields) -> list[str]:
    return [name for name in LATENT_SIZES if name != "v_head_dim" or fields.kind != "minicpm3"]


def _latent(fields: Fields, head_dim: int) -> Latent:
    """A class without a size for the values gives each head its even share of the width."""
    sizes = {ours: fields.get(theirs) for theirs, ours in LATENT_SIZES.items()}
    return Latent(**sizes | {"value_dim": sizes["value_dim"] or head_dim}, query_rank=fields.get("q_lora_rank") or 0)

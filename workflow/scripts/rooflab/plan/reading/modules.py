"""Which parts of a step a list of module names leaves unquantized: names, beginnings or pieces of them, globs, `re:` and an
expression, as the schemes write them."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from reprlib import repr as shown

from rooflab.theory import step
from rooflab.theory.geometry import Decoder, GeometryError

HEAD, ROUTER = "LM head", "expert choice"
# the linear layers of a part, as the library names them below a layer
MODULES = {
    "QKV": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention output": ("self_attn.o_proj",),
    "query and latent": ("self_attn.kv_a_proj_with_mqa",),
    "query from its latent": ("self_attn.q_b_proj",),
    "index queries": ("self_attn.indexer.wq_b",),
    "index key and weights": ("self_attn.indexer.wk", "self_attn.indexer.weights_proj"),
    "heads' queries to the latent": ("self_attn.kv_b_proj",),
    "heads' values from the latent": ("self_attn.kv_b_proj",),
    "MLP gate and up": ("mlp.gate_proj", "mlp.up_proj"),
    "MLP up": ("mlp.up_proj",),
    "MLP down": ("mlp.down_proj",),
    "shared experts gate and up": ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"),
    "shared experts down": ("mlp.shared_experts.down_proj",),
    "experts gate and up": ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj"),
    "experts down": ("mlp.experts.0.down_proj",),
}
# all that a scheme for routed experts alone leaves as it is
EXPERTS_ONLY = tuple(part for part in MODULES if not part.startswith("experts"))
# what is no linear layer of a step: listed or not, it stays as it is
BESIDE = re.compile(r"norm|embed|wte|vision|visual|audio|projector|rotary|router|gate$|e_score|bias|^mtp|nextn|eh_proj")


def kept_parts(
    model: Decoder, listed: Sequence[str], head_kept: bool, left: Sequence[str]
) -> tuple[tuple[str, int | None], ...]:
    """(part, layers) that stay unquantized, None for all of them. `head_kept`: the scheme never touches the LM head; `left`:
    nor these parts. Raises GeometryError for a name in the list that fits no module of this model."""
    unknown = [pattern for pattern in listed if not _stands_for_something(pattern, model)]
    if unknown:
        raise GeometryError(
            f"quantization_config leaves {shown(unknown[0])} unquantized: expected a module of the model"
        )
    kept: dict[str, int | None] = {ROUTER: None} if model.experts else {}
    if head_kept or any(_fits(pattern, "lm_head") for pattern in listed):
        kept[HEAD] = None
    for part, layers in _layers(model).items():
        count = len(layers) if part in left else sum(_is_kept(part, layer, listed) for layer in layers)
        if count:
            kept[part] = None if count == len(layers) else count
    return tuple(kept.items())


def _layers(model: Decoder) -> dict[str, range]:
    """The layers that have each part: the ordinary MLPs first, then those with experts."""
    dense = model.experts.dense_layers if model.experts else model.layers
    parts = {product.part for product in step.products(model, 1)} & MODULES.keys()
    spans = {"MLP": range(dense), "sha": range(dense, model.layers), "exp": range(dense, model.layers)}
    return {part: spans.get(part[:3], range(model.layers)) for part in sorted(parts)}


def _is_kept(part: str, layer: int, listed: Sequence[str]) -> bool:
    names = [f"model.layers.{layer}.{module}" for module in MODULES[part]]
    return all(any(_fits(pattern, name) for pattern in listed) for name in names)


def _stands_for_something(pattern: str, model: Decoder) -> bool:
    place = re.search(r"layers\.(\d+)\.", pattern)
    if BESIDE.search(pattern.removeprefix("re:")) or (place and int(place[1]) >= model.layers):
        return True
    names = [
        f"model.layers.{layer}.{m}" for part, span in _layers(model).items() for layer in span for m in MODULES[part]
    ]
    return any(_fits(pattern, name) for name in [*names, "lm_head"])


def _fits(pattern: str, name: str) -> bool:
    if pattern.startswith("re:"):
        return bool(re.match(pattern[3:], name))
    if "*" in pattern:
        return fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*")
    return f".{pattern}." in f".{name}."

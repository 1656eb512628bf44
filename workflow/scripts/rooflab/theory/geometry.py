"""The size of a decoder: what a decode step needs to know of a model, and nothing of its weights.

A geometry comes from the shipped table, from the config, or from a Hugging Face `config.json` (`huggingface.py`).
Grouped-query attention: J. Ainslie et al., arXiv:2305.13245. Latent attention (MLA) and its experts: DeepSeek-AI,
"DeepSeek-V2", arXiv:2405.04434, sections 2.1 and 2.2.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from reprlib import repr as shown
from typing import Any

ACTIVATIONS = ("silu", "gelu")
NORMS = ("rmsnorm", "layernorm")
MAY_BE_ZERO = ("window", "window_layers", "query_rank", "shared", "dense_layers")


class GeometryError(ValueError):
    """What was seen, what is needed."""


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: all heads share one latent of `rank` per token, and one rotary key of `rope_dim`.

    Each head has `nope_dim` + `rope_dim` elements of query and `value_dim` of value; `query_rank` 0 means that the query
    is projected in one step.
    """

    rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int = 0


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: `chosen` of `count` per token and `shared` ones for all, each of inner size `inner`; the
    first `dense_layers` layers have an ordinary MLP."""

    count: int
    chosen: int
    inner: int
    shared: int = 0
    dense_layers: int = 0


@dataclass(frozen=True)
class Decoder:
    """One model's sizes. `width` is the hidden state's, `inner` the MLP's; a `gated` MLP has two projections up.
    `head_dim` is a multiple of 8, so that a head's row starts on 16 bytes in the two-byte formats.

    `window_layers` of the layers attend to the last `window` tokens only. Raises GeometryError for sizes that do not fit.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    context: int
    gated: bool = True
    activation: str = "silu"
    norm: str = "rmsnorm"
    norms_per_layer: int = 2
    window: int = 0
    window_layers: int = 0
    latent: Latent | None = None
    experts: Experts | None = None

    def __post_init__(self) -> None:
        for part in (self, self.latent, self.experts):
            if part is not None:
                _require_sizes(part)
        if not isinstance(self.gated, bool):
            raise GeometryError(f"gated is {shown(self.gated)}: expected true or false")
        if self.head_dim % 8:
            raise GeometryError(f"head_dim is {self.head_dim}: expected a multiple of 8")
        if self.heads % self.kv_heads:
            raise GeometryError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        _require_one_of("activation", self.activation, ACTIVATIONS)
        _require_one_of("norm", self.norm, NORMS)
        if self.window_layers > self.layers or bool(self.window) != bool(self.window_layers):
            raise GeometryError(
                f"window {self.window} on {self.window_layers} of {self.layers} layers: expected both or neither"
            )
        if self.experts and (self.experts.chosen > self.experts.count or self.experts.dense_layers > self.layers):
            raise GeometryError(
                f"{self.experts}: expected no more chosen than there are, no more dense layers than layers"
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and words, as a spec holds them; `decoder` reads them back."""
        return asdict(self)


def decoder(given: Mapping[str, Any]) -> Decoder:
    """A geometry from plain numbers and words. Raises GeometryError naming what is missing or unknown."""
    _require_mapping("geometry", given)
    parts = {name: kind for name, kind in (("latent", Latent), ("experts", Experts)) if given.get(name) is not None}
    nested = {name: _built(kind, _require_mapping(name, given[name]), f"{name}.") for name, kind in parts.items()}
    made: Decoder = _built(Decoder, {**given, **nested}, "")
    return made


def _require_mapping(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise GeometryError(f"{name} is {shown(given)}: expected a mapping of sizes")
    return given


def _built(kind: Any, given: Mapping[str, Any], prefix: str) -> Any:
    known = {entry.name: entry for entry in fields(kind)}
    needed = [name for name, entry in known.items() if entry.default is MISSING]
    missing = [prefix + name for name in needed if name not in given]
    unknown = [f"{prefix}{name}" for name in given if name not in known]
    if missing or unknown:
        told = f"missing {', '.join(missing)}" if missing else f"unknown {', '.join(unknown)}"
        raise GeometryError(f"{told}: a geometry has {', '.join(prefix + name for name in known)}")
    return kind(**given)


def _require_sizes(part: Any) -> None:
    for entry in fields(part):
        value = getattr(part, entry.name)
        if entry.type is not int:
            continue
        least = 0 if entry.name in MAY_BE_ZERO else 1
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise GeometryError(f"{entry.name} is {shown(value)}: expected a whole number, at least {least}")


def _require_one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise GeometryError(f"{name} is {shown(value)}: expected {' or '.join(known)}")

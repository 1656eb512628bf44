"""The size of a decoder: what a step of it needs to know of a model, and nothing of its weights.

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
MAY_BE_ZERO = ("window", "window_layers", "query_rank", "shared", "dense_layers", "head_padding", "positions")
# what a geometry says beyond the sizes that were there first: left out of its plain form where it says nothing
ADDED = ("head_padding", "tied", "positions", "quantization", "indexer")
# what decides how many bytes lie in memory and no time of a part
STORED = ("tied", "positions", "quantization")


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
class Indexer:
    """Sparse attention's choice (DeepSeek-AI, "DeepSeek-V3.2", section 2.1): `heads` queries of `head_dim` score one cached key
    per token, and attention reads the `chosen` best tokens alone. Its keys are cached in fp8, each with a scale in fp32."""

    heads: int
    head_dim: int
    chosen: int


@dataclass(frozen=True)
class Quantization:
    """How a checkpoint stores the weights of its linear layers: `bits` an element, and beside them `scales`: each
    (rows, columns, bits), one such number per so many rows and columns of a weight (rows outputs, columns inputs), 0 for
    all of them; scales and zero points alike. `arithmetic`: the format that products are computed in, empty where the weights
    are turned back into the dtype of serving first. `kept`: (part of a step, layers) whose weights stay in the dtype of serving;
    None for every layer. `kv_bits` an element of the cache, 0 where it stays in the dtype of serving.

    Raises GeometryError for what is no such thing.
    """

    method: str
    bits: int
    scales: tuple[tuple[int, int, int], ...] = ()
    kept: tuple[tuple[str, int | None], ...] = ()
    kv_bits: int = 0
    arithmetic: str = ""

    def __post_init__(self) -> None:
        for name in ("scales", "kept"):  # lists where they come from JSON
            object.__setattr__(self, name, tuple(tuple(each) for each in getattr(self, name)))
        if any(len(each) != 3 for each in self.scales) or any(len(each) != 2 for each in self.kept):
            raise GeometryError(
                f"quantization {shown(self.scales)}, {shown(self.kept)}: expected (rows, columns, bits), (part, layers)"
            )


@dataclass(frozen=True)
class Sizes:
    """What every decoder has, the MiniGPT and a served model alike. `width` is the hidden state's, `inner` the MLP's;
    `kv_heads` of the heads are cached. Raises GeometryError for sizes that do not fit."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocabulary: int
    context: int

    def __post_init__(self) -> None:
        _require_sizes(self)
        if self.heads % self.kv_heads:
            raise GeometryError(
                f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}: change one of the two"
            )


@dataclass(frozen=True)
class Decoder(Sizes):
    """A served model. A `gated` MLP has two projections up.
    `head_dim` is a multiple of 8, so that a head's row starts on 16 bytes in the two-byte formats: `head_padding` of its
    elements are there for that alone, in the cache and in no weight.

    `window_layers` of the layers attend to the last `window` tokens only. `tied`: the LM head is the token embedding,
    stored once and read in every step. `positions`: rows of a learned position embedding. `quantization`: how the weights
    and the cache are stored, None where they are in the dtype of serving. Raises GeometryError for sizes that do not fit.
    """

    gated: bool = True
    activation: str = "silu"
    norm: str = "rmsnorm"
    norms_per_layer: int = 2
    window: int = 0
    window_layers: int = 0
    latent: Latent | None = None
    experts: Experts | None = None
    head_padding: int = 0
    tied: bool = False
    positions: int = 0
    quantization: Quantization | None = None
    indexer: Indexer | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for part in (self.latent, self.experts, self.indexer):
            if part is not None:
                _require_sizes(part)
        for name in ("gated", "tied"):
            if not isinstance(getattr(self, name), bool):
                raise GeometryError(f"{name} is {shown(getattr(self, name))}: expected true or false")
        if self.head_dim % 8 or self.head_padding >= self.head_dim:
            raise GeometryError(
                f"head_dim is {self.head_dim}, {self.head_padding} of it padding: expected a multiple of 8, less padding"
                if self.head_padding
                else f"head_dim is {self.head_dim}: expected a multiple of 8"
            )
        if self.indexer and not (self.latent and self.latent.query_rank):
            raise GeometryError(f"{self.indexer} without a latent query: expected latent with a query_rank beside it")
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

    @property
    def stored_head_dim(self) -> int:
        """Elements of a head in the weights: those of the cache's row without its padding."""
        return self.head_dim - self.head_padding

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and words; `decoder` reads them back. What was added to a geometry stands in it where it says
        something, so that the others keep the form they had."""
        return {name: value for name, value in asdict(self).items() if name not in ADDED or value}

    def timed(self) -> dict[str, Any]:
        """The same without what only decides how many bytes are stored: what a spec holds, and its key digests."""
        return {name: value for name, value in self.as_dict().items() if name not in STORED}

    def stored(self) -> dict[str, Any]:
        """What only decides how many bytes are stored."""
        return {name: value for name, value in self.as_dict().items() if name in STORED}


def decoder(given: Mapping[str, Any]) -> Decoder:
    """A geometry from plain numbers and words. Raises GeometryError naming what is missing or unknown."""
    _require_mapping("geometry", given)
    kinds = (("latent", Latent), ("experts", Experts), ("quantization", Quantization), ("indexer", Indexer))
    parts = {name: kind for name, kind in kinds if given.get(name) is not None}
    nested = {name: _built(kind, _require_mapping(name, given[name]), f"{name}.") for name, kind in parts.items()}
    made: Decoder = _built(Decoder, {**given, **nested}, "")
    return made


def require_size(name: str, value: Any, least: int = 1) -> None:
    """Raises GeometryError for anything but a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise GeometryError(f"{name} is {shown(value)}: expected a whole number, at least {least}")


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
        if entry.type is int:
            require_size(entry.name, getattr(part, entry.name), 0 if entry.name in MAY_BE_ZERO else 1)


def _require_one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise GeometryError(f"{name} is {shown(value)}: expected {' or '.join(known)}")

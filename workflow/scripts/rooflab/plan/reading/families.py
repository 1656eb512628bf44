"""How the models of one `model_type` are built: the rows of `data/families.yaml`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

LATENT_SIZES = {
    "kv_lora_rank": "rank",
    "qk_rope_head_dim": "rope_dim",
    "qk_nope_head_dim": "nope_dim",
    "v_head_dim": "value_dim",
}
INDEXER_SIZES = {"index_n_heads": "heads", "index_head_dim": "head_dim", "index_topk": "chosen"}

TABLE = Path(__file__).parents[2] / "data" / "families.yaml"


@dataclass(frozen=True)
class Family:
    """One row of the table, which says what each field means."""

    architectures: tuple[str, ...]
    tied: bool
    gated: bool = True
    norm: str = "rmsnorm"
    norms_per_layer: int = 2
    activation: str | None = None
    windows: str = "none"
    pattern: int = 0
    names: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)
    kv: tuple[tuple[str, str | int], ...] = ()
    inner_factor: int = 0
    inner_share: int = 1
    positions: bool = False
    nested: tuple[str, ...] = ()
    latent: bool = False
    indexer: bool = False
    experts: Mapping[str, Any] | None = None
    allowed: tuple[str, ...] = ()
    only: Mapping[str, list[Any]] = field(default_factory=dict)

    def understood(self) -> frozenset[str]:
        """The fields of this family, under their own names and under those that most families use."""
        counted = [name for name in (self.experts or {}).values() if isinstance(name, str)]
        switches = [name for pair in self.kv for name in pair if isinstance(name, str)]
        latent = [*LATENT_SIZES, "qk_head_dim", *(INDEXER_SIZES if self.indexer else ())] if self.latent else []
        named = [
            *self.names,
            *self.names.values(),
            *self.needs,
            *counted,
            *switches,
            *latent,
            *self.allowed,
            *self.only,
        ]
        return frozenset([*named, *_table()["sizes"], *harmless()])


@cache
def families() -> dict[str, Family]:
    """The row of each `model_type`."""
    rows: dict[str, dict[str, Any]] = _table()["families"]
    return {kind: _family(_whole(rows, kind)) for kind in rows}


@cache
def harmless() -> frozenset[str]:
    """Fields that change no size in any family."""
    return frozenset(name for group in _table()["harmless"] for name in group)


@cache
def harmless_while_off() -> frozenset[str]:
    """Fields that change no size in any family while they are false."""
    return frozenset(_table()["off"])


@cache
def wrappers() -> dict[str, str]:
    """The `model_type` of a larger config -> that of its `text_config`, where none is given there."""
    return dict(_table()["wrappers"])


@cache
def wrapped() -> frozenset[str]:
    """Fields of a larger config that say nothing of its text model."""
    return frozenset(name for group in _table()["wrapped"] for name in group) | harmless()


def reason_against(kind: Any) -> str | None:
    """Why the models of a well-known `model_type` cannot be read; None for one that nobody wrote down."""
    reasons: dict[str, str] = _table()["none"]
    return reasons.get(kind) if isinstance(kind, str) else None


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return table


def _whole(rows: dict[str, dict[str, Any]], kind: str) -> dict[str, Any]:
    row = dict(rows[kind])
    start = row.pop("like", None)
    return {**_whole(rows, start), **row} if start else row


def _family(row: dict[str, Any]) -> Family:
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in row.items()}
    return Family(**values)

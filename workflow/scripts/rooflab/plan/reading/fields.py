"""The fields of a `config.json` under the names that most families use, each of them understood or refused by its name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from reprlib import repr as shown
from typing import Any

from rooflab.plan.reading.families import Family, harmless_while_off
from rooflab.theory.geometry import GeometryError

Config = Mapping[str, Any]

OTHER_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
# whole numbers, none below its least; null stands for "none" or "as many as there are heads" where it may
AT_LEAST_ONE = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"),
    *("max_position_embeddings", "num_key_value_heads", "head_dim", "sliding_window_pattern", "kv_lora_rank"),
    *("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "multi_query_group_num", "num_kv_heads"),
    *(
        "decoder_sparse_step",
        "interleave_moe_layer_step",
        "index_n_heads",
        "index_head_dim",
        "index_topk",
        "intermediate_size_mlp",
        "attention_chunk_size",
    ),
)
AT_LEAST_ZERO = (
    *(*OTHER_EXPERTS, "num_experts_per_tok", "moe_intermediate_size", "n_shared_experts", "first_k_dense_replace"),
    *("q_lora_rank", "sliding_window", "max_window_layers", "shared_expert_intermediate_size"),
)
LEAST = dict.fromkeys(AT_LEAST_ONE, 1) | dict.fromkeys(AT_LEAST_ZERO, 0)
NEVER_NULL = ("sliding_window_pattern", "max_window_layers")
NULL_MEANS_NONE = ("num_key_value_heads", "sliding_window", "q_lora_rank", "n_routed_experts", "n_shared_experts")


@dataclass(frozen=True)
class Fields:
    """The fields of one config by their common names; `called` gives their own ones back, `place` says where they stand."""

    kind: str
    values: Config
    called: Mapping[str, str]
    place: str

    def get(self, name: str, otherwise: Any = None) -> Any:
        return self.values.get(name, otherwise)

    def own(self, name: str) -> str:
        """What the family itself calls a field, for a message."""
        return self.called.get(name, name)

    def require(self, names: Iterable[str]) -> None:
        """Raises GeometryError naming every one of these that is not given."""
        missing = [
            self.own(name)
            for name in names
            if self.get(name) is None and not (name in self.values and name in NULL_MEANS_NONE)
        ]
        if missing:
            raise GeometryError(
                f"config.json of {self.kind} lacks {', '.join(missing)}: add these fields to {self.place}"
            )

    def switch(self, name: str, otherwise: bool = False) -> bool:
        """A field that is true or false. Raises GeometryError for anything else."""
        given = self.get(name, otherwise)
        if not isinstance(given, bool):
            raise GeometryError(f"{self.own(name)} is {shown(given)}: expected true or false")
        return given


def fields_of(config: Config, kind: str, family: Family, place: str, outer: Config) -> Fields:
    """The fields of `config`, which stands in the config.json at `place` ("it", "its text_config"); what that text_config
    leaves to its class is filled in. Raises GeometryError for a field that is not understood, by its name."""
    flat = dict(_flat(config, family.nested))
    _refuse_unknown(flat, kind, family, _other_classes(outer, family, is_wrapped=place != "it"))
    named = {name: value for name, value in flat.items() if name not in family.names}
    called: dict[str, str] = {ours: theirs for theirs, ours in reversed(list(family.names.items()))}
    for theirs, ours in family.names.items():
        if theirs in flat and named.get(ours) is None:
            named[ours], called[ours] = flat[theirs], theirs
    for name, value in (family.fixed | family.defaults if place != "it" else family.fixed).items():
        named[name] = value if named.get(name) is None else named[name]
    fields = Fields(kind, named, called, place)
    _require_whole_numbers(fields)
    if family.inner_factor and fields.get("intermediate_size") is None:
        named["intermediate_size"] = family.inner_factor * (fields.get("hidden_size") or 0)
    return fields


def _flat(config: Config, nested: Iterable[str]) -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if name in nested and isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", each) for inner, each in value.items())
        else:
            yield name, value


def _refuse_unknown(config: Config, kind: str, family: Family, other_classes: list[str]) -> None:
    known = family.understood()
    told = [
        f"{name} ({shown(value)}) is not understood in {kind}"
        for name, value in config.items()
        if name not in known and not _says_nothing(name, value, family)
    ]
    for name, values in family.only.items():
        given = config.get(name)
        each = given if isinstance(given, list) else [given]
        if given is not None and any(one not in values for one in each):
            told.append(f"{name} is {shown(given)}, understood is {' or '.join(map(str, values))}")
    told += other_classes
    if told:
        raise GeometryError(
            f"{'; '.join(told)}: expected fields whose effect on the sizes is known; give its `geometry:`"
        )


def _says_nothing(name: str, value: Any, family: Family) -> bool:
    """A private note of the library, a feature that is not there, or experts, where those are looked at beside."""
    is_off = value is None or value in ({}, []) or (value is False and name in harmless_while_off())
    return name.startswith("_") or is_off or (name in OTHER_EXPERTS and family.experts is None)


def _other_classes(config: Config, family: Family, is_wrapped: bool) -> list[str]:
    """What `architectures` and `auto_map` say of another class than the family's, or than one that generates around it."""
    listed, mapped = config.get("architectures"), config.get("auto_map")
    named = [("architectures", each) for each in listed] if isinstance(listed, list) else []
    if isinstance(mapped, Mapping) and "AutoModelForCausalLM" in mapped:
        named.append(("auto_map", str(mapped["AutoModelForCausalLM"]).rpartition(".")[2]))
    around = "ForConditionalGeneration" if is_wrapped else None
    expected = " or ".join(family.architectures)
    return [
        f"{field} is {shown(each)}, understood is {expected}"
        for field, each in named
        if each not in family.architectures and not (around and str(each).endswith(around))
    ]


def _require_whole_numbers(fields: Fields) -> None:
    for name in (name for name in LEAST if name in fields.values):
        value = fields.get(name)
        if value is None and name not in NEVER_NULL:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < LEAST[name]:
            raise GeometryError(
                f"{fields.own(name)} is {shown(value)}: expected a whole number, at least {LEAST[name]}"
            )

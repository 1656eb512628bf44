"""Which layers see the last tokens only, and how many."""

from reprlib import repr as shown

from rooflab.plan.reading.families import Family
from rooflab.plan.reading.fields import Fields
from rooflab.theory.geometry import GeometryError

ATTENTION = ("full_attention", "sliding_attention")
CHUNKED = ("full_attention", "chunked_attention")
NO_ROPE_INTERVAL = 4  # every so many layers of Llama 4 have no positions and see all (its class)


def window_of(fields: Fields, family: Family, layers: int, context: int) -> tuple[int, int]:
    """The window and how many layers have it; none where it is as long as the context."""
    if family.windows == "chunks":
        window, count = fields.get("attention_chunk_size"), _chunked_layers(fields, layers)
    else:
        window, count = fields.get("sliding_window") or 0, _windowed_layers(fields, family, layers)
    return (window, count) if 0 < window < context and count > 0 else (0, 0)


def _windowed_layers(fields: Fields, family: Family, layers: int) -> int:
    listed = _listed(fields, layers, ATTENTION)
    if family.windows == "late" and not fields.switch("use_sliding_window"):
        return 0
    if listed is not None:
        fields.require(("sliding_window",) if listed else ())
        return listed
    match family.windows:
        case "all":
            return layers
        case "late":
            fields.require(("sliding_window", "max_window_layers"))
            return max(0, layers - int(fields.get("max_window_layers")))
        case "alternate":
            return (layers + 1) // 2
        case "pattern":
            return layers - layers // int(fields.get("sliding_window_pattern", family.pattern))
    return 0


def _listed(fields: Fields, layers: int, kinds: tuple[str, str]) -> int | None:
    """How many layers `layer_types` gives a window; None where the config has no such list."""
    given = fields.get("layer_types")
    if given is None:
        return None
    if not isinstance(given, list) or len(given) != layers or any(kind not in kinds for kind in given):
        raise GeometryError(
            f"layer_types is {shown(given)}: expected a list of {' or '.join(kinds)}, one for each of {layers} layers"
        )
    return given.count(kinds[1])


def _chunked_layers(fields: Fields, layers: int) -> int:
    """The layers of Llama 4 that attend within a chunk: those with rotary positions."""
    listed = _listed(fields, layers, CHUNKED)
    if listed is not None:
        return listed
    rotary = fields.get("no_rope_layers")
    if isinstance(rotary, list) and len(rotary) == layers:
        return sum(bool(each) for each in rotary)
    return layers - layers // int(fields.get("no_rope_layer_interval", NO_ROPE_INTERVAL))

"""The page of one model: `roofline.json` -> `model_<name>.md`. Figures are quoted, not computed."""

import argparse
import json
from pathlib import Path

from rooflab.explain.markdown import NOTHING, bound, cache, scheme, table, told
from rooflab.explain.model_line import count
from rooflab.look import words
from rooflab.look.voice import Voice
from rooflab.record.publish import write_text
from rooflab.record.types import Json

ENGLISH = Voice("en")


def page(roofline: Json, name: str) -> str:
    """The whole page in Markdown: every way of serving the model that was measured, or what is missing."""
    found = [model for model in roofline["models"] if model["name"] == name]
    lines = [f"# {name} on {_device(roofline)}", ""]
    if not found:
        lines += ["Nothing of this model is measured yet: `snakemake --cores 1` with it under `operators:`.", ""]
    for model in found:
        lines += _section(model)
    lines += _walks(roofline["sweeps"]) + _holes(roofline["holes"], name)
    return "\n".join(lines)


def _device(roofline: Json) -> str:
    gpu = roofline["devices"]["gpu"]
    return str(gpu["name"]) if gpu else str(roofline["session"])


def _section(model: Json) -> list[str]:
    return [
        f"## {'Measured with weights' if model.get('stored') else 'Weights'} in {model['dtype']}, cache in {model['kv_dtype']}",
        "",
        *_summary(model),
        "",
        "### One step: a token for each sequence",
        "",
        *_steps(model),
        "",
        "ms/token is the sum of all parts, each measured alone, times its layers: whole steps take longer, so tokens/s is an "
        "upper bound. `fits`: "
        "weights and cache of all layers beside each other in this card's memory; where they do not, the parts were still "
        "measured layer by layer.",
        "",
        *_missing(model["steps"]),
        "### Attention, one layer",
        "",
        *table(PART_HEAD, (_part_row(p) for p in model["operators"] if p["kind"] == "attention")),
        "",
        "### The other parts, one occurrence",
        "",
        *table(PART_HEAD, (_part_row(p) for p in model["operators"] if p["kind"] != "attention")),
        "",
        f"Left out: {'; '.join(model['left_out'])}.",
        "",
    ]  # fmt: skip


BEYOND = " (**beyond what the chip can do**)"
PART_HEAD = ("part", "batch", "S", "times", "measured", "by the roof", "of the roof", "FLOP/byte", "bound", "achieved")


def _part_row(point: Json) -> tuple[str, ...]:
    return (
        point["part"],
        str(point["batch"]),
        told(point["length"], str),
        told(point["count"], str),
        told(point["median_s"], words.seconds),
        told(point["attainable_s"], words.seconds),
        told(point["fraction_of_attainable"], words.percent),
        words.significant(point["intensity"]),
        bound(point["bound_by"], point["at_roof"]),
        told(point["achieved_flop_per_s"], words.flop_per_s) + (BEYOND if point["impossible"] else ""),
    )


def _steps(model: Json) -> list[str]:
    """The table of steps; of a quantized checkpoint, which columns are measured and which are by the roof."""
    head = (
        "S",
        "batch",
        "ms/token",
        "by the roof",
        "tokens/s",
        "by the roof",
        "of the roof",
        "bound",
        "attention",
        "fits",
    )
    rows = [_step_row(step, model["contexts"]) for step in model["steps"]]
    stored = model.get("stored")
    if not stored:
        return table(head, rows)
    as_stored = (told(step["stored_attainable_s"], _milliseconds) for step in model["steps"])
    column = f"as stored ({scheme(stored)}), by the roof, ms/token"
    return [
        f"Measured are products in {model['dtype']} and attention on a cache in {model['kv_dtype']}: ms/token, tokens/s and "
        f"attention's part. No product on weights as they are stored was measured: the column *as stored* is by the roof alone, "
        f"with their bytes and a cache in {cache(stored, model['kv_dtype'])}. Memory and `fits` are those of the checkpoint as stored.",
        "",
        *table((*head[:4], column, *head[4:]), (
            (*row[:4], each, *row[4:]) for row, each in zip(rows, as_stored, strict=True)
        )),
    ]  # fmt: skip


def _step_row(step: Json, contexts: list[Json]) -> tuple[str, ...]:
    window = next((each.get("window_tokens") for each in contexts if each["sequence"] == step["sequence"]), None)
    return (
        f"{step['sequence']} (window {window})" if window else str(step["sequence"]),
        str(step["batch"]),
        told(step["measured_s"], _milliseconds),
        told(step["attainable_s"], _milliseconds),
        told(step["tokens_per_s"], count),
        told(step["attainable_tokens_per_s"], count),
        told(step["fraction_of_attainable"], words.percent),
        bound(step["bound_by"], step.get("at_roof")),
        told(step["attention_share"], words.percent),
        {True: "yes", False: f"no, {words.nbytes(step['memory_bytes_asked'])}", None: NOTHING}[step["fits"]],
    )


def _summary(model: Json) -> list[str]:
    sizes = model["geometry"]
    if sizes["latent"]:
        heads = f"{sizes['heads']} heads on a latent of {sizes['latent']['rank']} + {sizes['latent']['rope_dim']}"
    else:
        heads = f"{sizes['heads']} query heads on {sizes['kv_heads']} KV heads of {sizes['head_dim']}"
    source = f" Geometry: {model['source']}" if model["source"] else ""
    window = f" {sizes['window_layers']} layers see the last {sizes['window']} tokens only." if sizes["window"] else ""
    if padding := sizes.get("head_padding"):
        window += f" Heads of {sizes['head_dim'] - padding} elements, padded to {sizes['head_dim']} in the cache."
    tied = ", the embedding shared with the LM head" if sizes.get("tied") else ""
    stored = f" in {scheme(model['stored'])}" if model.get("stored") else ""
    turn = "The products alone turn compute-bound by the roof "
    lines = [
        f"{sizes['layers']} layers of width {sizes['width']}, {heads}.{window}{source}",
        "",
        f"Weights{stored}: {words.nbytes(model['weight_bytes'])}{tied}. {turn}{_from_batch(model['compute_bound_batch'])}.",
        "",
    ]
    head = ("S", "cache per sequence", "sequences that fit", "whole step compute-bound")
    return [*lines, *table(head, map(_context_row, model["contexts"])), *_beyond(model)]


def _beyond(model: Json) -> list[str]:
    """Contexts that were asked for and that the model does not have."""
    asked = model.get("beyond_context")
    longest = model["geometry"]["context"]
    return ["", f"S {', '.join(map(str, asked))}: beyond this model's context of {longest}, left out."] if asked else []


def _context_row(context: Json) -> tuple[str, ...]:
    window = context.get("window_tokens")
    return (
        f"{context['sequence']} ({window} cached by the layers with a window)" if window else str(context["sequence"]),
        words.nbytes(context["cache_bytes_per_sequence"]),
        told(context["sequences_that_fit"], str),
        _from_batch(context["compute_bound_batch"]),
    )


def _from_batch(batch: int | None) -> str:
    return "at no batch" if batch is None else f"from batch {batch}"


def _missing(steps: list[Json]) -> list[str]:
    """What keeps a step from being summed."""
    parts = sorted({part for step in steps for part in step["missing"]})
    return [f"Not measured, so that a step with it has no sum: {', '.join(parts)}.", ""] if parts else []


def _walks(sweeps: list[Json]) -> list[str]:
    """Whether the roof itself holds: one product over many batches, and where it lies furthest below."""
    judged = [sweep for sweep in sweeps if sweep["largest_gap"]]
    if not judged:
        return []
    head = ("dtype", "product", "batches", "furthest below the roof at batch", "FLOP/byte", "of the roof there")
    how = "One product over many batches: how closely it follows min(slope, ceiling)."
    return ["## The walk up the slope", "", how, "", *table(head, map(_walk_row, judged)), ""]


def _walk_row(sweep: Json) -> tuple[str, ...]:
    gap, batches = sweep["largest_gap"], [point["batch"] for point in sweep["points"]]
    return (
        sweep["dtype"],
        f"{sweep['n']} × {sweep['k']}",
        f"{min(batches)} to {max(batches)}",
        str(gap["batch"]),
        words.significant(gap["intensity"]),
        words.percent(gap["fraction_of_attainable"]),
    )


def _holes(holes: list[Json], name: str) -> list[str]:
    mine = [h for h in holes if h["stage"] in ("attention", "step") and h["name"].startswith(f"{name}-")]
    lines = [f"- `{hole['name']}`: {hole['status']}: {ENGLISH.reason(hole['reason'])}" for hole in mine]
    return ["## Not measured", "", *lines, ""] if lines else []


def _milliseconds(value: float) -> str:
    return words.significant(value * 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--roofline", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    write_text(given.out, page(json.loads(given.roofline.read_text(encoding="utf-8")), given.name))


if __name__ == "__main__":
    main()

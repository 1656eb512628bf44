"""The models of the config's `operators:`: shipped ones by name, a geometry written out, or a local `config.json`."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rooflab.plan.huggingface import decoder_of
from rooflab.theory.geometry import Decoder, GeometryError, decoder

TABLE = Path(__file__).parents[1] / "data" / "geometries.yaml"
NAME = re.compile(r"[a-z0-9][a-z0-9-]*")


@cache
def shipped() -> dict[str, dict[str, Any]]:
    """Name -> {"source": address, "config": fields of its config.json}."""
    table: dict[str, dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return table


def resolved(entries: list[dict[str, Any]]) -> dict[str, Decoder]:
    """The geometry of each entry by its name, in order. Raises GeometryError, which names the entry."""
    made: dict[str, Decoder] = {}
    for entry in entries:
        name = entry["name"]
        if not NAME.fullmatch(name):
            raise GeometryError(f"{name}: {_better_name(name)}")
        if name in made or name == "minigpt":
            raise GeometryError(f"{name}: expected another name for each model")
        try:
            made[name] = _geometry(entry)
        except GeometryError as error:
            raise GeometryError(f"{name}: {error}") from error
    return made


def require_measurable(entries: list[dict[str, Any]]) -> None:
    """Raises GeometryError for a model of which a part has no kernel here, naming the entry."""
    for name, model in resolved(entries).items():
        if model.indexer:
            raise GeometryError(
                f"{name}: attention that chooses its tokens by an index (index_topk) has no kernel here: expected another model; "
                "`snakemake --cores 1 predict` tells of this one"
            )


def source_of(name: str, geometry: Decoder) -> str | None:
    """Where a shipped geometry stands; None for one that is not shipped, or not as it is shipped."""
    entry = shipped().get(name)
    return entry["source"] if entry and decoder_of(entry["config"]) == geometry else None


def _better_name(name: str) -> str:
    """What a name may be, and the nearest one that is."""
    near = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    here = ", which is shipped" if near in shipped() else ""
    return "expected small letters, digits and hyphens" + (f": write {near}{here}" if near else "")


def as_shipped(name: str, geometry: Decoder) -> Decoder:
    """The shipped model of that name where the sizes are its own: it also says what is tied and quantized."""
    entry = shipped().get(name)
    known = decoder_of(entry["config"]) if entry else geometry
    return known if known.timed() == geometry.timed() else geometry


def _geometry(entry: Mapping[str, Any]) -> Decoder:
    if entry.get("geometry") is not None and entry.get("config_json") is not None:
        raise GeometryError("geometry and config_json are both given: expected one of them")
    if entry.get("geometry") is not None:
        return decoder(entry["geometry"])
    if entry.get("config_json") is not None:
        return decoder_of(_read(Path(entry["config_json"])))
    if entry["name"] not in shipped():
        raise GeometryError(
            f"not a shipped geometry ({', '.join(shipped())}): give `geometry:`, or `config_json:` with a local file"
        )
    return decoder_of(shipped()[entry["name"]]["config"])


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.expanduser().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: nested too deeply, or no such home
        raise GeometryError(f"{path.name} cannot be read ({error}): expected a Hugging Face config.json") from error
    if not isinstance(config, dict):
        raise GeometryError(f"{path.name} holds no mapping: expected a Hugging Face config.json")
    return config

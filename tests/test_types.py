"""The typed shapes between the rooms are those of the schemas, key by key; what the derivation says has its texts."""

import re
from pathlib import Path
from string import Formatter
from typing import Any, get_type_hints

import pytest
import yaml
from rooflab.look.catalogue import LANGUAGES, texts
from rooflab.record import document_types, roof_types, types

ROOT = Path(__file__).parents[1]
DERIVE = ROOT / "workflow" / "scripts" / "rooflab" / "derive"
CODE = re.compile(r"\btold\(\s*\"(\w+)\"")


def schema(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / "workflow" / "schemas" / f"{name}.schema.yaml").read_text())
    return read


MEASUREMENT, ROOFLINE = schema("measurement"), schema("roofline")
SERIES = MEASUREMENT["properties"]["series"]["items"]
MODELS = ROOFLINE["properties"]["models"]["items"]
PART = ROOFLINE["$defs"]["part"]


def items(name: str) -> dict[str, Any]:
    found: dict[str, Any] = ROOFLINE["properties"][name]["items"]
    return found


@pytest.mark.parametrize(
    ("shape", "described"),
    [
        (types.Record, MEASUREMENT),
        (types.Series, SERIES),
        (types.Chip, SERIES["properties"]["chip"]),
        (types.Clock, SERIES["properties"]["clock"]),
        (types.Track, SERIES["properties"]["track"]),
        (document_types.Roofline, ROOFLINE),
        (document_types.Source, items("generated_from")),
        (roof_types.Ceiling, items("ceilings")),
        (roof_types.Floor, items("floors")),
        (roof_types.Point, items("points")),
        (roof_types.Ridge, items("ridge_points")),
        (document_types.Served, MODELS),
        (document_types.Context, MODELS["properties"]["contexts"]["items"]),
        (document_types.Part, PART),
        (document_types.Step, MODELS["properties"]["steps"]["items"]),
        (document_types.Sweep, items("sweeps")),
        (document_types.Gap, items("sweeps")["properties"]["largest_gap"]),
        (document_types.Hole, items("holes")),
        (document_types.Check, items("checks")),
        (document_types.Answers, ROOFLINE["properties"]["answers"]),
        (types.Told, ROOFLINE["$defs"]["told"]),
    ],
)
def test_a_shape_has_the_keys_of_its_schema(shape: Any, described: dict[str, Any]) -> None:
    assert set(get_type_hints(shape)) == set(described["properties"])
    assert set(described.get("required", ())) <= set(shape.__required_keys__)


def test_a_walked_point_is_a_part_without_its_place_in_a_step() -> None:
    assert set(get_type_hints(document_types.Walked)) == set(PART["required"])


def codes() -> set[str]:
    """The codes that the derivation can say, as they stand in its source."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in DERIVE.glob("*.py"))
    bounds = [each for each in ROOFLINE["$defs"]["bound"]["enum"] if each is not None]
    return {*CODE.findall(source), *(f"advice_above_{bound}" for bound in bounds)}


def test_every_code_of_the_derivation_has_its_text_and_every_text_its_code() -> None:
    known = {key.removeprefix("said.") for key in texts() if key.startswith("said.")}
    assert codes() == known


def test_the_languages_of_a_code_say_the_same_values() -> None:
    for key, said in texts().items():
        if key.startswith("said."):
            fields = [sorted(name for _, name, *_ in Formatter().parse(said[each]) if name) for each in LANGUAGES]
            assert fields[0] == fields[1], key

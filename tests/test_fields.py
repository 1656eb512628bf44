"""The page of fields: up to date, complete, and true of what the programs write."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import synthetic
import yaml
from free.device_query import device_query
from free.inputs import load
from free.manifest import checks, manifest, result_files
from free.peak_flops_summary import peak_flops
from rooflab.derive.document import roofline
from rooflab.record.records import RecordError, check_schema

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import fields  # noqa: E402

SESSIONS = sorted(path.parent for path in ROOT.glob("results/*/manifest.json"))
SCHEMA = {
    "title": "t",
    "$defs": {"number": {"type": ["number", "null"]}},
    "properties": {
        "a": {"type": "integer", "description": "one | two"},
        "b": {"type": "array", "items": {"type": "object", "properties": {"c": {"$ref": "#/$defs/number"}}}},
        "d": {
            "type": "object",
            "description": "map",
            "additionalProperties": {"properties": {"e": {"enum": ["x", None]}}},
        },
        "f": {"anyOf": [{"type": "null"}, {"type": "string"}], "description": "either"},
    },
}


def test_the_page_is_up_to_date_and_every_field_described() -> None:
    command = [sys.executable, str(ROOT / "tools" / "fields.py"), "--check"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "workflow/fields.md is up to date\n")


def test_fields_are_named_by_their_whole_path() -> None:
    assert fields.fields(SCHEMA) == [
        ("a", "integer", "one \\| two"),
        ("b", "list of mapping", ""),
        ("b[].c", "number or null", ""),
        ("d", "mapping", "map"),
        ("d.<name>.e", "`x`, null", ""),
        ("f", "null or text", "either"),
    ]
    assert fields.undescribed(SCHEMA) == ["b", "b[].c", "d.<name>.e"]


def written(folder: Path) -> dict[str, Any]:
    """The free files of a session, made anew from its records."""
    records = load(folder, [*folder.glob("gpu/**/*.json"), *folder.glob("cpu/**/*.json")])
    plan = [{"file": f, "stage": r["stage"], "side": r["side"], "name": r["name"]} for f, r in records.items()]
    model = roofline("s", records, plan)
    paid = {"paid_s": 1.0, "usd": None, "runs": 1, "interrupted": 0, "stages": {"gpu/gemm": 1.0}}
    made = manifest("s", records, plan, paid, result_files(folder, folder.glob("cpu/**/*.json")))
    return {
        "roofline": model,
        "device_query": device_query("s", records, plan),
        "peak_flops": peak_flops("s", records, plan),
        "manifest": made | {"checks": checks(made, model, None, None, None)},
    }


@pytest.mark.parametrize("folder", SESSIONS, ids=lambda path: path.name)
def test_the_committed_sessions_hold_no_field_that_is_not_on_the_page(folder: Path) -> None:
    for name, content in written(folder).items():
        check_schema(name, content, name)
    for line in (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
        check_schema("ledger", json.loads(line), "ledger.jsonl")


@pytest.mark.parametrize(
    "made", [synthetic.h200_session(failed=("fp32-n4096",), hbm_us=520.0), synthetic.cpu_session()]
)
def test_synthetic_sessions_hold_no_field_that_is_not_on_the_page(made: list[dict[str, Any]], tmp_path: Path) -> None:
    synthetic.write_session(tmp_path, made)
    for name, content in written(tmp_path).items():
        check_schema(name, content, name)


def test_what_the_devices_say_is_on_the_page() -> None:
    page = fields.PAGE.read_text(encoding="utf-8")
    for folder in SESSIONS:
        query = json.loads((folder / "device_query.json").read_text(encoding="utf-8"))
        said = [f"`{side}.{name}`" for side in ("gpu", "cpu") for name in query[side] or {}]
        assert [name for name in said if name not in page] == []


def test_a_field_that_is_not_on_the_page_is_refused() -> None:
    made = peak_flops("s", synthetic.with_files(synthetic.cpu_session()), [])
    with pytest.raises(RecordError, match="surprise"):
        check_schema("peak_flops", made | {"surprise": 1}, "peak_flops")


def test_contributing_names_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+\.(?:py|smk|yaml|csv|cu))`", text))
    folders = (ROOT, ROOT / "workflow" / "scripts" / "rooflab", ROOT / "tests")
    assert len(named) > 30
    assert sorted(name for name in named if not any((folder / name).exists() for folder in folders)) == []


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (citation["version"], citation["license"]) == (project["version"], "MIT")


def test_no_description_is_cut_at_a_comma() -> None:
    def cut(value: Any, path: str) -> list[str]:
        if isinstance(value, dict):
            return [f"{path}: {key}" for key, each in value.items() if each is None] + [
                found for key, each in value.items() for found in cut(each, f"{path}/{key}")
            ]
        return [found for each in value for found in cut(each, path)] if isinstance(value, list) else []

    assert [found for name, schema in fields.read().items() for found in cut(schema, name)] == []

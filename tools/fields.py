"""Writes `workflow/fields.md`, the meaning of every field of every JSON file, from the descriptions in the schemas.

python tools/fields.py            writes the page
python tools/fields.py --check    exit status 1 where the page is out of date or a field has no description
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import yaml

Schema = Dict[str, Any]
Field = Tuple[str, str, str]  # path, what it may hold, meaning

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "workflow" / "schemas"
PAGE = ROOT / "workflow" / "fields.md"
CONSTANT = {"schema": "what file this is", "schema_version": "version of its format"}
HEAD = """# Every field

Made from the descriptions in `schemas/` by `python tools/fields.py`: edit there. Files hold SI base units; `[]` stands for each
entry of a list, `<name>` for each key of a mapping; `null` means not known or not applicable.
"""


def fields(schema: Schema) -> List[Field]:
    """Every field below a schema's top level, by dotted path, in the order of the schema."""
    return list(_below(schema, schema.get("$defs", {}), ""))


def undescribed(schema: Schema) -> List[str]:
    """The paths of the fields that have no description."""
    return [path for path, _, meaning in fields(schema) if not meaning]


def page(schemas: Dict[str, Schema]) -> str:
    """The whole page. `schemas` by the name of what they describe."""
    parts = [HEAD]
    for name, schema in sorted(schemas.items()):
        rows = [f"| `{path}` | {kind} | {meaning} |" for path, kind, meaning in fields(schema)]
        parts.append(
            "\n".join([f"## {name}", "", f"{schema['title']}.", "", "| field | holds | meaning |", "|--|--|--|", *rows])
        )
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def read() -> Dict[str, Schema]:
    """The schemas of the project by the name of what they describe."""
    return {
        path.name.replace(".schema.yaml", ""): yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in sorted(SCHEMAS.glob("*.schema.yaml"))
    }


def _below(schema: Schema, defs: Schema, path: str) -> Iterator[Field]:
    for name, field in schema.get("properties", {}).items():
        yield from _field(field, defs, f"{path}.{name}" if path else name)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict) and path:
        yield from _inside(extra, defs, f"{path}.<name>")
    if "items" in schema and isinstance(schema["items"], dict):
        yield from _inside(schema["items"], defs, f"{path}[]")


def _field(field: Schema, defs: Schema, path: str) -> Iterator[Field]:
    whole = _resolved(field, defs)
    meaning = str(whole.get("description", CONSTANT.get(path, ""))).replace("|", "\\|")
    yield path, _holds(whole, defs), meaning
    for each in _branches(whole, defs):
        yield from _below(each, defs, path)


def _inside(field: Schema, defs: Schema, path: str) -> Iterator[Field]:
    """What an entry of a list or a mapping holds; the entry itself is described by its list."""
    for each in _branches(_resolved(field, defs), defs):
        yield from _below(each, defs, path)


def _branches(schema: Schema, defs: Schema) -> List[Schema]:
    return [schema] + [_resolved(each, defs) for each in schema.get("anyOf", []) + schema.get("oneOf", [])]


def _resolved(field: Schema, defs: Schema) -> Schema:
    """The field with what it refers to; its own description wins."""
    if "$ref" not in field:
        return field
    return {
        **_resolved(defs[field["$ref"].rpartition("/")[2]], defs),
        **{k: v for k, v in field.items() if k != "$ref"},
    }


def _holds(field: Schema, defs: Schema) -> str:
    """The values a field may have, in words."""
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join("null" if value is None else f"`{value}`" for value in field["enum"])
    if "anyOf" in field or "oneOf" in field:
        kinds = [_holds(_resolved(each, defs), defs) for each in field.get("anyOf", []) + field.get("oneOf", [])]
        return " or ".join(dict.fromkeys(kinds))
    kinds = field.get("type", "anything")
    return " or ".join(_kind(kind, field, defs) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _kind(kind: str, field: Schema, defs: Schema) -> str:
    if kind == "array":
        items = _resolved(field.get("items", {}), defs)
        return f"list of {_holds(items, defs)}" if "type" in items or "enum" in items else "list"
    return {"object": "mapping", "string": "text", "boolean": "true or false"}.get(kind, kind)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    schemas = read()
    bare = [f"{name}: {path}" for name, schema in schemas.items() for path in undescribed(schema)]
    if parser.parse_args().check:
        stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page(schemas)
        print(*[f"{each} has no description in its schema" for each in bare], sep="\n", end="\n" if bare else "")
        print(
            "workflow/fields.md is out of date: python tools/fields.py" if stale else "workflow/fields.md is up to date"
        )
        return int(stale or bool(bare))
    PAGE.write_text(page(schemas), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

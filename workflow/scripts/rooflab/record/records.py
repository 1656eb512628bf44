"""Records on disk: JSON with a schema, sealed by the hash of its own content. Knows no theory and no device."""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from rooflab.record import names
from rooflab.record.types import Json

SCHEMAS = Path(__file__).resolve().parents[3] / "schemas"
SAFE_LOADER = getattr(
    yaml, "CSafeLoader", yaml.SafeLoader
)  # libyaml's, ten times as fast, where PyYAML was built with it

# Format history of the measurement record. 1: first format.
MEASUREMENT_VERSION = 1
# from version n to version n + 1; an older record is read through these, never measured again
UPGRADES: dict[int, Callable[[Json], Json]] = {}


# what a spec of a stage says of the model it was measured for, beside what decides the number
SERVED = ("operator", "stored", "contexts")
LABELS = {"attention": SERVED, "step": SERVED, "decode": ("geometry.context",)}

# what every reader asks of a record before its schema is held against it
SPEAKING = ("stage", "side", "name", "key", "attempt", "spec", "status", "device", "started_at")


class RecordError(ValueError):
    """A record that must not be trusted: names the file, what is wrong, and the command that repairs it."""


def canonical(value: Any) -> Any:
    """The value with integral floats as integers, recursively: 4096.0 and 4096 are one number in a key."""
    if isinstance(value, dict):
        return {str(k): canonical(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [v if type(v) is float and v % 1 else canonical(v) for v in value]  # a thousand samples: no call each
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def canonical_json(value: Any) -> str:
    """One text per value, whatever the order of its keys. Raises ValueError on NaN and infinity."""
    return json.dumps(canonical(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def key_of(spec: Json) -> str:
    """What a file's name says of a spec: the digest of all in it that decides the number. Of a served model's parts the
    name, how it is stored and which contexts ask for them do not, nor does how long a context the MiniGPT could have."""
    for label in LABELS.get(str(spec.get("stage")), ()):
        spec = _without(spec, label.split("."))
    return digest(spec)[:8]


def _without(spec: Json, path: list[str]) -> Json:
    first, *rest = path
    if rest and isinstance(spec.get(first), dict):
        return spec | {first: _without(spec[first], rest)}
    return {name: value for name, value in spec.items() if rest or name != first}


def seal(record: Json) -> Json:
    """The record with the hash of everything else in it under `sha256`."""
    body = {k: v for k, v in record.items() if k != "sha256"}
    return body | {"sha256": digest(body)}


@cache
def validator(name: str) -> Draft202012Validator:
    """The validator of `workflow/schemas/<name>.schema.yaml`."""
    schema = yaml.load((SCHEMAS / f"{name}.schema.yaml").read_text(), Loader=SAFE_LOADER)
    return extend(Draft202012Validator, {"items": _items})(schema)


def _items(checker: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The standard keyword, with a short way for plain numbers: a record holds thousands of samples."""
    plain = isinstance(instance, list) and items == {"type": "number", "minimum": 0}
    if not plain or not all(type(each) is float and each >= 0 for each in instance):
        yield from Draft202012Validator.VALIDATORS["items"](checker, items, instance, schema)


def check_schema(name: str, value: Any, where: str) -> None:
    """Raises RecordError with the first thing in `value` that the schema does not allow."""
    errors = sorted(validator(name).iter_errors(value), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        spot = "/".join(map(str, errors[0].absolute_path)) or "the top level"
        raise RecordError(f"{where}: {spot}: {errors[0].message}")


def distrust(path: Path, why: str) -> RecordError:
    """The error of a record that only measuring again can repair."""
    return RecordError(
        f"{path}: {why}. To measure it again, on its machine: rm {shlex.quote(str(path))} && snakemake --cores 1"
    )


def read_record(path: Path) -> Json:
    """A trusted measurement record, upgraded to the current format.

    Raises RecordError if it is not JSON, its hash does not match its content, its format is newer than this
    program's, its schema does not hold, or its name and its content disagree.
    """
    record = read_sealed(path)
    try:
        check_schema("measurement", record, str(path))
    except RecordError as error:
        raise distrust(path, str(error).removeprefix(f"{path}: ")) from error
    return record


def read_sealed(path: Path) -> Json:
    """As `read_record`, without the schema: what carries the right hash was held against it before it was written."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise distrust(path, "not JSON (truncated or empty?)") from error
    if not isinstance(raw, dict) or raw.get("schema") != "measurement":
        raise distrust(path, "not a measurement record")
    if not _sealed(raw):
        raise distrust(path, "edited or damaged: its content does not match the hash it carries")
    record = _upgraded(path, raw)
    absent = [name for name in SPEAKING if name not in record]
    if absent:
        raise distrust(path, f"not a whole measurement record: {', '.join(absent)} missing")
    _check_name(path, record)
    return record


def _upgraded(path: Path, raw: Json) -> Json:
    version = raw.get("schema_version")
    if isinstance(version, int) and version > MEASUREMENT_VERSION:
        raise RecordError(
            f"{path}: format {version}, newer than this program reads ({MEASUREMENT_VERSION}). Update the checkout: git pull"
        )
    while version != MEASUREMENT_VERSION:
        if version not in UPGRADES:
            raise distrust(path, f"format {version!r} is none that this program knows")
        raw = UPGRADES[version](raw)
        version = raw["schema_version"]
    return raw


def _sealed(raw: Json) -> bool:
    try:
        return seal(raw)["sha256"] == raw.get("sha256")
    except ValueError:  # NaN, which no record holds
        return False


def _check_name(path: Path, record: Json) -> None:
    if record["key"] not in (key_of(record["spec"]), digest(record["spec"])[:8]):  # the labels once were in the key
        raise distrust(path, "its key is not the digest of its parameters")
    expected = names.file_name(record["name"], record["key"], record["attempt"])
    if path.name != expected:
        under = f"the measurement {expected} (protocol {record['spec'].get('protocol')})"
        raise distrust(path, f"holds {under}, not the one its name says")

"""The config, checked: an unknown key, a wrong type or an impossible value stops before any job, with one line."""

import math
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jsonschema import ValidationError

from rooflab.plan import models
from rooflab.plan.cpu_roofline import read_cpu_roofline
from rooflab.record.names import SIDES
from rooflab.record.records import canonical, validator


class ConfigError(ValueError):
    """One line that names the key, what was seen and what is allowed."""


def checked(config: dict[str, Any]) -> dict[str, Any]:
    """The config with integral floats as integers. Raises ConfigError."""
    clean: dict[str, Any] = {key: _from_command_line(key, value) for key, value in canonical(config).items()}
    for where, value in _not_finite(clean, ""):
        raise ConfigError(f"config: {where}: {value} is not allowed; expected a number")
    error = min(_errors(clean), key=lambda e: len(e.absolute_path), default=None)
    if error is not None:
        raise ConfigError(_one_line(error))
    if clean["effort"] == "thorough":
        return checked({**_merged(clean, clean["thorough"]), "effort": "default"}) | {"effort": "thorough"}
    _check_sense(clean)
    return clean


def _not_finite(value: Any, where: str) -> Iterator[tuple[str, float]]:
    """NaN and infinities, which pass every comparison of a schema and are no JSON."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in items:
        yield from _not_finite(each, _join(where, str(key)))
    if isinstance(value, float) and not math.isfinite(value):
        yield where, value


def _from_command_line(key: str, value: Any) -> Any:
    """`true`, `false` and `null` given by --config arrive as text; where they can be meant they are taken for what they say."""
    schema: Any = validator("config").schema
    kinds = _kinds(schema["properties"].get(key, {}))
    if value in ("true", "false") and "boolean" in kinds:
        return value == "true"
    return None if value == "null" and "null" in kinds else value


def _kinds(rule: dict[str, Any]) -> set[str]:
    """The types that a key of the config may have."""
    found = rule.get("type", [])
    return (
        {found}
        if isinstance(found, str)
        else {*found, *(kind for each in rule.get("anyOf", ()) for kind in _kinds(each))}
    )


def _merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `changes`, mapping by mapping."""
    both = {key: _merged(base[key], value) for key, value in changes.items() if isinstance(base.get(key), dict)}
    return base | changes | both


def _errors(config: dict[str, Any]) -> Iterator[ValidationError]:
    yield from validator("config").iter_errors(config)


def _one_line(error: Any) -> str:
    where = ".".join(map(str, error.absolute_path))
    properties = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
    if error.validator == "additionalProperties":
        unknown = sorted(set(error.instance) - set(properties))[0]
        near = get_close_matches(unknown, list(properties), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(properties)}"
        return f"config: unknown key {_join(where, unknown)!r}; {hint}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        return f"config: the key {_join(where, missing)!r} is missing; take it from the shipped config.yaml"
    seen = repr(error.instance)
    number = (
        " (in quotes, or inside a mapping of --config, a number is a text: write it in config.yaml, without quotes)"
    )
    text = isinstance(error.instance, str) and error.validator == "type"
    return f"config: {where}: {seen} is not allowed; expected {_allowed(error)}" + (number if text else "")


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _allowed(error: Any) -> str:
    value = error.validator_value
    match error.validator:
        case "type":
            return " or ".join(value) if isinstance(value, list) else str(value)
        case "enum":
            return "one of " + ", ".join(map(str, value))
        case "minimum":
            return f"at least {value}"
        case "exclusiveMinimum":
            return f"more than {value}"
        case "maximum":
            return f"at most {value}"
        case "minItems":
            return "at least one entry"
        case "uniqueItems":
            return "each entry once"
        case "pattern":
            return str(error.schema.get("title", f"text like {value}"))
        case "anyOf":
            return str(error.schema.get("title", "a number, null, or a mapping from session to number"))
    return error.message


def _check_roofline_file(name: str | None) -> None:
    try:
        if name is not None:
            read_cpu_roofline(Path(name))
    except ValueError as error:
        raise ConfigError(f"config: cpu.roofline_file: {error}") from error


def _check_sense(config: dict[str, Any]) -> None:
    """What a schema cannot say."""
    for place, check in (("operators", models.require_measurable), ("predict", models.resolved)):
        try:
            check(config.get(place, []))
        except models.GeometryError as error:
            raise ConfigError(f"config: {place}: {error}") from error
    if config["gpus"] is not None and (config["session"] is not None or config["device"] == "cpu"):
        raise ConfigError(
            "config: gpus: each card's session is named after its GPU: set session to null and device to auto or a GPU"
        )
    if config["nodes"] is not None and (config["session"] or config["gpus"] or config["device"] == "auto"):
        raise ConfigError(
            "config: nodes: names the sessions and where each is measured: set device to the model of GPU that the nodes have "
            "(or cpu), session and gpus to null"
        )
    if config["session"] is not None and (
        config["session"] in ("untrusted", *SIDES) or config["session"].startswith("compare.")
    ):
        raise ConfigError(
            f"config: session: {config['session']!r} is the name of a file or folder of the project's: take another"
        )
    if config["budget_usd"] is not None and config["price_usd_per_hour"] is None:
        raise ConfigError("config: budget_usd is given without price_usd_per_hour: give what an hour costs")
    _check_roofline_file(config["cpu"]["roofline_file"])
    if config["parallel_gpus"] and config["gpus"] is None:
        raise ConfigError("config: parallel_gpus is true without gpus: say which, for example gpus: all")
    model = config["minigpt"]
    if model["heads"] % model["kv_heads"]:
        raise ConfigError(f"config: minigpt.kv_heads: {model['kv_heads']} does not divide heads ({model['heads']})")
    for side, decode in (("", config["decode"]), ("cpu.", config["cpu"]["decode"])):
        longest = max(decode["sequence_lengths"])
        if longest > model["context"]:
            raise ConfigError(
                f"config: {side}decode.sequence_lengths: {longest} is longer than minigpt.context ({model['context']})"
            )
    if model["weights"] is not None and model["weights_sha256"] is None:
        raise ConfigError(
            "config: minigpt.weights is given without minigpt.weights_sha256; paste the line that this prints: "
            f"sha256sum {model['weights']} | awk '{{print \"  weights_sha256: \" $1}}'"
        )
    if model["weights"] is None and model["weights_sha256"] is not None:
        raise ConfigError("config: minigpt.weights_sha256 is given without minigpt.weights; give the file or remove it")

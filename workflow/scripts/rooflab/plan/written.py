"""The config as it is written: what YAML would read as something else than its writer meant stops with one line.

Snakemake reads YAML 1.1, in which `0123` is 83, `3:59` is 239, `1e-3` is a text, and of two equal keys the last one counts.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from rooflab.plan.config import ConfigError

OCTAL = re.compile(r"[-+]?0[0-9_]+")
SEXAGESIMAL = re.compile(r"[-+]?[0-9_]+(:[0-5]?[0-9])+(\.[0-9_]*)?")
NUMBER = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?|0o[0-7]+|0b[01]+")


def check(path: Path) -> None:
    """Raises ConfigError for a file that is no UTF-8, no YAML, or not what it seems."""
    try:
        tree = yaml.compose(_text(path), Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        hint = "; indent with blanks, not with tabs" if "\\t" in str(error.problem) else ""
        raise ConfigError(f"{path.name}: not YAML{place}: {error.problem}{hint}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path.name}: not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(tree, yaml.MappingNode):
        raise ConfigError(f"{path.name}: holds no keys; take the shipped config.yaml: git checkout {path.name}")
    for line, told in _surprises(tree, "", ()):
        raise ConfigError(f"{path.name}, line {line}: {told}")


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path.name}: cannot be read ({error.strerror}): run in the folder of the Snakefile"
        ) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        wide = "UTF-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "another encoding"
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path.name}: {wide} in line {line}, expected UTF-8: save it as UTF-8") from error


def _surprises(node: yaml.Node, where: str, above: tuple[yaml.Node, ...]) -> Iterator[tuple[int, str]]:
    """The line of each such place, and what is wrong there."""
    if any(node is each for each in above):
        yield _line(node), f"{where}: refers to itself"
        return
    if isinstance(node, yaml.ScalarNode):
        if (told := _scalar(node)) is not None:
            yield _line(node), f"{where}: {told}"
    elif isinstance(node, yaml.SequenceNode):
        for index, each in enumerate(node.value):
            yield from _surprises(each, f"{where}.{index}", (*above, node))
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = f"{where}.{key.value}" if where else str(key.value)
            if str(key.value) in seen:
                yield _line(key), f"the key {name!r} stands here a second time: keep one of them"
            seen.add(str(key.value))
            yield from _surprises(value, name, (*above, node))


def _scalar(node: yaml.ScalarNode) -> str | None:
    """What YAML makes of a value without quotes, where that is not what it looks like."""
    text, kind = str(node.value), node.tag.rpartition(":")[2]
    if node.style is not None:
        return None
    if kind == "int" and OCTAL.fullmatch(text):
        return f"{text} is the octal {yaml.safe_load(text)} in YAML: write {int(text.replace('_', ''))}"
    if kind in ("int", "float") and SEXAGESIMAL.fullmatch(text):
        return f"{text} is {yaml.safe_load(text)} in YAML, in base 60: write the number itself"
    if kind == "str" and NUMBER.fullmatch(text):
        return f"{text} is a text in YAML: write {_as_meant(text)}, or '{text}' where a text is meant"
    if kind == "timestamp":
        return f"{text} is a date in YAML: write '{text}' where a text is meant"
    return None


def _as_meant(text: str) -> str:
    plain = text.replace("_", "")
    return str(int(plain, 0)) if plain[:2] in ("0o", "0b") else repr(float(plain))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1

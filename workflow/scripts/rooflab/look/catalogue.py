"""The texts of picture, report and prose in each language; a placeholder names its unit, so no number goes without.

A text stands in `data/texts_*.yaml` under its key, once for each language: `{median:seconds}` writes 1.2e-5 as 12 µs,
and a pair of numbers as a range. A plain `{name}` puts a word or a count as it is.
"""

import re
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import yaml

from rooflab.look import words

LANGUAGES = ("en", "es")
DATA = Path(__file__).parents[1] / "data"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, ten times as fast, where PyYAML was built with it
UNITS = {
    "flop": words.flop,
    "flop_per_s": words.flop_per_s,
    "bytes_per_s": words.bytes_per_s,
    "bytes": words.nbytes,
    "seconds": words.seconds,
    "hertz": words.hertz,
    "watts": words.watts,
    "percent": words.percent,
    "times": words.times,
    "intensity": words.intensity,
    "significant": words.significant,
}
DECIMAL_POINT = re.compile(r"(?<=\d)\.(?=\d)")
Number = int | float | tuple[float, float]


def text(key: str, language: str, **values: Any) -> str:
    """The text under `key` with its placeholders filled. Raises KeyError for a key or value that is not there."""
    return filled(texts()[key][checked(language)], language, **values)


def filled(template: str, language: str, **values: Any) -> str:
    """A text with its placeholders filled, each number with the unit that its placeholder names. Raises KeyError."""
    return _Filling(language).format(template, **values)


def number(value: Number, unit: str, language: str) -> str:
    """A number in SI base units as people read it, with its unit (a key of UNITS); a pair as a range."""
    ends = value if isinstance(value, tuple) else (value, value)
    written = words.span(*(UNITS[unit](end) for end in ends))
    return DECIMAL_POINT.sub(",", written) if language == "es" else written


def listed(items: list[str], language: str) -> str:
    """'a', 'a and b', 'a, b and c'; in Spanish with y, and with e before the sound of an i."""
    joined = " and " if language == "en" else " e " if re.match(r"h?i(?![ae])", items[-1].lower()) else " y "
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])}{joined}{items[-1]}"


def translated(sentence: str, language: str) -> str:
    """A sentence of the model or of a record, which are English; parts between semicolons one by one.

    What no text of `data/texts_model.yaml` fits is quoted as it stands.
    """
    if language == "en":
        return sentence
    known = [_known(part, language) or f"«{part}»" for part in sentence.split("; ")]
    return _known(sentence, language) or "; ".join(known)


def _known(sentence: str, language: str) -> str | None:
    for pattern, key in _patterns():
        if found := pattern.fullmatch(sentence):
            return text(key, language, **found.groupdict())
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The model's sentences as patterns: their English text, with a group for each placeholder."""
    made = []
    for key, languages in texts().items():
        if key.startswith("model."):
            parts = Formatter().parse(languages["en"])
            pattern = "".join(re.escape(before) + (f"(?P<{name}>.+?)" if name else "") for before, name, *_ in parts)
            made.append((re.compile(pattern), key))
    return made


def checked(language: str) -> str:
    """The language, if there are texts in it. Raises ValueError."""
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}, expected one of {', '.join(LANGUAGES)}: correct `language`")
    return language


@cache
def texts() -> dict[str, dict[str, str]]:
    """Every text by its key: {"en": …, "es": …}."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(DATA.glob("texts_*.yaml")):
        found |= yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    return found


class _Filling(Formatter):
    """Python's format language, where the format of a number is the name of its unit."""

    def __init__(self, language: str) -> None:
        self.language = language

    def format_field(self, value: Any, format_spec: str) -> str:
        return number(value, format_spec, self.language) if format_spec else str(value)

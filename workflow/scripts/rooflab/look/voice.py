"""One language, bound once: texts with their numbers, lists, and what the derivation says in codes.

`{median:seconds}` in a text writes 1.2e-5 as 12 µs, and a pair of numbers as a range: a placeholder names its unit, so
that no number goes without. A plain `{name}` puts a word or a count as it is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from string import Formatter
from typing import Any

from rooflab.look import words
from rooflab.look.catalogue import LANGUAGES, texts

UNITS: dict[str, Callable[[float], str]] = {
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
    "exact": words.exact,
    "exact_percent": words.exact_percent,
    "exact_times": lambda value: f"{words.exact(value)}×",
    "tick_flop_per_s": words.tick_flop_per_s,
    "tick_seconds": words.tick_seconds,
    "host_seconds": partial(words.seconds, digits=words.HOST_DIGITS),
    "host_flop_per_s": partial(words.flop_per_s, digits=words.HOST_DIGITS),
    "host_percent": partial(words.percent, digits=words.HOST_DIGITS),
    "host_times": partial(words.times, digits=words.HOST_DIGITS),
}
DECIMAL_POINT = re.compile(r"(?<=\d)\.(?=\d)")
SOUNDS_LIKE_I = re.compile(r"h?i(?![ae])")
Number = int | float | tuple[float, float]
Said = str | Mapping[str, Any] | list[Any] | None


@dataclass(frozen=True)
class Voice:
    """The texts in one of LANGUAGES. Raises ValueError for any other."""

    language: str

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            expected = ", ".join(LANGUAGES)
            raise ValueError(f"language is {self.language!r}, expected one of {expected}: correct `language`")

    def say(self, key: str, **values: Any) -> str:
        """The text under `key` with its placeholders filled. Raises KeyError for a key or a value that is not there."""
        return self.filled(texts()[key][self.language], **values)

    def filled(self, template: str, **values: Any) -> str:
        """A text with its placeholders filled, each number with the unit that its placeholder names. Raises KeyError."""
        return _Filling(self).format(template, **values)

    def number(self, value: Number, unit: str) -> str:
        """A number in SI base units as people read it, with its unit (a key of UNITS); a pair as a range."""
        ends = value if isinstance(value, tuple) else (value, value)
        return self.localized(words.span(*(UNITS[unit](end) for end in ends)))

    def alike(self, one: float, other: float, unit: str) -> bool:
        """Whether two numbers read the same."""
        return UNITS[unit](one) == UNITS[unit](other)

    def localized(self, written: str) -> str:
        """A written number with the decimal sign of the language."""
        return DECIMAL_POINT.sub(",", written) if self.language == "es" else written

    def listed(self, items: list[str]) -> str:
        """'a', 'a and b', 'a, b and c'; in Spanish with y, and with e before the sound of an i."""
        if len(items) == 1:
            return items[0]
        spanish = " e " if SOUNDS_LIKE_I.match(items[-1].lower()) else " y "
        return f"{', '.join(items[:-1])}{' and ' if self.language == 'en' else spanish}{items[-1]}"

    def reason(self, said: Said) -> str:
        """What the derivation says, {"code", "values"}, or several such; a machine's own words are quoted."""
        if isinstance(said, str):
            return self._quoted(said)
        if isinstance(said, Mapping):
            return self.say(f"said.{said['code']}", **said["values"])
        return "; ".join(self.reason(each) for each in said or [])

    def _quoted(self, sentence: str) -> str:
        """An English sentence of a record; where this language has no text that fits, as it stands, in quotes."""
        if self.language == "en":
            return sentence
        known = [self._known(part) or f"«{part}»" for part in sentence.split("; ")]
        return self._known(sentence) or "; ".join(known)

    def _known(self, sentence: str) -> str | None:
        for pattern, key in _patterns():
            if found := pattern.fullmatch(sentence):
                return self.say(key, **found.groupdict())
        return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    """The sentences of the records as patterns: their English text, with a group for each placeholder."""
    made = []
    for key, languages in texts().items():
        if key.startswith("model."):
            parts = Formatter().parse(languages["en"])
            pattern = "".join(re.escape(before) + (f"(?P<{name}>.+?)" if name else "") for before, name, *_ in parts)
            made.append((re.compile(pattern), key))
    return made


class _Filling(Formatter):
    """Python's format language, where the format of a number is the name of its unit."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            return self.voice.number(value, format_spec)
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

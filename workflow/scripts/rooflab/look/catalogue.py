"""The texts of picture, report and prose in each language, as they stand in `data/texts_*.yaml`, one entry for each key."""

from functools import cache
from pathlib import Path

import yaml

LANGUAGES = ("en", "es")
DATA = Path(__file__).parents[1] / "data"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, ten times as fast, where PyYAML was built with it


@cache
def texts() -> dict[str, dict[str, str]]:
    """Every text by its key: {"en": …, "es": …}."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(DATA.glob("texts_*.yaml")):
        found |= yaml.load(path.read_text(encoding="utf-8"), Loader=LOADER)
    return found

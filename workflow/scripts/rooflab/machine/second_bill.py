"""A spot instance may have woken up on another model in the middle of a session: that must not open a second bill silently."""

import json
from pathlib import Path


def strangers(models: set[str], results: Path) -> list[str]:
    """The unfinished sessions in results/ of another GPU than these models, which are session names: `nvidia-h200`.

    A session is its model's if it is called so, or so with the beginning of a card's UUID behind.
    """
    folders = sorted(results.iterdir()) if results.is_dir() else []
    return [
        each.name
        for each in folders
        if (each / "gpu").is_dir()
        and not any(each.name == model or each.name.startswith(f"{model}-") for model in models)
        and _unfinished(each)
    ]


def _unfinished(session_dir: Path) -> bool:
    """Whether a session has no manifest, or one that was written while measurements were missing."""
    try:
        manifest = json.loads((session_dir / "manifest.json").read_text(encoding="utf-8"))
        return any(hole["status"] == "missing" for hole in manifest["holes"])
    except (OSError, ValueError, KeyError, TypeError):
        return True

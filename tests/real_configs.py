"""The table of public configs with published sizes: `data/real_configs_*.yaml`, read for the tests."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Published:
    """One public config and what is known of its model: see the head of `real_configs_dense.yaml`."""

    family: str
    name: str
    config: dict[str, Any]
    parameters: float | None
    active: float | None
    weight_bytes: float | None
    kv_bytes_per_token: int | None
    refused: str | None
    counted: str | None


def published() -> list[Published]:
    """Every entry, with the common fields of its family laid under its own."""
    files = sorted(FOLDER.glob("real_configs_*.yaml"))
    return [
        _entry(family, rows["common"], row)
        for file in files
        for family, rows in yaml.safe_load(file.read_text(encoding="utf-8")).items()
        for row in rows["models"]
    ]


def _entry(family: str, common: dict[str, Any], row: dict[str, Any]) -> Published:
    kept = {name: value for name, value in common.items() if name not in row.get("without", ())}
    factors = row["kv"].split("*") if "kv" in row else None
    return Published(
        family,
        row["name"],
        {**kept, **row["config"]},
        row.get("parameters"),
        row.get("active"),
        row.get("weight_bytes"),
        math.prod(map(int, factors)) if factors else None,
        row.get("refused"),
        row.get("counted"),
    )

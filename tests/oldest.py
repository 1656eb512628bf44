"""The oldest Snakemake that pyproject.toml allows, in a folder of its own, beside the one that is installed."""

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def oldest_version() -> str:
    """`snakemake>=9.11,<10` in pyproject.toml means 9.11.0."""
    [floor] = re.findall(r'"snakemake>=(\d+\.\d+),', (ROOT / "pyproject.toml").read_text())
    return f"{floor}.0"


@cache
def oldest_snakemake() -> dict[str, str]:
    """The variables under which `python -m snakemake` is the oldest one. Skips without a network, and fails in CI."""
    folder = Path(tempfile.mkdtemp(prefix="oldest-snakemake-"))
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--target",
        str(folder),
    ]
    done = subprocess.run([*install, f"snakemake=={oldest_version()}"], capture_output=True, text=True)
    if done.returncode != 0:
        told = f"snakemake {oldest_version()} cannot be installed: {done.stderr.strip()[-300:]}"
        pytest.fail(told) if os.environ.get("CI") else pytest.skip(told)
    return {"PYTHONPATH": str(folder)}

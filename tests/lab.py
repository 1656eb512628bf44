"""A small CPU session of the real workflow, in a temporary checkout, for every test that runs Snakemake."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "config.yaml", "profiles", "workflow")
LIMIT_S = 300
SMALL: dict[str, dict[str, Any]] = {
    "gemm": {
        "sizes": [64],
        "iterations": 2,
        "burst_blocks": 3,
        "burst_block_s": 0.001,
        "burst_gap_s": 0.0,
        "sustained_s": 0.01,
    },
    "decode": {"iterations": 20, "warmups": 1, "sequence_lengths": [16, 32, 48, 64]},
    "bandwidth": {"buffer_bytes": 4194304, "samples": 3},
    "launch_floor": {"iterations": 20},
}


def environment(folder: Path) -> dict[str, str]:
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    known = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return known | {
        "PATH": path,
        "XDG_CACHE_HOME": str(folder / ".cache"),
        "TMPDIR": str(folder),
        "ROOFLAB_LOCKS": str(folder),
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]


def snakemake(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=folder,
        env=environment(folder) | variables,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def run(folder: Path, *arguments: str, **variables: str) -> str:
    done = snakemake(folder, *arguments, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def refused(folder: Path, *arguments: str) -> str:
    """What a command says that must not succeed, and must not show a traceback."""
    done = snakemake(folder, *arguments)
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in told, told
    return told


def copy_code(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = ROOT / part
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / part, ignore=ignore) if source.is_dir() else shutil.copy(source, folder / part)
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["device"] = "cpu"
    config["plot"]["dpi"] = 60
    for stage, values in SMALL.items():
        config["cpu"][stage] |= values
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    change(config)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def pending(folder: Path, *arguments: str, **variables: str) -> set[str]:
    """The paid files that a dry-run would measure, under results/."""
    told = run(folder, "-n", "--quiet", "host", *arguments, **variables)
    outputs = re.findall(r"^    output: (.*)$", told, re.MULTILINE)
    return {path.removeprefix("results/") for line in outputs for path in line.split(", ") if _is_paid(path)}


def _is_paid(path: str) -> bool:
    return len(Path(path).parts) > 3 and Path(path).parts[2] in ("gpu", "cpu")


def session_of(folder: Path) -> Path:
    """The CPU session of this machine."""
    [found] = (each for each in (folder / "results").iterdir() if each.name.startswith("cpu-"))
    return found


def paid_files(folder: Path) -> dict[str, bytes]:
    """Every measurement record under results/, with its content."""
    results = folder / "results"
    found = (path for side in ("gpu", "cpu") for path in results.glob(f"*/{side}/**/*.json"))
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(found)}


def leftovers(folder: Path) -> list[str]:
    """Temporary files that no finished run may leave in the checkout's results and logs."""
    places = [path for place in ("results", "logs") for path in (folder / place).rglob("*")]
    return [str(path) for path in places if ".part" in path.name or path.name.startswith("tmp")]


def one_file(folder: Path, pattern: str) -> Path:
    """The one record of the CPU session that matches."""
    [found] = (session_of(folder) / "cpu").rglob(pattern)
    return found


def started(folder: Path) -> list[str]:
    """The record of every measurement begun in the CPU session, in order, as its ledger tells: one name per start."""
    book = session_of(folder) / "ledger.jsonl"
    events = [json.loads(line) for line in book.read_text().splitlines()] if book.exists() else []
    return [event["job"].partition("@")[0] for event in events if event["event"] == "start"]


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Snakemake in the background, in a process group of its own, as a terminal would start it."""
    with open(folder / "told.txt", "ab") as told:
        return subprocess.Popen(
            command(*arguments), cwd=folder, env=environment(folder), start_new_session=True, stdout=told, stderr=told
        )


def wait_until(something: Callable[[], Any], limit_s: float = 120.0) -> Any:
    """What `something` returns once it is true."""
    give_up = time.monotonic() + limit_s
    while not (found := something()):
        assert time.monotonic() < give_up, f"waited {limit_s} s in vain"
        time.sleep(0.01)
    return found


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def clone(folder: Path, to: Path) -> Path:
    """A git clone of the checkout with its results: all times new, no `.snakemake/`."""
    git(folder, "init", "-q")
    git(folder, "add", "-A", "-f", "results", *PARTS)
    git(folder, "commit", "-qm", "x")
    git(folder, "clone", "-q", str(folder), str(to))
    return to


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder as a read-only mount; for a user other than root, without write permission."""
    if os.getuid() != 0:
        places = [folder, *(each for each in folder.rglob("*") if each.is_dir())]
        for each in places:
            each.chmod(0o555)
        try:
            yield
        finally:
            for each in places:
                each.chmod(0o755)
        return
    for options in (["--bind", str(folder), str(folder)], ["-o", "remount,ro,bind", str(folder)]):
        mounted = subprocess.run(["mount", *options], capture_output=True, text=True)
        if mounted.returncode != 0:
            pytest.skip(f"root may write everywhere, and this machine allows no mount: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished small CPU session. Not to be written to: `lab` is a copy of it."""
    folder = copy_code(tmp_path_factory.mktemp("session") / "lab")
    first = run(folder)
    assert "decode" in first and "Traceback" not in first
    return folder


@pytest.fixture
def lab(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "lab", symlinks=True)
    return tmp_path / "lab"

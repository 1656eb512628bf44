"""The cache holds: a finished session owes nothing, however it travelled and whatever else was changed around it."""

import os
import random
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from lab import ROOT, clone, edit, leftovers, one_file, paid_files, pending, read_only, run, session_of
from oldest import oldest_snakemake, oldest_version

HOUR_S = 3600
SESSIONS = sorted(path.parent.name for path in (ROOT / "results").glob("*/gpu"))
Move = Callable[[Path, Path], Path | None]  # the checkout, a free place; where the checkout is now if it moved


def everything(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def scramble(folder: Path) -> None:
    """Every file's time in no order, as after `git clone` or `rsync` without times."""
    files = everything(folder)
    random.Random(1).shuffle(files)
    for age, path in enumerate(files):
        os.utime(path, (time.time() - age, time.time() - age))


def git_clone(lab: Path, to: Path) -> Path:
    clone(lab, to)
    scramble(to)
    return to


def cp_r(lab: Path, to: Path) -> Path:
    subprocess.run(["cp", "-r", str(lab), str(to)], check=True)
    return to


def rsync_without_times(lab: Path, to: Path) -> Path:
    shutil.copytree(lab, to, symlinks=True)
    scramble(to)
    return to


def zip_and_unzip(lab: Path, to: Path) -> Path:
    """Times come back in steps of two seconds, as everything zip keeps."""
    with zipfile.ZipFile(to.with_suffix(".zip"), "w") as archive:
        for path in everything(lab):
            archive.write(path, path.relative_to(lab))
    with zipfile.ZipFile(to.with_suffix(".zip")) as archive:
        for entry in archive.infolist():
            target = Path(archive.extract(entry, to))
            then = time.mktime((*entry.date_time, 0, 0, -1))
            os.utime(target, (then, then))
    return to


def moved(lab: Path, to: Path) -> Path:
    return lab.rename(to)


def memory_deleted(lab: Path, to: Path) -> None:
    shutil.rmtree(lab / ".snakemake")


def memory_corrupted(lab: Path, to: Path) -> None:
    for path in everything(lab / ".snakemake"):
        path.write_bytes(random.Random(path.name).randbytes(200))


def memory_from_elsewhere(lab: Path, to: Path) -> None:
    """What Snakemake would remember of the same files after other parameters, code and inputs."""
    remembered = everything(lab / ".snakemake" / "metadata")
    assert remembered
    for path in remembered:
        name = path.read_text()
        path.write_text(re.sub(r'"params": \[[^\]]*\]', '"params": ["elsewhere"]', name))


def sources_touched(lab: Path, to: Path) -> None:
    for path in [lab / "Snakefile", lab / "config.yaml", *everything(lab / "workflow"), *everything(lab / "profiles")]:
        os.utime(path)


def comment_everywhere(lab: Path, to: Path) -> None:
    for path in [*lab.rglob("*.py"), *lab.rglob("*.smk"), lab / "Snakefile"]:
        path.write_text(path.read_text() + "\n# a comment\n")


def imported_module_edited(lab: Path, to: Path) -> None:
    path = lab / "workflow" / "scripts" / "rooflab" / "measure" / "bench.py"
    path.write_text(path.read_text() + "\n\ndef added() -> int:\n    return 1\n")


def unrelated_value(lab: Path, to: Path) -> None:
    edit(lab, lambda c: c.update(terminated_usd=50, allow_shared_gpu=True))


def keys_reordered(lab: Path, to: Path) -> None:
    def backwards(value: object) -> object:
        return {k: backwards(value[k]) for k in reversed(value)} if isinstance(value, dict) else value

    config = yaml.safe_load((lab / "config.yaml").read_text())
    (lab / "config.yaml").write_text(yaml.safe_dump(backwards(config), sort_keys=False))


def integers_as_floats(lab: Path, to: Path) -> None:
    path = lab / "config.yaml"
    text = re.sub(r"^( *(?:- )?(?:[a-z_]+: )?)(\d+)$", r"\1\2.0", path.read_text(), flags=re.MULTILINE)
    assert "4096.0" in text
    path.write_text(text)


def price(lab: Path, to: Path) -> None:
    edit(lab, lambda c: c.update(price_usd_per_hour={"nvidia-h200": 3.99}))


def plot_options(lab: Path, to: Path) -> None:
    edit(lab, lambda c: c["plot"].update(title="another", dpi=72))


def clock_an_hour_behind(lab: Path, to: Path) -> None:
    """Results, sources and memory from a machine whose clock is an hour ahead of this one's."""
    for path in everything(lab):
        os.utime(path, (path.stat().st_atime + HOUR_S, path.stat().st_mtime + HOUR_S))


def clock_an_hour_ahead(lab: Path, to: Path) -> None:
    for path in everything(lab / "results"):
        os.utime(path, (path.stat().st_atime - HOUR_S, path.stat().st_mtime - HOUR_S))


MOVES: list[Move] = [
    git_clone, cp_r, rsync_without_times, zip_and_unzip, moved, memory_deleted, memory_corrupted, memory_from_elsewhere,
    sources_touched, comment_everywhere, imported_module_edited, unrelated_value, keys_reordered, integers_as_floats,
    price, plot_options, clock_an_hour_behind, clock_an_hour_ahead,
]  # fmt: skip


@pytest.fixture(scope="module")
def with_gpu_sessions(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished small CPU session and the committed GPU sessions, in one checkout."""
    folder = tmp_path_factory.mktemp("both") / "lab"
    shutil.copytree(finished, folder, symlinks=True)
    for name in SESSIONS:
        shutil.copytree(ROOT / "results" / name, folder / "results" / name)
    return folder


@pytest.fixture
def both(with_gpu_sessions: Path, tmp_path: Path) -> Path:
    shutil.copytree(with_gpu_sessions, tmp_path / "lab", symlinks=True)
    return tmp_path / "lab"


def owes(folder: Path, *arguments: str, **variables: str) -> set[str]:
    """What is left to measure of the CPU session and, with the shipped CPU settings, of every committed GPU session."""
    found = pending(folder, *arguments, **variables)
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text())["cpu"]
    edit(folder, lambda c: c.update(cpu=shipped))
    for name in SESSIONS:
        found |= pending(folder, *arguments, "--config", f"device={name}", **variables)
    return found


def test_what_the_table_below_counts_is_what_is_missing(both: Path) -> None:
    gone = one_file(both, "minigpt-fp32-S32.*")
    [card] = (both / "results" / "nvidia-h200" / "gpu").glob("device.*.json")
    gone.unlink()
    card.unlink()
    assert owes(both) == {str(path.relative_to(both / "results")) for path in (gone, card)}


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__)
def test_a_finished_session_owes_nothing(both: Path, tmp_path: Path, move: Move) -> None:
    folder = move(both, tmp_path / "elsewhere") or both
    assert owes(folder) == set()


@pytest.mark.parametrize("cores", ["4", "all"])
def test_a_finished_session_owes_nothing_on_more_cores(both: Path, cores: str) -> None:
    assert owes(both, "--cores", cores) == set()


def test_the_oldest_supported_snakemake_finds_the_cache(both: Path) -> None:
    old = oldest_snakemake()
    told = subprocess.run(
        [sys.executable, "-m", "snakemake", "--version"], env=os.environ | old, capture_output=True, text=True
    )
    assert told.stdout.strip() == oldest_version()
    assert owes(both, **old) == set()


def test_the_oldest_supported_snakemake_measures_and_draws(lab: Path) -> None:
    gone = one_file(lab, "minigpt-fp32-S32.*")
    gone.unlink()
    before = paid_files(lab)
    run(lab, **oldest_snakemake())
    assert before.items() <= paid_files(lab).items() and gone.exists()
    assert pending(lab) == set()


def test_records_on_a_read_only_mount_are_drawn(lab: Path) -> None:
    before = paid_files(lab)
    (session_of(lab) / "roofline.json").unlink()
    with read_only(session_of(lab) / "cpu"):
        assert pending(lab) == set()
        run(lab)
        run(lab, "report")
    assert paid_files(lab) == before


@pytest.mark.parametrize("move", [git_clone, memory_corrupted, memory_from_elsewhere, clock_an_hour_behind])
def test_a_real_run_after_it_measures_nothing_and_finishes(lab: Path, tmp_path: Path, move: Move) -> None:
    folder = move(lab, tmp_path / "elsewhere") or lab
    before = paid_files(folder)
    run(folder)
    assert paid_files(folder) == before
    assert leftovers(folder) == []
    assert "Nothing to be done" in run(folder)

"""Any interruption, then the same command again: it finishes, keeps every finished file, and leaves nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from lab import (
    leftovers,
    one_file,
    paid_files,
    pending,
    read_only,
    refused,
    run,
    session_of,
    snakemake,
    start,
    started,
    wait_until,
)
from rooflab.machine import locks

Process = subprocess.Popen[bytes]
Blow = Callable[[Process, Path], object]
PENDING = ("minigpt-fp32-S32.*", "minigpt-fp32-S48.*", "minigpt-fp32-S64.*")


def kill_job(number: int) -> Blow:
    def blow(process: Process, lab: Path) -> None:
        for job in locks.measuring_programs(lab):
            os.kill(job, number)

    return blow


def kill_snakemake(number: int) -> Blow:
    return lambda process, lab: os.kill(process.pid, number)


def kill_group(number: int, times: int = 1) -> Blow:
    def blow(process: Process, lab: Path) -> None:
        for _ in range(times):
            if process.poll() is None:
                os.killpg(process.pid, number)
            time.sleep(0.2)

    return blow


BLOWS: dict[str, Blow] = {
    "ctrl-c": kill_group(signal.SIGINT),
    "ctrl-c twice": kill_group(signal.SIGINT, times=2),
    "interrupt of snakemake alone": kill_snakemake(signal.SIGINT),
    "terminated": kill_snakemake(signal.SIGTERM),
    "all terminated": kill_group(signal.SIGTERM),
    "ssh closed": kill_group(signal.SIGHUP),
    "snakemake hung up": kill_snakemake(signal.SIGHUP),
    "job killed": kill_job(signal.SIGKILL),
    "job terminated": kill_job(signal.SIGTERM),
    "snakemake killed": kill_snakemake(signal.SIGKILL),
    "all killed": kill_group(signal.SIGKILL),
}


@pytest.fixture
def half(lab: Path) -> Path:
    """The finished session with three measurements gone."""
    for pattern in PENDING:
        one_file(lab, pattern).unlink()
    return lab


def struck(lab: Path, blow: Blow, moment: Callable[[], object], *arguments: str) -> dict[str, bytes]:
    """Starts, strikes at the moment, waits for the end; what was finished then."""
    process = start(lab, *arguments)
    wait_until(moment)
    blow(process, lab)
    process.wait(timeout=60)
    return paid_files(lab)


def assert_same_command_finishes(lab: Path, finished: dict[str, bytes], *arguments: str) -> None:
    run(lab, *arguments)
    after = paid_files(lab)
    assert len(after) == 12 and finished.items() <= after.items()
    assert leftovers(lab) == []
    assert pending(lab) == set()


@pytest.mark.parametrize("blow", BLOWS.values(), ids=BLOWS.keys())
def test_interrupted_while_measuring(half: Path, blow: Blow) -> None:
    before = len(started(half))
    second = lambda: len(started(half)) >= before + 2 and locks.measuring_programs(half)  # noqa: E731
    finished = struck(half, blow, second, "measurements")
    assert_same_command_finishes(half, finished, "measurements")
    assert len(started(half)) - before <= len(PENDING) + 1


@contextmanager
def held_writes(lab: Path) -> Iterator[None]:
    """Programs started meanwhile stop between writing a file and publishing it, until the file `go` exists."""
    room = lab / "workflow" / "scripts" / "rooflab" / "record" / "publish.py"
    text = room.read_text()
    hold = "        while not Path('go').exists(): __import__('time').sleep(0.05)\n"
    room.write_text(text.replace("        os.replace(part, path)", f"{hold}        os.replace(part, path)"))
    assert room.read_text() != text
    try:
        yield
    finally:
        room.write_text(text)


def parts(lab: Path) -> list[Path]:
    return list((session_of(lab) / "cpu").rglob("*.part"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "ctrl-c"])
def test_interrupted_in_the_middle_of_a_write(half: Path, number: int) -> None:
    """Ctrl-C then is too late: the result is there, and is published."""
    before = len(started(half))
    with held_writes(half):
        process = start(half, "measurements")
        wait_until(lambda: parts(half))
        kill_group(number)(process, half)
    finished = paid_files(half)
    (half / "go").touch()
    process.wait(timeout=60)
    wait_until(lambda: not locks.measuring_programs(half))
    assert bool(parts(half)) == (number == signal.SIGKILL)
    assert_same_command_finishes(half, finished, "measurements")
    assert len(started(half)) - before == len(PENDING) + (number == signal.SIGKILL)


def test_interrupted_during_the_free_rules(lab: Path) -> None:
    (session_of(lab) / "roofline.json").unlink()
    drawing = lambda: any(b"plot.py" in command for command in commands_in(lab))  # noqa: E731
    finished = struck(lab, kill_group(signal.SIGKILL), drawing)
    (session_of(lab) / "roofline.json.1234567.part").write_text("half")
    assert_same_command_finishes(lab, finished)
    assert (session_of(lab) / "roofline.png").stat().st_size > 0
    assert "Nothing to be done" in run(lab)


def commands_in(lab: Path) -> list[bytes]:
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and os.path.samefile(each / "cwd", lab):
                found.append((each / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def test_an_orphan_is_waited_for_and_adopted(half: Path) -> None:
    before = len(started(half))
    with held_writes(half):
        struck(half, kill_snakemake(signal.SIGKILL), lambda: parts(half), "measurements")
    again = start(half, "measurements")
    wait_until(lambda: "an interrupted run is still going on" in (half / "told.txt").read_text())
    (half / "go").touch()
    assert again.wait(timeout=120) == 0 and leftovers(half) == []
    assert len(started(half)) - before == len(PENDING)


def test_the_dry_run_beside_a_killed_run_s_lock_says_nothing_of_it(half: Path) -> None:
    struck(half, kill_group(signal.SIGKILL), lambda: locks.measuring_programs(half), "measurements")
    assert list((half / ".snakemake" / "locks").iterdir()) != []
    assert "lock" not in run(half, "-n").replace("clock", "")


def test_two_at_once_the_second_says_so_and_leaves(half: Path) -> None:
    before = len(started(half))
    first = start(half, "measurements")
    wait_until(lambda: locks.measuring_programs(half))
    assert "another snakemake is at work in this directory" in refused(half, "measurements")
    assert first.wait(timeout=120) == 0
    assert len(started(half)) - before == len(PENDING) and pending(half) == set()


def test_no_resource_given_on_the_command_line_lets_two_measure_at_once(half: Path) -> None:
    run(half, "measurements", "--cores", "3", "--resources", "paid=3")
    events = [json.loads(line) for line in (session_of(half) / "ledger.jsonl").read_text().splitlines()]
    jobs = [event["event"] for event in events if event["event"] in ("start", "end")]
    assert jobs == ["start", "end"] * (len(jobs) // 2)


def fill(path: Path) -> None:
    """Writes until the disk is full."""
    with open(path, "wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def test_a_full_disk_costs_nothing_that_was_finished(half: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(
            f"this machine allows no mount: {mounted.stderr.strip()}; test_records has the full disk of one write"
        )
    try:
        lab = disk / "lab"
        shutil.copytree(half, lab, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".cache"))
        before = paid_files(lab)
        filler = disk / "filler"
        fill(filler)
        done = snakemake(lab, "measurements")
        assert done.returncode != 0 and "No space left on device" in done.stdout + done.stderr
        assert before.items() <= paid_files(lab).items()
        filler.unlink()
        assert_same_command_finishes(lab, before, "measurements")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("place", ["results", ".snakemake"])
def test_a_folder_that_cannot_be_written_is_named(half: Path, place: str) -> None:
    before = paid_files(half)
    with read_only(half / place):
        told = refused(half, "measurements")
    assert re.search(rf"{re.escape(place)}.*(cannot be written|Read-only|Permission denied)", told), told
    assert_same_command_finishes(half, before, "measurements")

"""What a run tidies up before it plans, and what it leaves alone."""

import base64
import json
import os
import time
from pathlib import Path

import pytest
from rooflab.machine import locks
from rooflab.run import guard


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def remembered(output: str, text: str = "{}") -> Path:
    """A metadata file as Snakemake names it, cut into folders where the name would be too long."""
    name = base64.urlsafe_b64encode(output.encode()).decode()
    *head, tail = [name[i : i + 254] for i in range(0, len(name), 254)]
    path = Path(".snakemake/metadata", *(f"@{part}" for part in head), tail)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_paid_files_and_damaged_memories_are_forgotten_and_free_files_are_not() -> None:
    paid = remembered("results/nvidia-h200/gpu/gemm/fp16-n4096.00000000.json")
    long = remembered(f"results/{'x' * 300}/cpu/device.00000000.json")
    free = remembered("results/nvidia-h200/roofline.json")
    damaged = remembered("results/nvidia-h200/roofline.png", "\x00\x01")
    no_object = remembered("results/nvidia-h200/roofline.svg", json.dumps([1]))
    guard.forget_paid_files(Path("results"))
    assert [each.exists() for each in (paid, long, free, damaged, no_object)] == [False, False, True, False, False]


def test_times_in_the_future_are_set_to_now_and_others_stay() -> None:
    ahead, past = Path("results/ahead.json"), Path("results/past.json")
    ahead.parent.mkdir()
    for path, shift in ((ahead, 3600), (past, -3600)):
        path.write_text("{}")
        os.utime(path, (time.time() + shift, time.time() + shift))
    guard.clamp_future_times(Path("results"), Path("absent"))
    assert ahead.stat().st_mtime <= time.time() + 1 and past.stat().st_mtime < time.time() - 3000


def test_a_run_sweeps_what_a_dead_one_left_and_a_dry_run_respects_a_live_one() -> None:
    left = [
        Path(".snakemake/locks/0.input.lock"),
        Path(".snakemake/incomplete/x"),
        Path("results/s/cpu/a.json.12.part"),
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    running = guard.take_the_run(Path("results"))
    assert [path.exists() for path in left] == [False, False, False]
    left[0].write_text("the live run's own")
    guard.clear_if_dead()
    assert left[0].exists()
    with pytest.raises(SystemExit, match="another snakemake is at work"):
        guard.take_the_run(Path("results"))
    running.close()
    guard.clear_if_dead()
    assert not left[0].exists()


def test_the_roll_call_knows_a_measuring_program_by_its_command_line_and_folder(tmp_path: Path) -> None:
    proc, here, elsewhere = tmp_path / "proc", tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    ours = b"python\0x/cpu_gemm.py\0--spec\0{}\0--out\0results/a.json"
    for number, folder, command in [(1, here, ours), (2, elsewhere, ours), (3, here, b"vim\0--out"), (4, here, b"")]:
        (proc / str(number)).mkdir(parents=True)
        (proc / str(number) / "cmdline").write_bytes(command)
        (proc / str(number) / "cwd").symlink_to(folder)
    (proc / "self").mkdir()
    assert locks.measuring_programs(here, proc) == [1]
    assert locks.measuring_programs(here, tmp_path / "no proc") == []

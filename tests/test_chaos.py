"""Kills at random moments, the same command after each: nothing is measured twice, and at most the one in flight is lost."""

import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from lab import edit, leftovers, paid_files, pending, run, start, started, wait_until
from rooflab.machine import locks

KILLS = 25
SEED = int(os.environ.get("CHAOS_SEED", "20261130"))
SIGNALS = {
    "job": [signal.SIGKILL, signal.SIGTERM],
    "snakemake": [signal.SIGKILL, signal.SIGKILL, signal.SIGHUP, signal.SIGTERM],
    "group": [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP],
}


def strike(process: subprocess.Popen[bytes], lab: Path, target: str, number: int) -> None:
    """What has just ended by itself is left alone."""
    try:
        if target == "group":
            os.killpg(process.pid, number)
        elif target == "snakemake":
            os.kill(process.pid, number)
        else:
            for job in locks.measuring_programs(lab):
                os.kill(job, number)
    except ProcessLookupError:
        return


def wait_for_a_moment(process: subprocess.Popen[bytes], lab: Path, dice: random.Random) -> None:
    """Four times of five while something is measured, else at any moment of the start."""
    if dice.random() < 0.8:
        wait_until(lambda: locks.measuring_programs(lab) or process.poll() is not None)
    time.sleep(dice.uniform(0.0, 1.0))


def more_to_measure(lab: Path, turn: int) -> None:
    """Each long enough to be struck in the middle."""
    edit(lab, lambda c: c["cpu"]["decode"].update(iterations=6000 + turn))
    edit(lab, lambda c: c["cpu"]["gemm"].update(warmups=3 + turn, sustained_s=0.5))


def names(files: dict[str, bytes]) -> set[str]:
    return {Path(file).name for file in files}


@pytest.mark.timeout(1800)
def test_killed_at_random_nothing_is_measured_twice(lab: Path) -> None:
    """Every start of a measurement is in the ledger; a finished one must never start again."""
    dice, before = random.Random(SEED), Counter(started(lab))
    kept, begun_when_kept = paid_files(lab), {}
    turn = kills = may_lose = 0
    while kills < KILLS:
        process = start(lab, "measurements")
        wait_for_a_moment(process, lab, dice)
        if process.poll() is not None:
            assert process.returncode == 0, (lab / "told.txt").read_text()[-2000:]
            turn += 1
            more_to_measure(lab, turn)
            continue
        target = dice.choice(sorted(SIGNALS))
        number = dice.choice(SIGNALS[target])
        may_lose += target != "snakemake" and bool(locks.measuring_programs(lab))
        strike(process, lab, target, number)
        process.wait(timeout=120)
        kills += 1
        told = f"seed {SEED}, kill {kills}: {signal.Signals(number).name} to {target}"
        print(told)
        now, begun = paid_files(lab), Counter(started(lab))
        assert kept.items() <= now.items(), f"a finished file is gone or changed: {told}"
        begun_when_kept = {name: begun_when_kept.get(name, begun[name]) for name in names(now)}
        assert {name: begun[name] for name in begun_when_kept} == begun_when_kept, f"measured again: {told}"
        kept = now
    run(lab, "measurements")
    lost = {name: count - 1 for name, count in (Counter(started(lab)) - before).items() if count > 1}
    print(f"{turn + 1} rounds, {sum(lost.values())} measurements lost in flight, {may_lose} kills that could lose one")
    assert sum(lost.values()) <= may_lose
    assert kept.items() <= paid_files(lab).items() and leftovers(lab) == [] and pending(lab) == set()

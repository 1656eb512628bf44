"""What disturbs a measurement from outside is noticed: a stop, a host that stands still, a neighbour; and a clock that is set."""

import os
import signal
import time
from pathlib import Path

import pytest
from rooflab.machine import host_load
from rooflab.machine.host_load import Account
from rooflab.measure import disturbance
from rooflab.measure.disturbance import BUSY, STOOD_STILL, STOPPED, Watch
from rooflab.record import ledger

CALM = [{"samples_s": [1e-5] * 10}]


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(host_load, "account", lambda: Account(0.0, 0.0, 0.1))
    return monkeypatch


def test_a_calm_measurement_has_no_warning() -> None:
    with Watch(2) as watch:
        pass
    assert watch.warnings(CALM) == []


def test_a_program_that_was_stopped_and_went_on_says_so() -> None:
    with Watch(2) as watch:
        os.kill(os.getpid(), signal.SIGCONT)  # what the shell sends after SIGSTOP
        time.sleep(0.01)
    assert watch.warnings(CALM) == [STOPPED]


def test_a_sample_a_thousand_times_the_median_is_told() -> None:
    with Watch(None) as watch:
        pass
    assert watch.warnings([*CALM, {"samples_s": [1e-5, 60.0, 1e-5, 1e-5]}]) == [STOOD_STILL]
    assert watch.warnings([{"samples_s": [1e-5, 9e-3, 1e-5]}]) == []


@pytest.mark.parametrize(("own_s", "threads", "told"), [(4.0, 2, True), (9.9, 2, False), (4.0, None, False)])
def test_a_neighbour_on_the_same_cpus_is_told_and_counted(
    idle: pytest.MonkeyPatch, own_s: float, threads: int | None, told: bool
) -> None:
    accounts = iter([Account(100.0, 1.0, 0.5), Account(110.0, 1.0 + own_s, 3.0)])
    clock = iter([0.0, 5.0])
    idle.setattr(host_load, "account", lambda: next(accounts))
    idle.setattr(disturbance.time, "monotonic", lambda: next(clock))
    with Watch(threads) as watch:
        pass
    assert watch.load["others_cpus"] == pytest.approx((10 - own_s) / 5)
    assert (watch.load["load_1min_before"], watch.load["load_1min_after"]) == (0.5, 3.0)
    assert (BUSY in watch.warnings(CALM)) is told


def test_only_the_cpus_this_process_may_use_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "proc").mkdir()
    lines = ["cpu  9 9 9 9 9 9 9 9 0 0", "cpu0 100 0 100 5000 7 0 0 0 50 0", "cpu1 999 0 0 0 0 0 0 0 0 0"]
    (tmp_path / "proc" / "stat").write_text("\n".join(lines))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert host_load.account(tmp_path).everybody_s == 200 / os.sysconf("SC_CLK_TCK")
    assert host_load.account(tmp_path / "nowhere").everybody_s is None


@pytest.mark.parametrize("step_s", [-3600.0, 86400.0])
def test_a_clock_that_is_set_in_the_middle_bills_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    wall, uptime = iter([1000.0, 1000.0 + step_s, 1005.0 + step_s]), iter([50.0, 60.0, 65.0])
    monkeypatch.setattr(ledger.time, "time", lambda: next(wall))
    monkeypatch.setattr(ledger.time, "clock_gettime", lambda clock: next(uptime))
    book = tmp_path / "ledger.jsonl"
    ledger.append(book, "start", job="a", stage="gpu/gemm", price_usd_per_hour=3.6, launched=998.0)
    ledger.append(book, "pulse", job="a", stage="gpu/gemm")
    ledger.append(book, "end", job="a", stage="gpu/gemm")
    assert ledger.summary(book)["paid_s"] == 17.0

"""A cluster: sessions by their node, one at a time on each, and a killed run's jobs waited for.

The tests that submit need a Slurm: tools/slurm-node.sh python -m pytest tests/test_slurm.py
"""

import json
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab import ROOT, copy_code, edit, paid_files, pending, refused, run, start, wait_until
from rooflab.machine import cards, cluster, locks
from rooflab.plan import config as configuration
from rooflab.record import handover
from rooflab.record.identity import WrongMachine

NODES = {"cpu-a": "lab1", "cpu-b": "lab2"}
SINFO = "gpu01 64\ngpu02 128\ngpu01 64\n"
OPTIONS = [
    "--latency-wait",
    "5",
    "--slurm-init-seconds-before-status-checks",
    "2",
    "--seconds-between-status-checks",
    "2",
]
SUBMIT = ["--profile", "profiles/slurm", *OPTIONS, "--default-resources", "runtime=10", "mem_mb=1000"]


@pytest.fixture
def slurm() -> None:
    """A running Slurm of the nodes lab1 and lab2."""
    if not os.environ.get("ROOFLAB_SLURM"):
        pytest.skip("needs a Slurm: tools/slurm-node.sh python -m pytest tests/test_slurm.py")


@pytest.fixture
def submitting(tmp_path: Path) -> Path:
    """A checkout with the smallest CPU session, once per node."""
    folder = copy_code(tmp_path / "lab")
    edit(folder, lambda c: c.update(nodes=NODES))
    edit(folder, lambda c: c["cpu"]["bandwidth"].update(patterns=["read"]))
    edit(folder, lambda c: c["cpu"]["gemm"].update(dtypes=["fp32"]))
    edit(folder, lambda c: c["cpu"]["decode"].update(sequence_lengths=[16]))
    return folder


def jobs() -> list[dict[str, str]]:
    """Every job that Slurm remembers, as `scontrol` tells it."""
    told = subprocess.run(["scontrol", "-o", "show", "job"], capture_output=True, text=True, check=True).stdout
    return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in told.splitlines() if line.startswith("JobId=")]


def measured(folder: Path) -> Counter[tuple[str, str]]:
    """How often each stage of each session was begun."""
    books = (folder / "results").glob("*/ledger.jsonl")
    events = [(book.parent.name, json.loads(line)) for book in books for line in book.read_text().splitlines()]
    return Counter((session, event["stage"]) for session, event in events if event["event"] == "start")


def test_a_killed_submission_is_adopted_and_each_stage_measured_once(slurm: None, submitting: Path) -> None:
    process = start(submitting, *SUBMIT)
    wait_until(lambda: paid_files(submitting))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = paid_files(submitting)
    assert len(before) < 10 and len(cluster.queued(submitting)) >= 2
    told = run(submitting, *SUBMIT)
    assert "still in Slurm's queue: waiting for them" in told
    after = paid_files(submitting)
    assert len(after) == 10 and before.items() <= after.items()
    assert set(measured(submitting).values()) == {1} and len(measured(submitting)) == 10
    for session in NODES:
        assert (submitting / "results" / session / "roofline.png").stat().st_size > 0
    ran = [job for job in jobs() if job["WorkDir"] == str(submitting)]
    assert len(ran) == 10
    for session, node in NODES.items():
        own = [job for job in ran if f"_{session}_" in job["Comment"]]
        assert {job["NodeList"] for job in own} == {node}
        spans = sorted((job["StartTime"], job["EndTime"]) for job in own)
        assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False))
    first = {job["NodeList"]: (job["StartTime"], job["EndTime"]) for job in reversed(ran)}
    assert max(begin for begin, _ in first.values()) < min(end for _, end in first.values()), "sessions side by side"
    assert pending(submitting) == set()
    (submitting / "results" / "cpu-a" / "roofline.png").unlink()
    run(submitting, "plot")
    assert (submitting / "results" / "cpu-a" / "roofline.png").exists(), "drawing needs no cluster"


def test_ctrl_c_cancels_the_jobs_and_keeps_what_they_measured(slurm: None, submitting: Path) -> None:
    process = start(submitting, *SUBMIT)
    finished = wait_until(lambda: paid_files(submitting))
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) != 0
    wait_until(lambda: not cluster.queued(submitting))
    assert finished.items() <= paid_files(submitting).items() and len(paid_files(submitting)) < 10


def test_a_gpu_session_is_planned_here_and_checked_on_its_node(slurm: None, submitting: Path) -> None:
    edit(submitting, lambda c: c.update(device="nvidia-h200", nodes={"nvidia-h200": "lab2"}))
    [target] = [each for each in pending(submitting, *SUBMIT) if each.startswith("nvidia-h200/gpu/device.")]
    process = start(submitting, f"results/{target}", *SUBMIT)
    [job] = wait_until(
        lambda: [each for each in jobs() if each["WorkDir"] == str(submitting) and each["JobState"] == "FAILED"]
    )
    process.kill()
    process.wait()
    assert paid_files(submitting) == {}
    assert job["NodeList"] == "lab2" and "gpu:1" in job["TresPerJob"]
    assert "not measured: " in Path(job["StdOut"]).read_text()


def test_a_submitted_run_must_name_its_nodes(slurm: None, submitting: Path) -> None:
    edit(submitting, lambda c: c.update(nodes=None))
    assert "which node is measured?" in refused(submitting, *SUBMIT)
    edit(submitting, lambda c: c.update(nodes={"cpu-a": "lab9"}))
    assert "lab9: not in this cluster; sinfo -N lists lab1, lab2" in refused(submitting, *SUBMIT)


def test_nodes_are_planned_without_a_cluster_and_not_measured_without_one(submitting: Path) -> None:
    edit(submitting, lambda c: c.update(device="nvidia-h200", nodes={"east": "gpu01", "west": "gpu02"}))
    assert {path.partition("/")[0] for path in pending(submitting)} == {"east", "west"}
    told = refused(submitting)
    assert "this run measures the machine it is typed on" in told and "--profile profiles/slurm" in told
    assert paid_files(submitting) == {}


@pytest.mark.parametrize(
    "change",
    [{"device": "auto"}, {"session": "x"}, {"gpus": "all"}],
    ids=["no device named", "a session named twice", "cards of this host"],
)
def test_a_config_that_contradicts_its_nodes_is_refused(change: dict[str, Any]) -> None:
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | {"device": "nvidia-h200", "nodes": {"a": "gpu01"}}
    configuration.checked(config)
    with pytest.raises(configuration.ConfigError, match="nodes: names the sessions"):
        configuration.checked(config | change)


def test_where_the_jobs_go_and_the_config_must_agree() -> None:
    cluster.check_run(True, "local", "auto", None)
    cluster.check_run(False, "slurm", "nvidia-h200", NODES)
    cluster.check_run(False, "kubernetes", "nvidia-h200", None)
    with pytest.raises(cluster.ClusterError, match="say which, for example device"):
        cluster.check_run(False, "kubernetes", "auto", None)


def test_results_in_a_storage_are_refused_with_what_to_do_instead() -> None:
    cluster.check_storage(None)
    with pytest.raises(cluster.ClusterError, match="s3: results/ must be a folder here. Run without it"):
        cluster.check_storage("s3")


def test_a_node_is_taken_whole_and_its_name_checked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(handover.NODES, "")
    cluster.hand_over(cluster.places({"a": "gpu02"}, ask=lambda *_: SINFO))
    assert cluster.request("a") == "--nodelist=gpu02 --exclusive" and cluster.cpus("a") == 128
    assert cluster.request("another") == "" and cluster.cpus("another") == 1
    monkeypatch.setenv("SLURMD_NODENAME", "gpu02")
    cluster.check("a")
    for elsewhere in ("gpu01", ""):
        monkeypatch.setenv("SLURMD_NODENAME", elsewhere)
        with pytest.raises(WrongMachine, match="is measured on gpu02"):
            cluster.check("a")
    cluster.check("another")


def test_a_node_that_the_cluster_does_not_have_is_named() -> None:
    with pytest.raises(cluster.ClusterError, match="gpu03: not in this cluster; sinfo -N lists gpu01, gpu02"):
        cluster.places({"a": "gpu01", "b": "gpu03"}, ask=lambda *_: SINFO)


def fake_squeue(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "bin").mkdir()
    (folder / "bin" / "squeue").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "bin" / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


def test_only_jobs_that_a_run_of_this_folder_submitted_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        f"7\trule_device\t{tmp_path}",
        f"8\t(null)\t{tmp_path}",
        "9\trule_device\t/elsewhere",
        f"10\trule_x\t{tmp_path}/bin",
    ]
    fake_squeue(tmp_path, monkeypatch, "\n".join(f"echo '{line}'" for line in lines))
    assert cluster.queued(tmp_path) == ["7"]


def test_a_run_waits_until_the_queue_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_squeue(
        tmp_path,
        monkeypatch,
        f"cd {tmp_path}; [ $(ls | wc -l) -lt 4 ] && touch asked$$ && echo '7\trule_x\t{tmp_path}'; true",
    )
    monkeypatch.setattr(cluster, "POLL_S", 0.01)
    cluster.wait_for_queue(tmp_path)
    assert len(list(tmp_path.glob("asked*"))) == 3
    assert "scancel 7" in capsys.readouterr().err


def test_a_silent_queue_stops_a_run_only_where_jobs_were_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_squeue(tmp_path, monkeypatch, "echo 'squeue: error: no controller' >&2; exit 1")
    assert cluster.queued(tmp_path) == []
    (tmp_path / cluster.SUBMITTED).mkdir(parents=True)
    with pytest.raises(cluster.ClusterError, match="squeue does not answer .*no controller"):
        cluster.queued(tmp_path)


def test_two_hosts_of_one_folder_may_measure_at_once_and_one_host_may_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "MEASURING", tmp_path / "measuring")
    monkeypatch.setattr(locks, "host_lock", lambda name: tmp_path / name)
    with cards.turn(None):
        assert locks.take(tmp_path / "measuring", wait=False) is None, "a run that starts sees that somebody measures"
        assert locks.take(tmp_path / "host", wait=False, shared=True) is None
        monkeypatch.setattr(locks, "host_lock", lambda name: tmp_path / f"other-{name}")
        with cards.turn(None):
            assert locks.take(tmp_path / "other-host", wait=False) is None

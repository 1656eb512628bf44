"""The real workflow end to end on the CPU, with small sizes, in a temporary checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "config.yaml", "profiles", "workflow")
SMALL = {
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
    return os.environ | {"PATH": path, "XDG_CACHE_HOME": str(folder / ".cache"), "TMPDIR": str(folder)}


def snakemake(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=300)


def run(folder: Path, *arguments: str) -> str:
    done = snakemake(folder, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def copy_code(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = ROOT / part
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / part, ignore=ignore) if source.is_dir() else shutil.copy(source, folder / part)
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["device"] = "cpu"
    for stage, values in SMALL.items():
        config["cpu"][stage] |= values
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def edit(folder: Path, change) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    change(config)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def pending(folder: Path, *arguments: str) -> dict[str, int]:
    """Paid jobs that a dry-run plans, per stage, as its price list says."""
    told = run(folder, "-n", *arguments)
    rows = re.findall(r"^  (gpu|cpu) (\w+) +(\d+) jobs", told, re.MULTILINE)
    assert rows or "Nothing is left to measure." in told, told
    return {f"{side} {stage}": int(count) for side, stage, count in rows}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_code(tmp_path_factory.mktemp("session") / "lab")
    first = run(folder)
    assert "decode" in first and "Traceback" not in first
    return folder


@pytest.fixture
def lab(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "lab", symlinks=True)
    return tmp_path / "lab"


def session_of(folder: Path) -> Path:
    [found] = (folder / "results").iterdir()
    return found


def paid_files(folder: Path) -> dict[str, bytes]:
    session = session_of(folder)
    return {str(p.relative_to(session)): p.read_bytes() for p in sorted((session / "cpu").rglob("*.json"))}


def test_one_command_gives_every_deliverable(finished: Path) -> None:
    session = session_of(finished)
    deliverables = ["device_query.json", "peak_flops.json", "roofline.json", "roofline.png", "roofline.svg"]
    for name in [*deliverables, "interpretation.md", "manifest.json", "ledger.jsonl"]:
        assert (session / name).stat().st_size > 0, name
    checks = json.loads((session / "manifest.json").read_text())["checks"]
    assert {c["name"]: c["status"] for c in checks}["decode_sequences"] == "pass"
    assert {c["name"]: c["status"] for c in checks}["plot_complete"] == "pass"


def test_every_point_traces_to_its_paid_file(finished: Path) -> None:
    session = session_of(finished)
    model = json.loads((session / "roofline.json").read_text())
    assert len([p for p in model["points"] if p["operator"] == "decode_attention" and p["lab_point"]]) == 4
    for item in model["points"] + model["ceilings"]:
        assert (session / item["file"]).exists()


def test_finished_means_nothing_pending(lab: Path) -> None:
    assert "Nothing is left to measure." in run(lab, "-n")
    before = paid_files(lab)
    run(lab)
    assert paid_files(lab) == before


def test_a_deleted_file_is_one_job(lab: Path) -> None:
    next((session_of(lab) / "cpu" / "decode").glob("*S32*")).unlink()
    assert pending(lab) == {"cpu decode": 1}


def test_a_clone_owes_nothing_and_replots_without_measuring(lab: Path, tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "-A", "-f", "results", *PARTS], ["commit", "-qm", "x"]):
        subprocess.run([*git, *command], cwd=lab, check=True)
    clone = tmp_path / "elsewhere" / "clone"
    subprocess.run(["git", "clone", "-q", str(lab), str(clone)], check=True)
    assert pending(clone) == {}
    before = paid_files(clone)
    (session_of(clone) / "roofline.png").unlink()
    run(clone, "plot")
    assert (session_of(clone) / "roofline.png").stat().st_size > 0
    assert paid_files(clone) == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda c: c["cpu"]["decode"].update(iterations=21), {"cpu decode": 4}),
        (lambda c: c["cpu"]["gemm"].update(warmups=4), {"cpu gemm": 4}),
        (lambda c: c.update(price_usd_per_hour=2.0), {}),
        (lambda c: c["gemm"].update(iterations=50), {}),
    ],
)
def test_a_changed_parameter_is_exactly_its_stage(lab: Path, change, expected: dict[str, int]) -> None:
    edit(lab, change)
    shutil.rmtree(lab / ".snakemake")
    assert pending(lab) == expected


def test_touched_and_edited_sources_measure_nothing(lab: Path) -> None:
    for path in [*lab.rglob("*.py"), *lab.rglob("*.smk"), lab / "Snakefile"]:
        path.write_text(path.read_text() + "\n# a comment\n")
    assert pending(lab) == {}


def test_plot_of_half_a_session_shows_its_holes_and_measures_nothing(lab: Path) -> None:
    for path in (session_of(lab) / "cpu" / "decode").glob("*"):
        path.unlink()
    before = paid_files(lab)
    run(lab, "report")
    assert paid_files(lab) == before
    holes = json.loads((session_of(lab) / "roofline.json").read_text())["holes"]
    assert len([h for h in holes if h["status"] == "missing"]) == 4


def test_the_dry_run_prices_a_gpu_session_on_a_machine_without_one(lab: Path) -> None:
    told = run(lab, "-n", "--config", "device=nvidia-h200", "price_usd_per_hour=3.99")
    assert "To measure in nvidia-h200 at $3.99/h:" in told and re.search(r"total .* \$0\.\d+", told)


def test_a_gpu_session_cannot_be_measured_here(lab: Path) -> None:
    done = snakemake(lab, "measurements", "--config", "device=nvidia-h200")
    assert done.returncode != 0 and "not measured" in done.stdout + done.stderr
    assert not list((lab / "results" / "nvidia-h200").rglob("*.json"))


def test_a_budget_too_small_stops_before_the_first_job(lab: Path) -> None:
    next((session_of(lab) / "cpu" / "gemm").glob("fp32*")).unlink()
    before = paid_files(lab)
    done = snakemake(lab, "--config", "price_usd_per_hour=100", "budget_usd=0.0001")
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "exceed the budget" in told and "Traceback" not in told
    assert paid_files(lab) == before


def test_a_bad_config_stops_with_one_line(lab: Path) -> None:
    edit(lab, lambda c: c["gemm"].update(iteration=3))
    done = snakemake(lab)
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "unknown key 'gemm.iteration'; did you mean 'iterations'?" in told
    assert "Traceback" not in told


def test_a_damaged_record_is_named_with_its_repair(lab: Path) -> None:
    path = next((session_of(lab) / "cpu" / "decode").glob("*S32*"))
    path.write_text(path.read_text()[:100])
    os.utime(path)
    done = snakemake(lab, "report")
    told = done.stdout + done.stderr
    assert done.returncode != 0 and path.name in told and "not JSON" in told and "rm results/" in told


def test_a_second_run_in_the_directory_says_so_and_leaves(lab: Path) -> None:
    from rooflab import locks

    held = locks.take(lab / locks.RUNNING)
    try:
        done = snakemake(lab)
    finally:
        held.close()
    assert done.returncode != 0 and "another snakemake is at work" in done.stderr


def test_the_lock_of_a_killed_run_is_in_nobody_s_way(lab: Path) -> None:
    next((session_of(lab) / "cpu" / "decode").glob("*S32*")).unlink()
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", "--cores", "1"], cwd=lab, env=environment(lab), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        process.wait(timeout=2.5)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
    before = paid_files(lab)
    run(lab)
    after = paid_files(lab)
    assert len(after) == 12 and before.items() <= after.items()
    assert not list(lab.rglob("*.part"))

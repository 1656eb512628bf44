"""Snakemake's own switches: none of them deletes, repeats or hides a measurement, and none ends in a traceback."""

import hashlib
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from lab import clone, command, environment, one_file, paid_files, read_only, refused, run, session_of, snakemake


@pytest.fixture(scope="module")
def asked(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One lab for every switch: none of them may change it."""
    return Path(shutil.copytree(finished, tmp_path_factory.mktemp("asked") / "lab", symlinks=True))


@pytest.mark.parametrize("switch", [("--delete-all-output", "plot"), ("--delete-all-output",), ("--delete-all",)])
def test_no_switch_deletes_what_is_paid_for(switch: tuple[str, ...], asked: Path) -> None:
    before = paid_files(asked)
    assert "would delete measurements that are paid for" in refused(asked, *switch)
    assert paid_files(asked) == before and (session_of(asked) / "roofline.png").exists()


@pytest.mark.parametrize(
    "switch",
    ["-F terminated", "-F report -k", "-F {session}/roofline.png", "-f {paid}", "-R {paid}", "-R cpu_peak_flops -n"],
)
def test_a_forced_measurement_is_refused_whatever_the_target(switch: str, asked: Path) -> None:
    before = paid_files(asked)
    place = session_of(asked).relative_to(asked)
    paid = one_file(asked, "fp32-n64.*").relative_to(asked)
    assert "a forced run would measure again" in refused(asked, *switch.format(session=place, paid=paid).split())
    assert paid_files(asked) == before


@pytest.mark.parametrize(
    "switch",
    ["--summary", "--dag", "--rulegraph", "--list-untracked", "--delete-temp-output", "--archive a.tar.gz", "--touch"],
)
def test_a_switch_that_looks_at_the_plan_answers(switch: str, asked: Path) -> None:
    before = paid_files(asked)
    assert "Traceback" not in run(asked, *switch.split())
    assert paid_files(asked) == before


def state(folder: Path) -> dict[str, tuple[str, int]]:
    """Every file and folder of a checkout outside `.snakemake/`: its content and its time, to the nanosecond."""
    places = [each for each in folder.rglob("*") if ".snakemake" not in each.parts and ".cache" not in each.parts]
    return {
        str(each): (
            hashlib.sha256(each.read_bytes()).hexdigest() if each.is_file() else "",
            each.stat().st_mtime_ns,
        )
        for each in places
    }


@pytest.mark.parametrize("target", [[], ["report"]])
def test_a_dry_run_changes_no_byte_and_no_time(lab: Path, tmp_path: Path, target: list[str]) -> None:
    copy = clone(lab, tmp_path / "clone")
    ahead = time.time() + 3600
    for path in (one_file(copy, "fp32-n64.*"), copy / "workflow" / "rules" / "draw.smk"):
        os.utime(path, (ahead, ahead))
    before = state(copy)
    run(copy, *target, "-n")
    assert state(copy) == before


def test_a_dry_run_in_a_read_only_checkout_says_so_in_one_line(lab: Path) -> None:
    with read_only(lab):
        done = snakemake(lab, "-n", XDG_CACHE_HOME="/tmp", TMPDIR="/tmp")
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in told and ".snakemake/: cannot be written" in told


@pytest.mark.parametrize("told_to", ["-s ../Snakefile", "-s ../Snakefile --directory ."])
def test_another_folder_is_told_where_to_run(told_to: str, asked: Path) -> None:
    (asked / "elsewhere").mkdir(exist_ok=True)
    done = snakemake(asked / "elsewhere", *told_to.split(), "-n")
    told = done.stdout + done.stderr
    assert done.returncode != 0 and "Traceback" not in told and f"cd {asked} && snakemake" in told


def test_results_that_are_a_file_are_told_in_one_line(lab: Path) -> None:
    shutil.rmtree(lab / "results")
    (lab / "results").write_text("x")
    assert "results is a file" in refused(lab, "-n")


def test_a_path_with_a_blank_works_and_python_s_safe_path_too(lab: Path, tmp_path: Path) -> None:
    """Every rule failed: the folder of the programs stood without quotes."""
    odd = tmp_path / "my lab & more"
    lab.rename(odd)
    one_file(odd, "fp32-n64.*").unlink()
    run(odd, PYTHONSAFEPATH="1")
    assert one_file(odd, "fp32-n64.*").exists()


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_a_reader_that_is_gone_costs_no_measurement(where: str, lab: Path) -> None:
    """The closing lines ended in a traceback and exit status 1, after everything was measured."""
    one_file(lab, "fp32-n64.*").unlink()
    line = f"{shlex.join(command('measurements'))} {where}"
    done = subprocess.run(["bash", "-c", line], cwd=lab, env=environment(lab), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert one_file(lab, "fp32-n64.*").exists()

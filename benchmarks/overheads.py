"""What the workflow adds to measuring: planning, doing nothing, starting a program, redrawing. Measured on this machine;
the last rows are what the ledger of the shipped GPU session tells of the machine it was taken on.

    python benchmarks/overheads.py      writes overheads.json and overheads.md beside itself

Wall seconds, the best of a few turns; the one-rule Snakefile takes its turns in between, so that both see the same machine.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "workflow" / "scripts"))
from rooflab.cost import estimates  # noqa: E402
from rooflab.record import ledger  # noqa: E402

SHIPPED = ROOT / "results" / "nvidia-h200"
PARTS = ("Snakefile", "config.yaml", "profiles", "workflow")
ONE_RULE = 'rule all:\n    output:\n        "done",\n    shell:\n        "touch {output}"\n'
SMALL = {
    "gemm": {"sizes": [64], "iterations": 2, "burst_blocks": 3, "burst_block_s": 0.001, "burst_gap_s": 0.0, "sustained_s": 0.01},
    "decode": {"iterations": 20, "warmups": 1, "sequence_lengths": [16, 32, 48, 64]},
    "bandwidth": {"buffer_bytes": 4194304, "samples": 3},
    "launch_floor": {"iterations": 20},
}  # fmt: skip
Row = dict[str, Any]


def checkout(folder: Path, **changed: Any) -> Path:
    """A copy of the workflow with a changed config, and without results."""
    folder.mkdir(parents=True)
    for part in PARTS:
        source = ROOT / part
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, folder / part, ignore=ignore) if source.is_dir() else shutil.copy(source, folder / part)
    config = yaml.safe_load((ROOT / "config.yaml").read_text()) | changed
    for stage, values in SMALL.items():
        config["cpu"][stage] |= values
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder


def seconds(folder: Path, *command: str) -> float:
    """Wall seconds of one command. Raises RuntimeError with its output when it fails."""
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    variables = os.environ | {"PATH": path, "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / ".cache")}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled modules are kept, as anywhere
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, *command], cwd=folder, env=variables, capture_output=True, text=True)
    taken = time.perf_counter() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return taken


def snakemake(folder: Path, *arguments: str) -> float:
    return seconds(folder, "-m", "snakemake", "--cores", "1", *arguments)


def row(what: str, taken_s: float, limit_s: float, detail: str) -> Row:
    return {"what": what, "seconds": round(taken_s, 2), "limit_s": limit_s, "detail": detail}


def against_one_rule(scratch: Path, finished: Path, turns: int) -> list[Row]:
    """A dry-run and a run with nothing to do, above the same of a Snakefile with one rule."""
    one = scratch / "one"
    one.mkdir()
    (one / "Snakefile").write_text(ONE_RULE)
    snakemake(one)
    cases = {"dry-run": ("-n",), "no-op run": ()}
    rows = []
    for name, arguments in cases.items():
        pairs = [(snakemake(finished, *arguments), snakemake(one, *arguments)) for _ in range(turns)]
        ours, theirs = (min(pair[side] for pair in pairs) for side in (0, 1))
        detail = f"{ours:.2f} s, a one-rule Snakefile {theirs:.2f} s"
        rows.append(row(f"{name} of a finished session, above a one-rule Snakefile", ours - theirs, 1.0, detail))
    return rows


def sweep(scratch: Path, turns: int) -> Row:
    """The plan of a sweep of more than 500 measurements, with its price list."""
    lab = checkout(scratch / "sweep", device="nvidia-h200")
    config = yaml.safe_load((lab / "config.yaml").read_text())
    config["decode"] |= {"sequence_lengths": list(range(8, 1025, 8))}
    (lab / "config.yaml").write_text(yaml.safe_dump(config))
    jobs = len(config["decode"]["sequence_lengths"]) * len(config["decode"]["dtypes"])
    return row(
        "plan of a 500-job sweep", min(snakemake(lab, "-n") for _ in range(turns)), 5.0, f"more than {jobs} jobs"
    )


def start_up(finished: Path, turns: int) -> Row:
    """A paid program from its launch to its exit, without the seconds it measured."""
    record = next(finished.glob("results/*/cpu/launch_floor.*.json"))
    spec = json.dumps(json.loads(record.read_text())["spec"])
    rest = []
    for _ in range(turns):
        record.unlink()
        arguments = ("--spec", spec, "--out", str(record.relative_to(finished)))
        taken = seconds(finished, "workflow/scripts/paid/cpu_launch_floor.py", *arguments)
        rest.append(taken - json.loads(record.read_text())["seconds"])
    return row(
        "start-up of a paid job, on top of its measurement", min(rest), 1.0, "a CPU program; on a GPU CuPy comes on top"
    )


def redraw(scratch: Path, finished: Path) -> Row:
    """Every free file of a copied session, on a machine that never saw it."""
    lab = checkout(scratch / "laptop", device="cpu")
    [session] = (each for each in (finished / "results").iterdir() if each.is_dir())
    for side in ("gpu", "cpu"):
        if (session / side).is_dir():
            shutil.copytree(session / side, lab / "results" / session.name / side)
    shutil.copy(session / "ledger.jsonl", lab / "results" / session.name)
    return row("`report` of a copied session", snakemake(lab, "report"), 10.0, session.name)


def committed(scratch: Path) -> Path:
    """The shipped GPU session in a checkout of its own."""
    folder = scratch / "committed"
    (folder / "results").mkdir(parents=True)
    shutil.copytree(SHIPPED, folder / "results" / SHIPPED.name)
    return folder


def shipped() -> list[Row]:
    """Paid wall seconds of the shipped session: in all, per side with the gap before each job, and around the jobs."""
    known = estimates.past(SHIPPED, SHIPPED.name)
    sides = {"gpu": 0.0, "cpu": 0.0}
    for before, job in zip([None, *known.jobs], known.jobs, strict=False):
        near = before is not None and 0 <= job.begin - before.last < ledger.APART_S
        sides[job.stage.split("/")[0]] += job.last - (before.last if before and near else job.begin)
    paid_s = sum(run.seconds for run in known.runs)
    around_s = max(0.0, paid_s - sum(sides.values()))
    made = [
        row("shipped session: paid wall time", paid_s, 120.0, f"{len(known.jobs)} jobs, {SHIPPED.name}"),
        row("shipped session: its GPU jobs", sides["gpu"], 90.0, "with the gap before each"),
        row("shipped session: its CPU jobs", sides["cpu"], 20.0, "with the gap before each"),
        row("shipped session: start-up of a GPU job", known.start_up_s["gpu"], 1.0, "median, Snakemake's turn in it"),
    ]
    if any(run.name for run in known.runs):  # an older ledger holds jobs only
        made.append(
            row("shipped session: planning and free rules", around_s, 10.0, "before, between and after runs' jobs")
        )
    return made


def table(machine: str, rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [f"| what | seconds | limit | {machine} |", "|--|--|--|--|"]
    for each in rows:
        over = " (over)" if each["seconds"] > each["limit_s"] else ""
        lines.append(f"| {each['what']} | {each['seconds']:.2f} | {each['limit_s']:g}{over} | {each['detail']} |")
    return "\n".join(lines) + "\n"


def machine() -> str:
    return (
        f"{os.cpu_count()}-core virtual machine, Python {platform.python_version()}, Snakemake {version('snakemake')}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        finished = checkout(scratch / "finished", device="cpu")
        snakemake(finished)
        rows = [
            *against_one_rule(scratch, finished, turns),
            sweep(scratch, turns),
            start_up(finished, turns),
            redraw(scratch, committed(scratch)),
            *shipped(),
        ]
    here = Path(__file__).parent
    (here / "overheads.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    (here / "overheads.md").write_text(table(machine(), rows))
    print(table(machine(), rows), end="")


if __name__ == "__main__":
    main()

"""A changed parameter makes exactly the files pending whose number it changes; going back finds the old ones."""

import os
import re
import shutil
from collections.abc import Callable
from inspect import signature
from pathlib import Path

import pytest
import yaml
from lab import ROOT, clone, edit, one_file, paid_files, pending, run
from rooflab.reference.minigpt import geometry_of, seeded_weights
from rooflab.reference.weights import save_weights, sha256_of
from rooflab.run.code import CODE

Change = Callable[[Path], object]


def gemm(**values: object) -> Change:
    return lambda lab: edit(lab, lambda c: c["cpu"]["gemm"].update(values))


def decode(**values: object) -> Change:
    return lambda lab: edit(lab, lambda c: c["cpu"]["decode"].update(values))


def geometry(lab: Path) -> None:
    edit(lab, lambda c: c["minigpt"].update(kv_heads=2))


def weights(lab: Path) -> None:
    model = yaml.safe_load((lab / "config.yaml").read_text())["minigpt"]
    geometry = geometry_of(**{size: model[size] for size in signature(geometry_of).parameters})
    save_weights(lab / "weights.npz", seeded_weights(geometry, model["seed"] + 1))
    sha256 = sha256_of(lab / "weights.npz")
    edit(lab, lambda c: c["minigpt"].update(weights="weights.npz", weights_sha256=sha256))


def protocol(lab: Path) -> None:
    path = lab / "workflow" / "scripts" / "rooflab" / "plan" / "measurements.py"
    text = path.read_text()
    path.write_text(re.sub(r'"bandwidth": (\d+)', lambda found: f'"bandwidth": {int(found[1]) + 1}', text))


def deleted(lab: Path) -> None:
    one_file(lab, "triad.*").unlink()


GEMM = {"fp32-n64", "fp64-n64", "fp16-n64", "bf16-n64"}
DECODE = {f"minigpt-fp32-S{s}" for s in (16, 32, 48, 64)}
TABLE: list[tuple[str, Change, set[str]]] = [
    ("iterations", decode(iterations=21), DECODE),
    ("warmups", gemm(warmups=4), GEMM),
    ("size added", gemm(sizes=[64, 32]), {name.replace("n64", "n32") for name in GEMM}),
    ("dtype dropped", gemm(dtypes=["fp32", "fp64", "fp16"]), set()),
    ("sequence_lengths", decode(sequence_lengths=[16, 32, 48, 96]), {"minigpt-fp32-S96"}),
    ("geometry", geometry, DECODE),
    ("weights_sha256", weights, DECODE),
    ("protocol", protocol, {"read", "triad"}),
    ("deleted", deleted, {"triad"}),
]


def names(files: set[str]) -> set[str]:
    """The measurements of paid files, without session, stage and key."""
    return {Path(file).name.split(".")[0] for file in files}


@pytest.mark.parametrize("memory", ["here", "in a clone"])
@pytest.mark.parametrize(("change", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_exactly_the_affected_files_are_pending(
    lab: Path, tmp_path: Path, change: Change, expected: set[str], memory: str
) -> None:
    folder = lab if memory == "here" else clone(lab, tmp_path / "clone")
    change(folder)
    assert names(pending(folder)) == expected


def test_a_dtype_added_is_measured_and_the_others_are_not(lab: Path) -> None:
    one_file(lab, "fp64-n64.*").unlink()
    gemm(dtypes=["fp32", "fp16", "bf16"])(lab)
    assert pending(lab) == set()
    gemm(dtypes=["fp32", "fp16", "bf16", "fp64"])(lab)
    assert names(pending(lab)) == {"fp64-n64"}


def test_going_back_finds_the_old_files(lab: Path) -> None:
    before = paid_files(lab)
    decode(iterations=21)(lab)
    run(lab, "measurements")
    assert before.items() < paid_files(lab).items() and len(paid_files(lab)) == len(before) + len(DECODE)
    decode(iterations=20)(lab)
    shutil.rmtree(lab / ".snakemake")
    assert pending(lab) == set()
    decode(iterations=21)(lab)
    assert pending(lab) == set()


def edit_table() -> dict[str, set[str]]:
    """The table of workflow/README.md: room -> the rules that run again."""
    rows = re.search(
        r"\| edit a file in .*?\n\|--\|--\|\n(.*?)\n\n", (ROOT / "workflow" / "README.md").read_text(), re.DOTALL
    )
    assert rows is not None
    table: dict[str, set[str]] = {}
    for row in rows[1].splitlines():
        rooms, again = (set(re.findall(r"`([\w/]+)`", cell)) for cell in row.strip("|").split(" | "))
        table |= {room: set(CODE) if "every free rule" in row else again for room in rooms}
    return table


def free_jobs(folder: Path) -> set[str]:
    """The free rules that a dry-run of `report` would run."""
    told = re.search(r"To draw and write, free: (.*)", run(folder, "-n", "report"))
    return {each.split()[0] for each in told[1].split(", ")} if told else set()


def test_an_edit_runs_again_what_the_table_says(lab: Path) -> None:
    scripts = lab / "workflow" / "scripts"
    folders = {each.name: each for each in [*scripts.glob("rooflab/*"), scripts / "paid"] if each.is_dir()}
    table = edit_table()
    assert set(table) == set(folders) - {"data", "__pycache__"}
    absent = {"model_chart", "model_table"}  # the lab's small session measures no model
    for again in {frozenset(each) for each in table.values()}:
        edited = [max(folders[room].glob("*.py")) for room in table if table[room] == again]
        before = {path: (path.read_text(), path.stat().st_mtime) for path in edited}
        for path in edited:
            path.write_text(before[path][0] + "# edited\n")
        assert free_jobs(lab) == again - absent
        for path, (text, changed_at) in before.items():
            path.write_text(text)
            os.utime(path, (changed_at, changed_at))
    assert free_jobs(lab) == set() == pending(lab)


@pytest.mark.parametrize(
    ("change", "why"),
    [(protocol, r"protocol \d+ -> \d+"), (decode(iterations=21), "iterations 20 -> 21"), (geometry, "kv_heads 8 -> 2")],
)
def test_the_dry_run_says_why_what_was_measured_is_pending(lab: Path, change: Change, why: str) -> None:
    change(lab)
    assert re.search(why, run(lab, "-n"))

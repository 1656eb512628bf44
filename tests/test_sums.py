"""`sha256sum -c SHA256SUMS` accepts a session; whatever is written later renews its line, and what is changed by hand is told."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from lab import ROOT, clone, edit, one_file, run, session_of
from rooflab.explain.closing import sums_lines
from rooflab.record import publish, sums

COMMITTED = sorted(path.parent for path in (ROOT / "results").glob(f"*/{sums.NAME}"))


def accepted(folder: Path) -> bool:
    return subprocess.run(["sha256sum", "-c", "--quiet", sums.NAME], cwd=folder, capture_output=True).returncode == 0


@pytest.fixture
def session(tmp_path: Path) -> Path:
    folder = tmp_path / "results" / "s"
    for name in ("gpu/gemm/a b.json", "cpu/device.json", "roofline.png", "ledger.jsonl"):
        publish.write_text(folder / name, name)
    sums.write(folder)
    return folder


def test_every_file_is_listed_but_the_sums_and_the_ledger(session: Path) -> None:
    assert sorted(sums.read(session)) == ["cpu/device.json", "gpu/gemm/a b.json", "roofline.png"]
    assert accepted(session) and sums.differences(session) == []


def test_whatever_is_published_later_renews_its_line(session: Path) -> None:
    publish.write_text(session / "roofline.png", "drawn anew")
    publish.write_text(session / "gpu" / "gemm" / "new.json", "{}")
    publish.write_text(session / "ledger.jsonl", "grown")
    publish.write_text(session.parent / "compare.json", "{}")
    assert sums.differences(session) == [] and accepted(session)
    assert not (session.parent / sums.NAME).exists()


def test_what_is_changed_by_hand_is_told(session: Path) -> None:
    (session / "roofline.png").write_text("x")
    (session / "cpu" / "device.json").unlink()
    (session / "new.txt").write_text("x")
    told = ["roofline.png has changed", "cpu/device.json is missing", "new.txt is not listed"]
    assert sums.differences(session) == told and not accepted(session)
    [line] = sums_lines(session)
    assert line.startswith("  FAIL") and "roofline.png has changed and 2 more" in line


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_every_committed_session_is_as_it_was_written(folder: Path) -> None:
    assert sums.differences(folder) == [] and accepted(folder)
    assert len(sums_lines(folder)) == 1 and "pass" in sums_lines(folder)[0]


def test_every_committed_session_has_sums() -> None:
    assert [each.parent for each in sorted((ROOT / "results").glob("*/manifest.json"))] == COMMITTED


def hashed(folder: Path) -> dict[str, str]:
    return {each["file"]: each["sha256"] for each in json.loads((folder / "manifest.json").read_text())["results"]}


def test_the_manifest_hashes_its_inputs_and_stays_true_after_a_redraw(lab: Path) -> None:
    folder = session_of(lab)
    assert accepted(folder)
    (folder / "notes.txt").write_text("of the user")
    one_file(lab, "fp32-n64.*").touch()
    edit(lab, lambda c: c["plot"].update(dpi=50))
    run(lab, "report")
    found = hashed(folder)
    assert "notes.txt" not in found and {"roofline.png", "roofline.json", "ledger.jsonl"} <= set(found)
    book = next(each for each in json.loads((folder / "manifest.json").read_text())["results"] if "bytes" in each)
    for file, sha256 in found.items():
        assert sums.sha256_of(folder / file, book["bytes"] if file == sums.GROWING else None) == sha256, file
    assert accepted(folder) and "notes.txt" in sums.read(folder)


def test_a_fresh_clone_redrawn_elsewhere_is_as_it_was_committed(lab: Path, tmp_path: Path) -> None:
    folder = session_of(lab)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["rendered_by"] = {"python": "3.99", "platform": "elsewhere", "numpy": "1"}
    publish.write_json(folder / "manifest.json", manifest)
    run(lab, "report")  # the page quotes the manifest
    shutil.rmtree(lab / ".snakemake")
    copy = clone(lab, tmp_path / "clone")
    for name in ("device_query", "peak_flops", "roofline", "manifest"):  # older than the records: all is made anew
        os.utime(copy / folder.relative_to(lab) / f"{name}.json", (1, 1))
    told = run(copy, "report")
    assert "every file is as SHA256SUMS says" in told
    assert subprocess.run(["git", "diff", "--stat"], cwd=copy, capture_output=True, text=True, check=True).stdout == ""
    assert json.loads((copy / folder.relative_to(lab) / "manifest.json").read_text())["rendered_by"]["python"] == "3.99"

"""Nothing wrong is trusted: a bad record stops its own session's free rules, with its name, its fault and its repair."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import one_file, paid_files, pending, refused, run, session_of
from rooflab.plan import session
from rooflab.record import identity, records

Damage = Callable[[Path], object]


def resealed(**changes: Any) -> Damage:
    """A record with other content and the right hash: what another machine or program would have written."""

    def damage(path: Path) -> None:
        path.write_text(json.dumps(records.seal(json.loads(path.read_text()) | changes)))

    return damage


def another_protocol(path: Path) -> None:
    record = json.loads(path.read_text())
    spec = record["spec"] | {"protocol": record["spec"]["protocol"] + 7}
    path.write_text(json.dumps(records.seal(record | {"spec": spec, "key": records.digest(spec)[:8]})))


def edited(path: Path) -> None:
    record = json.loads(path.read_text())
    record["series"][0]["samples_s"][0] *= 0.5
    path.write_text(json.dumps(record))


TABLE: list[tuple[str, Damage, str]] = [
    ("truncated", lambda path: path.write_text(path.read_text()[:200]), "not JSON"),
    ("empty", lambda path: path.write_text(""), "not JSON"),
    ("not text", lambda path: path.write_bytes(b"\xff\xfe\x00junk"), "not JSON"),
    ("another JSON", lambda path: path.write_text('{"gflops": 5}'), "not a measurement record"),
    ("edited", edited, "does not match the hash"),
    (
        "foreign device",
        resealed(device={"name": "Other CPU", "cores_physical": 96, "threads": 192}),
        "not of this session",
    ),
    ("foreign protocol", another_protocol, "not the one its name says"),
    ("newer format", resealed(schema_version=records.MEASUREMENT_VERSION + 1), "git pull"),
]


def spoil(path: Path, damage: Damage) -> None:
    damage(path)
    os.utime(path, (time.time(), time.time()))


@pytest.fixture
def two(lab: Path) -> Path:
    """The CPU session twice, the second under another name and drawn."""
    shutil.copytree(session_of(lab), lab / "results" / "another")
    return lab


@pytest.mark.parametrize(("damage", "told"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_is_wrong_is_told_in_one_line_with_the_repair(lab: Path, damage: Damage, told: str) -> None:
    path = one_file(lab, "minigpt-fp32-S32.*")
    spoil(path, damage)
    [line] = session.distrusted(session_of(lab))
    assert line.startswith(f"{path}: ") and told in line
    assert f"rm {path} && snakemake" in line or "git pull" in line


def test_a_sound_session_is_trusted(lab: Path) -> None:
    assert session.distrusted(session_of(lab)) == []
    (session_of(lab) / "roofline.json").unlink()
    assert session.distrusted(session_of(lab)) == []


@pytest.mark.parametrize("damage", [TABLE[0][1], TABLE[5][1]], ids=["truncated", "foreign device"])
def test_its_session_stops_and_the_others_are_drawn(two: Path, damage: Damage) -> None:
    path = one_file(two, "minigpt-fp32-S32.*")
    spoil(path, damage)
    drawn = [folder / "roofline.png" for folder in (session_of(two), two / "results" / "another")]
    for each in drawn:
        each.unlink()
    before = paid_files(two)
    told = refused(two, "report")
    assert told.count(f"{path.relative_to(two)}: ") == 1
    assert [each.exists() for each in drawn] == [False, True]
    assert paid_files(two) == before


def test_measuring_goes_on_beside_a_bad_record_and_the_repair_is_the_command_it_names(lab: Path) -> None:
    bad, gone = one_file(lab, "minigpt-fp32-S32.*"), one_file(lab, "minigpt-fp32-S48.*")
    spoil(bad, edited)
    gone.unlink()
    told = refused(lab)
    assert gone.exists() and f"rm {bad.relative_to(lab)} && snakemake --cores 1" in told
    bad.unlink()
    run(lab)
    assert session.distrusted(session_of(lab)) == [] and bad.exists()


def test_the_dry_run_shows_the_error_too(lab: Path) -> None:
    path = one_file(lab, "minigpt-fp32-S32.*")
    spoil(path, edited)
    assert f"{path.relative_to(lab)}: edited or damaged" in run(lab, "-n")


def test_a_failed_attempt_is_shown_as_a_hole_planned_again_and_never_in_the_way(lab: Path) -> None:
    first = one_file(lab, "minigpt-fp32-S32.*")
    resealed(status="failed", reason="no memory left", remedy="close the other program", series=[])(first)
    again = str(first.relative_to(lab / "results")).replace(".json", ".2.json")
    run(lab, "report")
    model = json.loads((session_of(lab) / "roofline.json").read_text())
    assert [(h["status"], h["remedy"]) for h in model["holes"] if h["name"] == "minigpt-fp32-S32"] == [
        ("failed", "close the other program")
    ]
    assert pending(lab) == {again}
    failed = first.read_bytes()
    run(lab)
    assert first.read_bytes() == failed and (lab / "results" / again).exists() and pending(lab) == set()


def test_a_failed_attempt_on_another_host_makes_no_stranger() -> None:
    here = {"status": "measured", "device": {"name": "A", "cores_physical": 2, "threads": 2}}
    there = {"status": "failed", "device": {"name": "B", "cores_physical": 2, "threads": 2}}
    known = {Path("a.json"): here, Path("b.json"): here, Path("c.json"): there}
    assert identity.strangers("cpu", known) == []
    [line] = identity.strangers("cpu", known | {Path("c.json"): there | {"status": "measured"}})
    assert line.startswith("c.json: not of this session's device (name: A there, B here)")


def test_an_edit_whose_time_was_set_back_is_found(lab: Path) -> None:
    path = one_file(lab, "*S32*")
    times = path.stat()
    edited(path)
    os.utime(path, (times.st_atime, times.st_mtime))
    assert "does not match the hash" in refused(lab, "report")


@pytest.mark.parametrize("arguments", [("-F", "plot"), ("-F",), ("-R", "cpu_peak_flops")])
def test_a_forced_run_measures_nothing_again(lab: Path, arguments: tuple[str, ...]) -> None:
    before = paid_files(lab)
    assert "would measure again what is paid for" in refused(lab, *arguments)
    assert paid_files(lab) == before


def test_a_folder_of_another_kind_of_name_is_told_and_left_out(lab: Path) -> None:
    shutil.copytree(session_of(lab) / "cpu", lab / "results" / "My Session" / "cpu")
    assert "results/My Session: left out" in run(lab, "plot")

"""Records round-trip, upgrade and refusal."""

import json
import os
from pathlib import Path

import pytest
from rooflab.record import records
from rooflab.record.publish import write_json
from rooflab.record.records import RecordError, canonical_json, digest, read_record, seal

SPEC = {"stage": "device", "side": "cpu", "protocol": 1}


def record(**changes: object) -> dict[str, object]:
    body = {
        "schema": "measurement", "schema_version": 1, "stage": "device", "side": "cpu", "name": "device",
        "key": digest(SPEC)[:8], "attempt": 1, "spec": SPEC, "status": "measured", "reason": None, "remedy": None,
        "operator": None, "dtype": None, "shape": {}, "series": [], "details": {}, "device": {"name": "x"},
        "environment": {}, "started_at": "2026-01-01T00:00:00Z", "seconds": 0.5,
    }  # fmt: skip
    return seal(body | changes)


def put(folder: Path, made: dict[str, object], name: str | None = None) -> Path:
    path = folder / (name or f"device.{digest(SPEC)[:8]}.json")
    write_json(path, made, indent=None)
    return path


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_record(put(tmp_path, record())) == record()


def test_numbers_and_key_order_do_not_change_a_digest() -> None:
    assert digest({"n": 4096.0, "a": 1}) == digest({"a": 1, "n": 4096})
    assert canonical_json({"b": [1.0, 0.5]}) == '{"b":[1,0.5]}'
    assert digest({"n": 4096}) != digest({"n": 4097})


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: "", "not JSON"),
        (lambda text: text[: len(text) // 2], "not JSON"),
        (lambda text: text.replace('"seconds": 0.5', '"seconds": 0.4'), "does not match the hash"),
        (lambda text: "[]", "not a measurement record"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_its_repair(tmp_path: Path, damage, told: str) -> None:
    path = put(tmp_path, record())
    path.write_text(damage(path.read_text()))
    with pytest.raises(RecordError, match=told) as error:
        read_record(path)
    assert str(path) in str(error.value) and f"rm {path}" in str(error.value)


def test_a_newer_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="newer than this program reads"):
        read_record(put(tmp_path, record(schema_version=2)))


def test_an_older_format_is_read_through_its_upgrade(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = {k: v for k, v in record(schema_version=0).items() if k not in ("remedy", "sha256")}
    monkeypatch.setitem(records.UPGRADES, 0, lambda r: r | {"schema_version": 1, "remedy": None})
    assert read_record(put(tmp_path, seal(old)))["remedy"] is None


def test_a_record_under_another_measurement_s_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="not the one its name says"):
        read_record(put(tmp_path, record(), name="device.00000000.json"))


def test_a_record_with_a_foreign_field_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="gflops"):
        read_record(put(tmp_path, record(gflops=1.0)))


def test_a_failed_record_must_say_why(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="reason"):
        read_record(put(tmp_path, record(status="failed")))


def test_a_failed_write_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path, record())
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_json(path, {"other": 1})
    assert json.loads(path.read_text()) == record()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_nan_never_reaches_a_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "x.json", {"v": float("nan")})


@pytest.mark.parametrize("version", [None, "1", -3, 1.5])
def test_a_format_that_never_was_is_refused(tmp_path: Path, version: object) -> None:
    with pytest.raises(RecordError, match="none that this program knows"):
        read_record(put(tmp_path, record(schema_version=version)))


def test_half_a_record_with_a_right_hash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="started_at missing"):
        read_record(put(tmp_path, seal({k: v for k, v in record().items() if k not in ("sha256", "started_at")})))


def test_the_repair_can_be_pasted_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "my results"
    folder.mkdir()
    with pytest.raises(RecordError, match=r"rm '.*my results.*' && snakemake --cores 1"):
        read_record(put(folder, {"schema": "measurement"}))


@pytest.mark.parametrize("sample", [-1.0, "0.1", None, True, [0.1]])
def test_a_bad_sample_among_a_thousand_is_found(sample: object) -> None:
    path = next((Path(__file__).parents[1] / "results" / "nvidia-h200" / "gpu").glob("launch_floor.*.json"))
    record = json.loads(path.read_text())
    records.check_schema("measurement", record, "here")
    record["series"][0]["samples_s"][700] = sample
    with pytest.raises(records.RecordError, match="here: series/0/samples_s"):
        records.check_schema("measurement", record, "here")

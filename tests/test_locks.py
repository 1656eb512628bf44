"""One place per host for the locks that keep measurements apart, for every user, checkout and TMPDIR."""

import os
import stat
from pathlib import Path

import pytest
from rooflab.machine import locks, preflight
from rooflab.machine.preflight import FAIL, OK
from rooflab.record import handover


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(handover.LOCKS, raising=False)
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(locks, "PLACES", (tmp_path / "absent", shared))
    return shared


def test_tmpdir_does_not_move_the_lock(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = set()
    for name in ("one", "other"):
        monkeypatch.setenv("TMPDIR", str(tmp_path / name))
        monkeypatch.setattr("tempfile.tempdir", None)
        found.add(locks.host_lock("host"))
    assert found == {place / "rooflab-host.lock"}


def test_containers_that_share_a_card_may_name_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(handover.LOCKS, str(tmp_path / "named"))
    with locks.held(locks.host_lock("host")):
        assert locks.take(tmp_path / "named" / "rooflab-host.lock", wait=False) is None


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_every_user_may_take_the_lock_whatever_the_umask_of_the_first(mask: int) -> None:
    before = os.umask(mask)
    try:
        with locks.held(locks.host_lock("host")):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(locks.host_lock("host").stat().st_mode) == 0o666


def test_a_link_in_the_lock_s_place_is_not_followed(place: Path, tmp_path: Path) -> None:
    (place / "rooflab-host.lock").symlink_to(tmp_path / "elsewhere")
    found = preflight.lock(locks.host_lock("host"))
    assert found.level == FAIL and "rm " in str(found.remedy)
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_can_be_opened_is_told(place: Path) -> None:
    assert preflight.lock(locks.host_lock("host")).level == OK

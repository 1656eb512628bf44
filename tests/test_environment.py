"""What a record says of its surroundings: the commit of this checkout and no other, the packages that really ran."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from lab import git
from rooflab.machine import faults, preflight
from rooflab.machine.preflight import WARN
from rooflab.record import environment


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "results").mkdir(parents=True)
    (folder / "code.py").write_text("x")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


def test_a_checkout_has_its_commit_and_its_dirt(checkout: Path) -> None:
    assert environment.git_state(checkout)["dirty"] is False
    (checkout / "code.py").write_text("y")
    assert environment.git_state(checkout)["dirty"] is True


def test_a_download_inside_another_repository_has_no_commit(checkout: Path) -> None:
    inside = checkout / "results" / "rooflab"
    inside.mkdir()
    told = environment.git_state(inside)
    assert told["commit"] is None and "inside another repository" in told["reason"]


def test_a_download_is_no_checkout(tmp_path: Path) -> None:
    assert environment.git_state(tmp_path)["reason"] == "not a git checkout"


def test_no_git_is_told_as_such(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert environment.git_state(checkout)["reason"] == "git is not installed"


def test_a_checkout_of_another_owner_has_its_commit(checkout: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    subprocess.run(["chown", "-R", "65534", str(checkout)], check=True)
    assert environment.git_state(checkout)["dirty"] is False


def test_the_version_is_that_of_the_module_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("numpy")
    other.__version__ = "1.99"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "numpy", other)
    assert environment.installed("numpy") == "1.99"
    assert environment.installed("no-such-thing") is None


def test_of_two_distributions_the_first_on_the_path_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [SimpleNamespace(metadata={"Name": "numpy"}, version=each) for each in ("1.26", "2.4")]
    monkeypatch.setattr(faults.metadata, "distributions", lambda: iter(both))
    assert faults.installed_packages() == {"numpy": "1.26"}


def test_a_package_from_pythonpath_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "somepackage").mkdir()
    (tmp_path / "somepackage" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    [found] = preflight.foreign("somepackage", f"/nowhere:{tmp_path}")
    assert found.level == WARN and "somepackage comes from PYTHONPATH" in found.text
    assert preflight.foreign("somepackage", "/nowhere") == []
    assert preflight.foreign("no_such_package", str(tmp_path)) == []


def test_no_home_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert preflight.private("/home/someone/results") == "~/results"

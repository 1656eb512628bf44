"""The set-up's decisions, on made-up machines: no network, no environment is built."""

import argparse
import ast
import ctypes
import fcntl
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

import cuda_choice  # noqa: E402
import make_venv  # noqa: E402
import pip_run  # noqa: E402
import setup  # noqa: E402
from cuda_choice import Choice, Driver  # noqa: E402

OPEN_MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder)  Sun Jul 27"
)
CLOSED_MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023"
ARM_MODULE = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build"
DRIVER_580 = Driver("test", (580, 65, 6), 13000)
DRIVER_535 = Driver("test", (535, 104, 5), 12020)
DRIVER_470 = Driver("test", (470, 57, 2), None)


def no_library(name: str) -> ctypes.CDLL:
    raise OSError(name)


def library(cuda: int, status: int = 0) -> Callable[[str], Any]:
    def version(pointer: Any) -> int:
        pointer._obj.value = cuda
        return status

    return lambda name: SimpleNamespace(cuDriverGetVersion=version)


def test_no_driver_is_found_on_an_empty_machine(tmp_path: Path) -> None:
    assert cuda_choice.find_driver(tmp_path, no_library) is None


def test_the_kernel_module_the_library_or_the_device_file_is_a_driver(tmp_path: Path) -> None:
    assert cuda_choice.find_driver(tmp_path, library(13000)) == Driver("libcuda.so.1", None, 13000)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    assert cuda_choice.find_driver(tmp_path, no_library) == Driver("/dev/nvidiactl", None, None)
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(CLOSED_MODULE)
    found = cuda_choice.find_driver(tmp_path, library(12020))
    assert found == Driver("/proc/driver/nvidia/version", (535, 104, 5), 12020)


def test_the_link_time_copy_of_libcuda_is_no_driver(tmp_path: Path) -> None:
    assert cuda_choice.find_driver(tmp_path, library(0, status=34)) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (OPEN_MODULE, (580, 65, 6)),
        (CLOSED_MODULE, (535, 104, 5)),
        (ARM_MODULE, (570, 86, 15)),
        ("NVRM version: none", None),
    ],
)
def test_driver_version(text: str, version: tuple[int, ...] | None) -> None:
    assert cuda_choice.parse_driver_version(text) == version


@pytest.mark.parametrize(
    ("gpu", "cuda", "driver", "system", "expected"),
    [
        ("auto", None, None, None, Choice("none", None)),
        ("auto", None, DRIVER_535, None, Choice("wheel", 12)),
        ("auto", None, DRIVER_580, None, Choice("wheel", 12)),
        ("auto", 13, DRIVER_580, None, Choice("wheel", 13)),
        ("auto", None, DRIVER_580, 13, Choice("system", 13)),
        ("auto", None, None, 13, Choice("system", 13)),
        ("auto", 12, DRIVER_580, 13, Choice("wheel", 12)),
        ("0", None, DRIVER_580, 13, Choice("none", None)),
        ("1", None, None, None, Choice("wheel", 12)),
        ("1", 13, None, None, Choice("wheel", 13)),
    ],
)
def test_choice(gpu: str, cuda: int | None, driver: Driver | None, system: int | None, expected: Choice) -> None:
    assert cuda_choice.choose(gpu, cuda, driver, system) == expected


@pytest.mark.parametrize(
    ("cuda", "driver", "system"),
    [
        (None, DRIVER_470, None),
        (13, DRIVER_535, None),
        (None, DRIVER_535, 13),
        (None, Driver("x", (535, 1), 11040), None),
    ],
)
def test_an_old_driver_is_told_with_the_remedy(cuda: int | None, driver: Driver, system: int | None) -> None:
    with pytest.raises(SystemExit, match=r"needs driver (525|580) or newer: update the driver.*make setup GPU=0"):
        cuda_choice.choose("auto", cuda, driver, system)


def test_two_cupy_wheels_are_refused() -> None:
    with pytest.raises(SystemExit, match="2 CuPy installed .*pip uninstall cupy-cuda12x cupy-cuda13x"):
        cuda_choice.check_cupy({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"}, [])


@pytest.mark.parametrize(
    "packages",
    [
        {"cupy-cuda12x": "14.2.0", "nvidia-cublas": "13.1.0"},
        {"cupy-cuda12x": "14.2.0", "nvidia-cublas-cu12": "12.9.1", "nvidia-cuda-nvrtc": "13.0.88"},
        {"cupy-cuda13x": "14.2.0", "nvidia-cublas-cu12": "12.9.1"},
        {"cupy-cuda13x": "14.2.0", "nvidia-cuda-runtime-cu11": "11.8.89"},
    ],
)
def test_cupy_beside_another_cuda_major_is_refused(packages: dict[str, str]) -> None:
    with pytest.raises(SystemExit, match="CUDA libraries of another major release"):
        cuda_choice.check_cupy(packages, [])


def test_a_bare_cu13_folder_counts_as_cuda_13(tmp_path: Path) -> None:
    (tmp_path / "nvidia/cu13").mkdir(parents=True)
    with pytest.raises(SystemExit, match="the folder nvidia/cu13"):
        cuda_choice.check_cupy({"cupy-cuda12x": "14.2.0"}, [tmp_path])
    cuda_choice.check_cupy({"cupy-cuda13x": "14.2.0"}, [tmp_path])


def test_one_cuda_major_passes() -> None:
    cuda_choice.check_cupy({"cupy-cuda13x": "14.2.0", "nvidia-cublas": "13.1.0", "nvidia-nccl-cu12": "2.2"}, [])
    cuda_choice.check_cupy({"cupy-cuda12x": "14.2.0", "nvidia-cublas-cu12": "12.9.1", "numpy": "2.4.6"}, [])


@pytest.mark.parametrize("version", [(2, 7), (3, 8), (3, 10), (3, 14)])
def test_a_python_without_locked_packages_is_refused_and_a_supported_one_named(
    tmp_path: Path, version: tuple[int, int]
) -> None:
    with pytest.raises(
        SystemExit, match=r"is not supported: .*3\.11, 3\.12 and 3\.13.*Snakemake 7.*: install one of these"
    ):
        setup.check_python(version, str(tmp_path))
    for name in ("python3.11", "python3.12", "python3.14"):
        (tmp_path / name).touch(mode=0o755)
    with pytest.raises(SystemExit, match=r"make setup PYTHON=python3\.12$"):
        setup.check_python(version, str(tmp_path))


@pytest.mark.parametrize("version", [(3, 11), (3, 12, 1), (3, 13)])
def test_a_supported_python_passes(version: tuple[int, ...]) -> None:
    setup.check_python(version, "")


def test_the_oldest_python_understands_the_refusal() -> None:
    """Python 2.7 knows neither f-strings nor annotations: a SyntaxError would hide the sentence."""
    tree = ast.parse((TOOLS / "setup.py").read_text(encoding="ascii"))
    assert not [node for node in ast.walk(tree) if isinstance(node, (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr))]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert not [each.name for each in functions if each.returns or any(a.annotation for a in each.args.args)]


def test_missing_venv_module_names_the_debian_package() -> None:
    with pytest.raises(SystemExit, match=r"lacks module ensurepip.*apt-get install python3\.\d+-venv"):
        make_venv.check_venv_module(find=lambda name: None if name == "ensurepip" else name)


@pytest.mark.parametrize("arguments", [["--gpu", "yes"], ["--cuda", "11"], ["--wheels", "/no/such/folder"]])
def test_wrong_option_values_are_one_sentence(arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^(GPU=yes|CUDA=11|WHEELS=/no/such/folder) is not "):
        make_venv.parse_options(arguments)


def options(*arguments: str) -> argparse.Namespace:
    return make_venv.parse_options(list(arguments))


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    return tmp_path


def stamp(venv: Path, choice: Choice, *arguments: str) -> dict[str, Any] | None:
    (venv / "setup.json").write_text(json.dumps(make_venv.make_stamp(venv, choice, options(*arguments))))
    return make_venv.read_stamp(venv)


def test_a_finished_environment_serves_the_same_options(venv: Path) -> None:
    assert make_venv.serves(stamp(venv, Choice("none", None)), options(), None)
    assert make_venv.serves(stamp(venv, Choice("wheel", 12)), options(), DRIVER_535)


def test_an_unfinished_moved_or_outdated_environment_is_not_taken_for_ready(venv: Path, tmp_path: Path) -> None:
    assert make_venv.read_stamp(venv) is None
    good = stamp(venv, Choice("none", None))
    assert good is not None
    for change in ({"place": "/elsewhere"}, {"locks": "0" * 64}, {"source": "wheel", "cuda": 11}):
        (venv / "setup.json").write_text(json.dumps({**good, **change}))
        assert make_venv.read_stamp(venv) is None
    (venv / "setup.json").write_text("{")
    assert make_venv.read_stamp(venv) is None
    stamp(venv, Choice("none", None))
    (venv / "bin/python").unlink()
    assert make_venv.read_stamp(venv) is None


def test_a_test_environment_runs_the_workflow_but_not_the_other_way_round(venv: Path) -> None:
    assert make_venv.serves(stamp(venv, Choice("none", None), "--test"), options(), None)
    assert not make_venv.serves(stamp(venv, Choice("none", None)), options("--test"), None)


def test_auto_notices_a_driver_that_came_later_and_keeps_what_was_asked_for(venv: Path) -> None:
    without = Choice("none", None)
    assert not make_venv.serves(stamp(venv, without), options(), DRIVER_580)
    assert make_venv.serves(stamp(venv, without, "--gpu", "0"), options(), DRIVER_580)
    assert make_venv.serves(stamp(venv, Choice("wheel", 13), "--gpu", "1", "--cuda", "13"), options(), None)


def test_explicit_options_replace_another_choice(venv: Path) -> None:
    assert not make_venv.serves(stamp(venv, Choice("wheel", 12)), options("--cuda", "13"), DRIVER_580)
    assert not make_venv.serves(stamp(venv, Choice("wheel", 12)), options("--gpu", "0"), DRIVER_580)
    assert not make_venv.serves(stamp(venv, Choice("none", None)), options("--gpu", "1"), None)


def test_lock_files_exist_and_tests_without_cupy_get_a_compiler() -> None:
    choices = [Choice("none", None), Choice("wheel", 12), Choice("wheel", 13), Choice("system", 13)]
    names = {(c.source, t): [f.stem for f in make_venv.lock_files(c, t)] for c in choices for t in (False, True)}
    assert names["none", True] == ["test", "nvrtc"]
    assert names["system", False] == ["base"]
    assert all(file.is_file() for c in choices for t in (False, True) for file in make_venv.lock_files(c, t))


def versions(pin: str) -> set[str]:
    return set(re.findall(r"^[^ ]+==([^ ]+)", pin, re.M))


def test_locks_agree_on_every_version_and_name_no_host() -> None:
    folder = TOOLS.parent / "requirements"
    tested = pip_run.pins([folder / "test.lock", folder / "nvrtc.lock"])
    for lock in sorted(folder.glob("*.lock")):
        assert "://" not in lock.read_text()
        pins = pip_run.pins([lock])
        assert {name for name in pins if "--hash=sha256:" not in pins[name]} == set()
        assert {name for name in pins.keys() & tested if versions(pins[name]) != versions(tested[name])} == set()


def test_a_failed_build_leaves_no_stamp(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp(venv, Choice("none", None))
    monkeypatch.setattr(make_venv, "make_venv", lambda venv, choice: venv / "bin/python")
    monkeypatch.setattr(pip_run, "try_pip", lambda command, locks, run: "ERROR: no such thing")
    with pytest.raises(SystemExit, match="no such thing"):
        make_venv.build(venv, Choice("none", None), options())
    assert make_venv.read_stamp(venv) is None


def test_only_one_setup_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with make_venv.alone(lock), lock.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

"""`snakemake doctor`: the whole examination on demand, last on the screen, in a file, and nowhere else."""

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lab
import pytest
from free import doctor
from oldest import oldest_snakemake
from rooflab.machine import detect, locks, nvml, preflight
from rooflab.machine.preflight import FAIL, GIB, OK, WARN, Finding
from rooflab.measure.cuda import preflight as cuda_preflight
from rooflab.measure.cuda.device import DeviceError
from rooflab.reference.minigpt import geometry_of, seeded_weights
from rooflab.reference.weights import save_weights

H200 = {
    "index": 0,
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "pci_bus_id": "0000:1b:00.0",
    "memory_bytes": 1,
    "mig": None,
}


def levels(found: list[Finding], topic: str) -> list[str]:
    return [each.level for each in found if each.topic == topic]


def text(found: list[Finding]) -> str:
    return "\n".join(f"{each.text} {each.remedy or ''}" for each in found)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without an NVIDIA device, in an empty folder."""

    def refuse() -> None:
        raise nvml.NvmlError("NVML cannot be used: NVML Shared Library Not Found")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(nvml, "list_gpus", refuse)
    monkeypatch.setattr(detect, "has_nvidia_hardware", lambda: False)
    return monkeypatch


@pytest.fixture
def one_gpu(no_gpu: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    no_gpu.setattr(nvml, "list_gpus", lambda: [H200])
    no_gpu.setattr(locks, "host_lock", lambda name: tmp_path / f"{name}.lock")
    no_gpu.setattr(cuda_preflight, "examine", lambda: [Finding(OK, "cuda", "opened")])
    return no_gpu


def test_a_machine_without_a_gpu_is_ready_for_a_cpu_session(no_gpu: pytest.MonkeyPatch) -> None:
    no_gpu.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    found = doctor.examine("auto", {"CUDA_LAUNCH_BLOCKING": "1"})
    assert FAIL not in {each.level for each in found}, text(found)
    assert "a CPU session (no NVIDIA device here)" in text(found)
    assert {"machine", "cpu", "packages", "results", "disk", "lock"} == {each.topic for each in found} - {"variables"}
    assert "BLAS: openblas" in text(found) and "numpy" in text(found)


def test_a_gpu_that_is_named_and_not_there_is_a_failure(no_gpu: pytest.MonkeyPatch) -> None:
    found = doctor.examine("nvidia-h200", {"CUDA_LAUNCH_BLOCKING": "1"})
    assert levels(found, "machine") == [FAIL] and levels(found, "driver") == [FAIL]
    assert "CUDA_LAUNCH_BLOCKING" in text(found)
    assert "--gpus all" in text(found)


def test_hardware_without_its_driver_is_a_failure_not_a_cpu_session(no_gpu: pytest.MonkeyPatch) -> None:
    no_gpu.setattr(detect, "has_nvidia_hardware", lambda: True)
    found = [*doctor.machine("auto"), *doctor.driver()]
    assert [each.level for each in found] == [FAIL, FAIL]
    assert "has an NVIDIA device that cannot be used" in text(found)


def test_the_cpu_alone_leaves_the_gpu_aside(one_gpu: pytest.MonkeyPatch) -> None:
    found = doctor.examine("cpu", {})
    assert levels(found, "cuda") == []
    assert "as the config's device says" in text(found)


def test_a_gpu_is_listed_and_opened(one_gpu: pytest.MonkeyPatch) -> None:
    found = doctor.examine("auto", {})
    assert levels(found, "cuda") == [OK]
    assert "nvidia-h200: a GPU session" in text(found)
    assert "NVIDIA H200, GPU-1: the one that is measured" in text(found)


def test_of_several_gpus_the_report_says_which_is_measured_and_which_is_hidden(one_gpu: pytest.MonkeyPatch) -> None:
    one_gpu.setattr(nvml, "list_gpus", lambda: [H200, H200 | {"index": 1, "uuid": "GPU-2"}])
    one_gpu.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [each.text for each in doctor.driver()] == [
        "NVIDIA H200, GPU-1: hidden from CUDA",
        "NVIDIA H200, GPU-2: the one that is measured",
    ]


def test_a_measurement_at_work_is_not_disturbed(one_gpu: pytest.MonkeyPatch) -> None:
    with locks.held(locks.host_lock("host")):
        found = doctor.gpu("auto")
    assert levels(found, "cuda") == [WARN] and "was left alone" in text(found)
    assert levels(doctor.gpu("auto"), "cuda") == [OK]


def test_what_cannot_be_looked_at_is_a_failure_among_the_others(one_gpu: pytest.MonkeyPatch) -> None:
    def crash() -> None:
        raise OSError("no such thing")

    one_gpu.setattr(cuda_preflight, "examine", crash)
    found = doctor.examine("auto", {})
    assert levels(found, "gpu") == [FAIL] and "OSError: no such thing" in text(found)
    assert levels(found, "machine") == [OK]


def test_packages_that_fight_are_found() -> None:
    assert levels(doctor.packages({"cupy-cuda12x": "14", "cupy-cuda13x": "14"}), "packages") == [OK, FAIL]
    found = doctor.packages({"cupy-cuda12x": "14.2.0", "nvidia-cuda-nvrtc": "13.5.37"})
    assert levels(found, "packages") == [OK, WARN] and "nvidia-cuda-nvrtc 13.5.37" in text(found)


MINIGPT = {"layers": 1, "heads": 2, "kv_heads": 2, "head_dim": 4, "vocabulary": 8, "context": 8}


def test_the_user_s_weights_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    assert doctor.weights(MINIGPT | {"weights": None}) == []
    assert levels(doctor.weights(MINIGPT | {"weights": str(path)}), "weights") == [FAIL]
    save_weights(path, seeded_weights(geometry_of(**MINIGPT), 0))
    assert levels(doctor.weights(MINIGPT | {"weights": str(path)}), "weights") == [OK]
    [wrong] = doctor.weights(MINIGPT | {"weights": str(path), "layers": 2})
    assert wrong.level == FAIL and "missing" in wrong.text


@pytest.mark.parametrize(("load", "level"), [(0.1, OK), (3.9, OK), (4.1, WARN)])
def test_a_busy_host_is_a_warning(load: float, level: str) -> None:
    assert doctor.load(load, 8).level == level


class FakeDevice:
    def properties(self) -> dict[str, Any]:
        return H200 | {"compute_capability": "9.0", "sm_count": 132}

    def versions(self) -> dict[str, Any]:
        return {"cupy": "14.2.0", "cuda_runtime": 13020, "cuda_driver": 13000, "cublas": 130100, "nvrtc": "13.0"}

    def memory(self) -> tuple[int, int]:
        return 139 * GIB, 140 * GIB


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A CUDA that opens, with a chip in whose persistence mode is off."""
    facts = {"driver_version": "580.159.04", "persistence_enabled": False}
    chip = SimpleNamespace(device_facts=lambda: facts, state=lambda: {"throttle_reasons": ["gpu_idle"]})
    monkeypatch.setenv("CUPY_CACHE_IN_MEMORY", "0")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    monkeypatch.setattr(cuda_preflight, "open_device", FakeDevice)
    monkeypatch.setattr(cuda_preflight, "open_library", lambda: None)
    monkeypatch.setattr(cuda_preflight, "open_nvml", lambda key: chip)
    monkeypatch.setattr(cuda_preflight, "other_processes", lambda: {"count": 0, "memory_bytes": 0, "pids": []})
    monkeypatch.setattr(
        cuda_preflight, "loaded_libraries", lambda: [Path("/home/someone/.venv/lib/libcublasLt.so.13.1.0.3")]
    )
    return monkeypatch


def test_what_cuda_is_and_what_it_loaded_is_told(cuda: pytest.MonkeyPatch) -> None:
    found = cuda_preflight.examine()
    told = text(found)
    assert "driver 580.159.04, which serves CUDA 13.0; CuPy 14.2.0 is built with CUDA 13.2" in told
    assert "NVRTC 13.0 compiled a kernel for fp16" in told
    assert "~/.venv/lib/libcublasLt.so.13.1.0.3" in told and "someone" not in told
    assert "139.0 of 140.0 GiB" in told
    assert [each.text for each in found if each.level == WARN][0].startswith("persistence mode is off")


def test_a_cuda_that_does_not_open_is_a_failure_beside_what_it_loaded(cuda: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DeviceError("no headers", "install them")

    cuda.setattr(cuda_preflight, "open_device", refuse)
    found = cuda_preflight.examine()
    assert levels(found, "cuda") == [FAIL] and "install them" in text(found)
    assert levels(found, "loaded") == [OK]


@pytest.mark.gpu
def test_the_real_gpu_is_examined() -> None:
    found = cuda_preflight.examine()
    told = text(found)
    assert levels(found, "cuda") == [OK], told
    for library in ("libcublas.so", "libcublasLt.so", "libnvrtc.so"):
        assert library in told
    assert "compiled a kernel for fp16" in told


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lab.copy_code(tmp_path_factory.mktemp("doctor") / "lab")


def told_by(folder: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit status and everything on the terminal, in its order."""
    done = subprocess.run(
        lab.command(*arguments),
        cwd=folder,
        env=lab.environment(folder) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=lab.LIMIT_S,
    )
    return done.returncode, done.stdout


def test_a_dry_run_examines_and_measures_nothing(checkout: Path) -> None:
    status, told = told_by(checkout, "-n", "doctor")
    assert status == 0 and "Is this machine ready" not in told and "gpu " not in told
    assert not (checkout / "logs").exists() and not (checkout / "results").exists()


def test_the_report_is_the_last_thing_on_the_screen_and_the_same_in_the_file(checkout: Path) -> None:
    for _ in range(2):  # it is never up to date
        status, told = told_by(checkout, "doctor")
        report = (checkout / "logs" / "doctor.txt").read_text()
        assert status == 0, told
        assert told.endswith(report) and "Ready to measure." in report
        assert "left to measure" not in told
        (checkout / "logs" / "doctor.txt").unlink()
    assert not (checkout / "results").exists()
    assert not list((checkout / ".snakemake" / "locks").glob("*"))


def test_a_failure_is_the_exit_status_and_still_last(checkout: Path) -> None:
    status, told = told_by(checkout, "doctor", "--config", "device=no-such-gpu")
    report = (checkout / "logs" / "doctor.txt").read_text()
    assert status == 1 and told.endswith(report) and preflight.says_not_ready(report)
    assert "Traceback" not in told
    assert not (checkout / "results").exists()


def test_the_oldest_snakemake_ends_with_the_report_too(checkout: Path) -> None:
    status, told = told_by(checkout, "doctor", **oldest_snakemake())
    _, found, after = told.partition((checkout / "logs" / "doctor.txt").read_text().rstrip())
    # 9.11 says from a thread of its own where its log lies, now and then after the report
    assert status == 0 and found and all(line.startswith("Complete log(s)") for line in after.split("\n") if line)

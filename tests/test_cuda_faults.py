"""Every known way in which CUDA fails to start has a message and a remedy of its own."""

import pytest
from rooflab.machine.faults import DeviceError, Symptoms, diagnose, refuse_two_cupys, stray_wheels

TOO_OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
NO_DEVICE = "cudaErrorNoDevice: no CUDA-capable device is detected"

# What CUDA, CuPy and the loader say, word for word, and what the reader must be told to do.
FAULTS = {
    "no driver in the container": (Symptoms(TOO_OLD, 0, 12090), "--gpus all"),
    "a container without the compute part of the driver": (
        Symptoms(TOO_OLD, 0, 12090, driver_capabilities="utility"),
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ),
    "a driver older than CuPy's CUDA": (Symptoms(TOO_OLD, 12040, 13020), "make setup GPU=1, which chooses"),
    "the GPU hidden": (Symptoms(NO_DEVICE, 13000, 12090, visible_devices="7"), "unset CUDA_VISIBLE_DEVICES"),
    "a driver without a GPU": (Symptoms(NO_DEVICE, 13000, 12090), "nvidia-smi -L"),
    "no fabric manager": (Symptoms("cudaErrorSystemNotReady: system not yet initialized", 13000), "fabricmanager"),
    "an updated driver, not rebooted": (
        Symptoms(
            "cudaErrorSystemDriverMismatch: system has unsupported display driver / cuda driver combination", 13000
        ),
        "reboot",
    ),
    "a compatibility library on a GPU that does not support it": (
        Symptoms("cudaErrorCompatNotSupportedOnDevice: forward compatibility was attempted on non supported HW", 13000),
        "cuda-compat",
    ),
    "a broken memory": (
        Symptoms("cudaErrorECCUncorrectable: uncorrectable ECC error encountered", 13000),
        "nvidia-smi -q",
    ),
    "no NVRTC": (Symptoms('Failure finding "libnvrtc.so.13 or libnvrtc.so.12"', 13000), "cuda-toolkit[nvrtc]"),
    "no cuBLAS": (Symptoms('Failure finding "libcublasLt.so.13 or libcublasLt.so.12"', 13000), "cuda-toolkit[cublas]"),
    "no CUDA headers": (
        Symptoms('cupy_jitify.hpp: catastrophic error: cannot open source file "cuda_fp16.h"', 13000),
        "cuda-toolkit[cudart]",
    ),
    "CuPy for CUDA 12 beside libraries of CUDA 13": (
        Symptoms(
            "libcublas.so.12: cannot open shared object file: No such file or directory",
            13000,
            12090,
            libraries=("libcublas.so.13.1.0.3", "libcublasLt.so.13.1.0.3"),
        ),
        "a fresh .venv",
    ),
    "an NVRTC that dropped this GPU": (
        Symptoms("NVRTC_ERROR_INVALID_OPTION (5): nvrtc: error: invalid value for --gpu-architecture (-arch)", 13000),
        "CUDA=12",
    ),
    "an NVRTC newer than the driver": (
        Symptoms("cudaErrorUnsupportedPtxVersion: the provided PTX was compiled with an unsupported toolchain", 13000),
        "update the driver",
    ),
    "cuBLAS and cuBLASLt of two installations": (
        Symptoms("libcublas.so.12: undefined symbol: cublasLtGetEnvironmentMode, version libcublasLt.so.12", 13000),
        "LD_LIBRARY_PATH",
    ),
    "a cache folder that cannot be written": (
        Symptoms("[Errno 30] Read-only file system: '/home/someone/.cupy/kernel_cache/x.cubin'", 13000),
        "CUPY_CACHE_DIR",
    ),
    "a full GPU": (Symptoms("cudaErrorMemoryAllocation: out of memory", 13000), "end that program, run again"),
    "a GPU held exclusively": (
        Symptoms("cudaErrorDevicesUnavailable: CUDA-capable device(s) is/are busy or unavailable", 13000),
        "nvidia-smi -c DEFAULT",
    ),
    "something new": (Symptoms("cudaErrorUnknown: unknown error", 13000), "dmesg"),
}


@pytest.mark.parametrize("cause", FAULTS)
def test_each_way_to_fail_names_its_remedy(cause: str) -> None:
    symptoms, remedy = FAULTS[cause]
    error = diagnose(symptoms)
    assert remedy in error.remedy
    assert error.message and error.message not in symptoms.error


def test_no_two_ways_to_fail_share_their_message() -> None:
    messages = [diagnose(symptoms).message for symptoms, _ in FAULTS.values()]
    assert len(set(messages)) == len(FAULTS)


@pytest.mark.parametrize("text", ["CUBLAS_STATUS_INVALID_VALUE", "libcublas.so: undefined symbol: cublasLtMatmul"])
def test_both_symptoms_of_two_cublas_installations_are_known(text: str) -> None:
    assert "two different CUDA installations" in diagnose(Symptoms(text, 13000)).message


def test_a_container_with_all_of_the_driver_is_not_blamed() -> None:
    for capabilities in ("all", "graphics,compute"):
        assert "no NVIDIA driver" in diagnose(Symptoms(TOO_OLD, 0, 12090, driver_capabilities=capabilities)).message


def test_packages_that_fight_are_named() -> None:
    with pytest.raises(DeviceError, match="cupy-cuda12x, cupy-cuda13x") as caught:
        refuse_two_cupys(["cupy-cuda12x", "cupy-cuda13x"])
    assert "pip uninstall cupy-cuda12x cupy-cuda13x" in caught.value.remedy
    mixed = {"cupy-cuda12x": "14.2.0", "nvidia-cublas-cu12": "12.9.1", "nvidia-cublas": "13.1.0", "nvidia-cufft": "12"}
    assert stray_wheels(mixed) == ["nvidia-cublas 13.1.0"]
    assert stray_wheels({"cupy-cuda13x": "14.2.0", "nvidia-cublas": "13.1.0"}) == []
    assert stray_wheels({"nvidia-cublas": "13.1.0"}) == []

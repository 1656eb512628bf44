"""Every way in which CUDA fails to start becomes one message with its remedy; the plain parts of the device rooms."""

import numpy as np
import pytest
from rooflab.machine.faults import DeviceError, Symptoms, diagnose, loaded_libraries, mixed_majors, refuse_two_cupys
from rooflab.measure.cuda.arrays import FP64_FACTOR, INT8_SCALE, decode, encode
from rooflab.measure.cuda.device import uuid_text
from rooflab.measure.cuda.gemm import neutralise_tf32_environment

TOO_OLD = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
NO_DEVICE = "cudaErrorNoDevice: no CUDA-capable device is detected"


@pytest.mark.parametrize(
    ("symptoms", "message", "remedy"),
    [
        (Symptoms(TOO_OLD, driver_version=0, runtime_version=12090), "no NVIDIA driver", "--gpus all"),
        (
            Symptoms(TOO_OLD, driver_version=12040, runtime_version=13020),
            "serves CUDA 12.4.*needs CUDA 13.2",
            "make setup",
        ),
        (
            Symptoms(NO_DEVICE, 13000, 12090, visible_devices=""),
            "CUDA_VISIBLE_DEVICES=''",
            "unset CUDA_VISIBLE_DEVICES",
        ),
        (Symptoms(NO_DEVICE, 13000, 12090), "sees no device", "nvidia-smi -L"),
        (Symptoms("cudaErrorSystemNotReady: system not yet initialized", 13000), "802", "fabric manager"),
        (Symptoms('Failure finding "libnvrtc.so.13 or libnvrtc.so.12"', 13000), "NVRTC", "nvrtc"),
        (Symptoms('Failure finding "libcublasLt.so.13 or libcublasLt.so.12"', 13000), "cuBLAS was not found", "cublas"),
        (Symptoms('catastrophic error: cannot open source file "cuda_fp16.h"', 13000), "headers", "cudart"),
        (Symptoms("nvrtc: error: invalid value for --gpu-architecture (-arch)", 13000), "below 7.5", "CUDA=12"),
        (Symptoms("libcublas.so.12: undefined symbol: cublasLtGetEnvironmentMode", 13000), "two different", "one CUDA"),
        (Symptoms("cudaErrorMemoryAllocation: out of memory", 13000), "free GPU memory", "nvidia-smi"),
        (
            Symptoms("libcublas.so.12: cannot open shared object file", 13000, 12090, libraries=("libcublasLt.so.13",)),
            "two CUDA major releases.*CuPy's runtime 12, cublasLt 13",
            "fresh .venv",
        ),
        (Symptoms(TOO_OLD, driver_version=11040, runtime_version=12090), "serves CUDA 11.4", "driver to 525 or newer"),
        (Symptoms('catastrophic error: cannot open source file "cuda_bf16.hpp"', 13000), "headers", "cudart"),
        (
            Symptoms("cudaErrorNoKernelImageForDevice: no kernel image is available", 13000),
            "no code for this GPU",
            "CUDA=12",
        ),
        (Symptoms("cudaErrorNotSupported: operation not supported", 13000), "does not support", "update the driver"),
        (Symptoms("something\nnew", 13000), "could not use the device: something", "dmesg"),
        (Symptoms("", 13000), "no text", "dmesg"),
    ],
)
def test_each_failure_has_its_message_and_remedy(symptoms: Symptoms, message: str, remedy: str) -> None:
    error = diagnose(symptoms)
    with pytest.raises(DeviceError, match=message):
        raise error
    assert remedy in error.remedy
    assert error.remedy in str(error)


def test_one_major_release_is_no_fault() -> None:
    assert mixed_majors(["libcublas.so.12", "libcublasLt.so.12.9.1", "libnvrtc.so.12", "libcuda.so.580"], 12090) is None
    assert mixed_majors([], None) is None


def test_two_cupys_are_refused() -> None:
    refuse_two_cupys(["numpy", "cupy-cuda12x", "cupyx-something"])
    with pytest.raises(DeviceError, match="2 CuPy packages .* cupy-cuda12x, cupy-cuda13x"):
        refuse_two_cupys(["cupy-cuda13x", "numpy", "cupy-cuda12x"])


def test_loaded_libraries_are_read_from_the_memory_map() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 00:00 12 /opt/my cuda/libcublas.so.12\n"
        "7f01-7f02 r--p 00000000 00:00 12 /opt/my cuda/libcublas.so.12\n"
        "7f02-7f03 rw-p 00000000 00:00 0 \n"
        "7f03-7f04 r-xp 00000000 00:00 13 /usr/lib/libcudart.so.12.9.79\n"
        "7f04-7f05 r-xp 00000000 00:00 14 /usr/lib/libm.so.6\n"
    )
    assert [path.name for path in loaded_libraries(maps)] == ["libcublas.so.12", "libcudart.so.12.9.79"]


def test_variables_that_change_the_arithmetic_are_unset_and_told() -> None:
    environment = {"NVIDIA_TF32_OVERRIDE": "1", "CUPY_TF32": "1", "HOME": "x"}
    assert neutralise_tf32_environment(environment) == {"NVIDIA_TF32_OVERRIDE": "1", "CUPY_TF32": "1"}
    assert environment == {"HOME": "x"}


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16", "bf16", "fp8_e4m3", "int8", "fp64"])
def test_stored_numbers_are_the_nearest_of_their_dtype(dtype: str) -> None:
    values = np.array([0.0, -1.5, 0.3, 2.75], np.float32)
    factor = {"int8": INT8_SCALE, "fp64": FP64_FACTOR}.get(dtype, 1.0)
    rounding = {"int8": 1e-6, "fp8_e4m3": 2**-4, "bf16": 2**-8, "fp16": 2**-11}.get(dtype, 1e-12)
    assert np.allclose(decode(encode(values, dtype), dtype), values.astype(np.float64) * factor, rtol=rounding, atol=0)


def test_fp64_operands_use_more_than_the_mantissa_of_fp32() -> None:
    stored = encode(np.array([1.0], np.float32), "fp64")
    assert stored.dtype == np.float64
    assert stored[0] != np.float32(stored[0])


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown dtype 'fp4'"):
        encode(np.zeros(1, np.float32), "fp4")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (bytes(range(1, 17)), "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"),
        (bytes(range(1, 17)) + b"rest", "GPU-01020304-0506-0708-090a-0b0c0d0e0f10"),
        (b"\x01\x02\x03", None),  # a UUID with a zero byte, cut there
        (b"", None),
    ],
)
def test_a_uuid_that_was_cut_short_is_unknown_not_an_error(raw: bytes, expected: str | None) -> None:
    assert uuid_text(raw) == expected

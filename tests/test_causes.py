"""Every error that can leave a measurement has its words, its remedy, and whose doing it was."""

import re

import pytest
from rooflab.machine.causes import LostMachine, cause_of
from rooflab.measure.cuda.cublaslt import LtError


def named(name: str, base: type[Exception] = RuntimeError) -> type[Exception]:
    return type(name, (base,), {})


CUDA, CUBLAS, COMPILE = named("CUDARuntimeError"), named("CUBLASError"), named("CompileException", Exception)
MISSING_HEADER = '/tmp/x/3.cu(4): catastrophic error: cannot open source file "cuda_fp16.h"\n1 catastrophic error'


@pytest.mark.parametrize(
    ("error", "reason", "remedy"),
    [
        (LtError("cublasLtMatmul", 15), r"cuBLAS refuses it: .*NOT_SUPPORTED \(15\)", "newer"),
        (CUBLAS("CUBLAS_STATUS_NOT_SUPPORTED"), "cuBLAS refuses it", "newer"),
        (
            COMPILE('/tmp/a/b.cu(7): error: identifier "x" is undefined\n1 error'),
            r"does not compile: b.cu\(7\): error",
            "chip",
        ),
        (COMPILE(MISSING_HEADER), "does not compile.*cuda_fp16.h", r"cuda-toolkit\[cudart\]"),
        (CUDA("cudaErrorIllegalAddress: an illegal memory access was encountered"), "CUDA refuses it", "Xid"),
        (CUDA("cudaErrorLaunchOutOfResources: too many resources requested"), "CUDA refuses it", "report this"),
        (IndexError("list index out of range"), "IndexError: list index", "report this"),
    ],
)
def test_an_error_of_the_measurement_s_own_making(error: Exception, reason: str, remedy: str) -> None:
    found = cause_of(error, crowded=False, memory_remedy="close programs")
    assert found.own
    assert re.search(reason, found.reason) and re.search(remedy, found.remedy), found


@pytest.mark.parametrize(
    "error",
    [MemoryError("8 GiB"), CUDA("cudaErrorMemoryAllocation: out of memory"), CUBLAS("CUBLAS_STATUS_ALLOC_FAILED")],
)
@pytest.mark.parametrize("crowded", [True, False])
def test_memory_is_the_measurement_s_own_affair_only_where_nobody_else_holds_it(
    error: Exception, crowded: bool
) -> None:
    found = cause_of(error, crowded, "close programs")
    assert found.reason.startswith("out of memory") and found.remedy == "close programs"
    assert found.own is not crowded


def test_a_busy_card_is_nobody_s_fault_here() -> None:
    assert not cause_of(CUDA("cudaErrorDevicesUnavailable: busy or unavailable"), False, "").own


@pytest.mark.parametrize("text", ["cudaErrorECCUncorrectable: x", "cudaErrorSystemNotReady: x", "GPU is lost"])
def test_a_machine_that_failed_stops_everything(text: str) -> None:
    with pytest.raises(LostMachine):
        cause_of(CUDA(text), False, "")


def test_a_long_error_becomes_one_short_line() -> None:
    assert len(cause_of(ValueError("many words\n" * 500), False, "").reason) <= 300

"""Why one measurement could not be taken: whose doing it was, in what words, and what to do about it.

An error that leaves a measurement is the machine's (it stops everything), another program's (it is tried again as often as
it takes) or the measurement's own (a few attempts, then it is left out). Known by their texts, so nothing of CUDA is loaded.
"""

import re
from dataclasses import dataclass

from rooflab.machine.faults import DeviceError, Symptoms, diagnose

# CUDA, "Error handling": the card is gone or cannot be trusted, whatever is asked of it next
MACHINE = re.compile(
    r"cudaError(ECCUncorrectable|NoDevice|SystemNotReady|SystemDriverMismatch|InsufficientDriver|InitializationError)"
    r"|GPU is lost|fallen off the bus"
)
BUSY = re.compile(r"cudaErrorDevicesUnavailable|CUDA_ERROR_DEVICE_UNAVAILABLE")
MEMORY = re.compile(r"cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED|[Oo]ut of memory")
LIBRARY = re.compile(r"CUBLAS_STATUS_|cublasLt\w+")
COMPILER = re.compile(r"CompileException|NVRTC_ERROR|NVRTCError|catastrophic error|JitifyException")
KERNEL = re.compile(r"cudaError\w+|CUDA_ERROR_\w+")
MOST_WORDS = 300  # characters of an error that a record quotes; the log holds all of it


class LostMachine(RuntimeError):
    """The device failed in the middle of a measurement: everything stops, and no record is written."""


@dataclass(frozen=True)
class Cause:
    """The words for the record; `own` where another attempt on a free machine would end the same way."""

    reason: str
    remedy: str
    own: bool = True


def cause_of(error: Exception, crowded: bool, memory_remedy: str) -> Cause:
    """The cause of an error that left a measurement; `crowded`: others held memory of the device when it was opened.

    Raises LostMachine where it is the machine's.
    """
    if isinstance(error, DeviceError):  # a library that is missing, found when it was needed
        return Cause(error.message, error.remedy, own=False)
    text = f"{type(error).__name__}: {error}"
    if MACHINE.search(text):
        found = diagnose(Symptoms(text))
        raise LostMachine(str(found)) from error
    if BUSY.search(text):
        return Cause(_quoted(text), "see who holds the GPU with nvidia-smi, end that program, run again", own=False)
    if isinstance(error, MemoryError) or MEMORY.search(text):
        return Cause(f"out of memory: {_quoted(str(error))}", memory_remedy, own=not crowded)
    if COMPILER.search(text):
        return Cause(f"a kernel does not compile: {_compiler_line(str(error))}", _compiler_remedy(text))
    if LIBRARY.search(text):
        return Cause(
            f"cuBLAS refuses it: {_quoted(text)}",
            "this cuBLAS does not have it on this GPU: try a newer one, or go on without it",
        )
    if KERNEL.search(text):
        return Cause(
            f"CUDA refuses it: {_quoted(text)}",
            "dmesg may show an Xid of the driver; report this with the record: a kernel is wrong on this chip",
        )
    return Cause(_quoted(text), "report this with the record and its log")


def _quoted(text: str) -> str:
    """An error in one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= MOST_WORDS else line[: MOST_WORDS - 1] + "…"


def _compiler_line(text: str) -> str:
    """The first line in which the compiler speaks of an error, without the path of the file it compiled."""
    lines = [line for line in text.splitlines() if re.search(r"\berror\b", line)]
    return _quoted(re.sub(r"\S*/", "", lines[0] if lines else text))


def _compiler_remedy(text: str) -> str:
    known = diagnose(Symptoms(text))
    general = "report this with the record and its log: a kernel is not for this chip or this compiler"
    return general if known.message.startswith("CUDA could not use") else known.remedy

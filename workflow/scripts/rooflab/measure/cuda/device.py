"""The GPU as the other device rooms see it. The one module that imports CuPy, and only when a device is opened.

All work goes to one non-blocking stream, which is current for CuPy from the moment the device is open.
"""

import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rooflab.machine.faults import DeviceError, Symptoms, diagnose, loaded_libraries, mixed_majors, refuse_two_cupys
from rooflab.measure.cuda import nvrtc

__all__ = ["Call", "CudaDevice", "DeviceError", "Graph", "open_device"]

# Something to be timed: it enqueues its work on the device's stream and returns.
Call = Callable[[], None]


@dataclass(frozen=True)
class Graph:
    """A captured sequence of launches. It keeps its calls, and with them the arrays whose addresses it holds."""

    handle: Any
    calls: tuple[Call, ...]


def open_device() -> "CudaDevice":
    """The first device that CUDA shows. Raises DeviceError, with a remedy, whatever keeps it from being used."""
    refuse_two_cupys()
    try:
        import cupy
    except ModuleNotFoundError as error:
        raise DeviceError(f"CuPy is not installed ({error})", "make setup GPU=1") from error
    except Exception as error:
        raise diagnose(Symptoms(str(error), libraries=_library_names())) from error
    try:
        device = CudaDevice(cupy)
        device.prove()
    except Exception as error:
        raise diagnose(_symptoms(cupy, error)) from error
    mixed = mixed_majors(_library_names(), cupy.cuda.runtime.runtimeGetVersion())
    if mixed is not None:
        raise mixed
    return device


def _symptoms(cupy: Any, error: Exception) -> Symptoms:
    runtime = cupy.cuda.runtime
    return Symptoms(
        error=str(error),
        driver_version=runtime.driverGetVersion(),
        runtime_version=runtime.runtimeGetVersion(),
        visible_devices=os.environ.get("CUDA_VISIBLE_DEVICES"),
        driver_capabilities=os.environ.get("NVIDIA_DRIVER_CAPABILITIES"),
        libraries=_library_names(),
    )


def _library_names() -> tuple[str, ...]:
    return tuple(sorted({path.name for path in loaded_libraries()}))


class CudaDevice:
    """An open device. `xp` is CuPy, `stream` the stream of all work, `cublas` CuPy's cuBLAS bindings."""

    def __init__(self, cupy: Any) -> None:
        """Opens the current device of `cupy`; CuPy's own exceptions leave as they are (`open_device` explains them)."""
        self.xp = cupy
        self._runtime = cupy.cuda.runtime
        self._runtime.getDeviceCount()
        self._device = cupy.cuda.Device()
        self.compute_capability = int(self._device.compute_capability)
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.stream.use()
        # library handles live outside CuPy's pool: created first, they cannot fail because the pool holds everything
        from cupy_backends.cuda.libs import cublas

        self.cublas: Any = cublas
        self.cublas_handle: int = cupy.cuda.device.get_cublas_handle()
        self._modules: dict[tuple[str, tuple[tuple[str, int], ...]], Any] = {}
        self._properties: dict[str, Any] = self._runtime.getDeviceProperties(self._device.id)
        self._attributes: dict[str, int] = self._device.attributes

    def use(self) -> Any:
        """CuPy, with this device and its stream current in the calling thread, whichever that is."""
        self._device.use()
        self.stream.use()
        return self.xp

    def prove(self) -> None:
        """Compiles and runs a kernel without and one with CUDA headers, so that a missing piece shows at once."""
        empty = self.kernel("bandwidth", "empty", LOADS_IN_FLIGHT=1, RESIDENT=0)
        empty((1,), (32,), ())
        self.xp.ones(1, self.xp.float32).astype(self.xp.float16)
        self.synchronize()

    def synchronize(self) -> None:
        """Waits for everything on the device."""
        self._runtime.deviceSynchronize()

    def properties(self) -> dict[str, Any]:
        """What CUDA says of the device, SI units; None for what this CUDA release does not say."""
        raw, attributes = self._properties, self._attributes
        name = raw["name"]
        return {
            "name": name.decode() if isinstance(name, bytes) else str(name),
            "uuid": uuid_text(raw.get("uuid", b"")),
            "pci_bus_id": self._runtime.deviceGetPCIBusId(self._device.id),
            "compute_capability": f"{self.compute_capability // 10}.{self.compute_capability % 10}",
            "sm_count": int(raw["multiProcessorCount"]),
            "sm_clock_hz": _scaled(attributes.get("ClockRate"), 1000),
            "memory_clock_hz": _scaled(attributes.get("MemoryClockRate"), 1000),
            "memory_bytes": int(raw["totalGlobalMem"]),
            "memory_bus_bits": attributes.get("GlobalMemoryBusWidth") or None,
            "l2_bytes": int(raw["l2CacheSize"]),
            "shared_memory_per_block_bytes": int(raw["sharedMemPerBlock"]),
            "registers_per_sm": attributes.get("MaxRegistersPerMultiprocessor"),
            "ecc_enabled": bool(attributes["EccEnabled"]) if "EccEnabled" in attributes else None,
            "integrated": bool(attributes.get("Integrated", 0)),
        }

    @property
    def sm_count(self) -> int:
        """Streaming multiprocessors."""
        return int(self._properties["multiProcessorCount"])

    def memory(self) -> tuple[int, int]:
        """Bytes free and in total, as CUDA sees them: what CuPy's pool keeps counts as used."""
        free, total = self._runtime.memGetInfo()
        return int(free), int(total)

    def free_pool(self) -> None:
        """Gives the memory that CuPy's pool keeps, and no array uses, back to the device."""
        self.synchronize()
        self.xp.get_default_memory_pool().free_all_blocks()

    def kernel(self, name: str, function: str, **defines: int) -> Any:
        """`function` of one of the kernels of `nvrtc.KERNELS`, compiled with `defines` for this device, once.

        Called as kernel(grid, block, arguments). Raises CuPy's CompileException.
        """
        key = (name, tuple(sorted(defines.items())))
        if key not in self._modules:
            source, options = nvrtc.kernel_source(name), nvrtc.define_options(defines)
            self._modules[key] = self.xp.RawModule(code=source, options=options)
        return self._modules[key].get_function(function)

    def memory_copy(self, to: Any, source: Any) -> Call:
        """A device-to-device cudaMemcpyAsync of the whole array."""
        copy, stream, size = self._runtime.memcpyAsync, self.stream.ptr, source.nbytes
        kind = self._runtime.memcpyDeviceToDevice
        return lambda: copy(to.data.ptr, source.data.ptr, size, kind, stream)

    def fill_bytes(self, array: Any, byte: int) -> None:
        """Sets every byte of a contiguous array."""
        self._runtime.memsetAsync(array.data.ptr, byte, array.nbytes, self.stream.ptr)

    def capture(self, calls: Sequence[Call]) -> Graph:
        """`calls`, in this order, as one graph. Each is made once before, because a first launch may load code.

        cuBLAS through CuPy cannot be captured, CuPy refuses it; cuBLASLt and own kernels can.
        """
        for call in dict.fromkeys(calls):
            call()
        self.synchronize()
        self.stream.begin_capture()
        try:
            for call in calls:
                call()
        except BaseException:
            with suppress(Exception):
                self.stream.end_capture()
            raise
        handle = self.stream.end_capture()
        handle.upload(self.stream)
        self.synchronize()
        return Graph(handle, tuple(calls))

    def launch(self, graph: Graph) -> None:
        """Enqueues a captured graph."""
        graph.handle.launch(self.stream)

    def versions(self) -> dict[str, Any]:
        """Versions of what takes part in a measurement; libraries by file name, never by path."""
        from cupy_backends.cuda.libs import nvrtc as compiler

        major, minor = compiler.getVersion()
        return {
            "cupy": self.xp.__version__,
            "cuda_runtime": int(self._runtime.runtimeGetVersion()),
            "cuda_driver": int(self._runtime.driverGetVersion()),
            "cublas": int(self.cublas.getVersion(self.cublas_handle)),
            "nvrtc": f"{major}.{minor}",
            "libraries": list(_library_names()),
        }


def uuid_text(raw: bytes) -> str | None:
    """The 16 bytes as NVML writes them; None where CuPy cut them short: it ends them at their first zero byte."""
    return f"GPU-{uuid.UUID(bytes=bytes(raw[:16]))}" if len(raw) >= 16 else None


def _scaled(value: int | None, factor: int) -> int | None:
    return value * factor if value else None

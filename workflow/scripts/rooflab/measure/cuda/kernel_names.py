"""Which kernels a call runs, by CUPTI where the package `cupti-python` can be used.

API: NVIDIA, "CUPTI Python", Activity API. Asked after the timing, because tracing slows launches down.
"""

from typing import Any

from rooflab.measure.cuda.device import Call, CudaDevice

BUFFER_BYTES = 1 << 20


def kernel_names(device: CudaDevice, call: Call) -> dict[str, Any]:
    """{"source", "names"} of one more run of `call`; names in order, each once. Without CUPTI `names` is None."""
    try:
        from cupti import cupti
    except Exception as error:  # not installed, or its library does not load here
        return {"source": f"cupti-python is not there: {type(error).__name__}: {error}", "names": None}
    try:
        return {"source": "CUPTI", "names": _traced(cupti, device, call)}
    except Exception as error:  # a profiler that this machine does not allow takes nothing from the measurement
        return {"source": f"CUPTI refused: {type(error).__name__}: {error}", "names": None}


def _traced(cupti: Any, device: CudaDevice, call: Call) -> list[str]:
    names: list[str] = []
    kind = cupti.ActivityKind.CONCURRENT_KERNEL

    def completed(activities: list[Any]) -> None:
        names.extend(activity.name for activity in activities if activity.kind == kind)

    device.synchronize()
    cupti.activity_register_callbacks(lambda: (BUFFER_BYTES, 0), completed)
    cupti.activity_enable(kind)
    try:
        call()
        device.synchronize()
    finally:
        cupti.activity_flush_all(1)
        cupti.activity_disable(kind)
    return list(dict.fromkeys(names))

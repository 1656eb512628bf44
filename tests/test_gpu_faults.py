"""The three faults of `gpu_faults.py` are where the programs meet them; whether a session survives them, a GPU tells."""

import subprocess
import sys
from pathlib import Path

import gpu_faults
import pytest

ASK = """
import sys
sys.path.insert(0, sys.argv[1])
from rooflab.measure.cuda import cublaslt, nvrtc
from rooflab.measure.cuda.device import CudaDevice
import paid.launch_floor
lt = cublaslt.Lt.__new__(cublaslt.Lt)
for call in (lambda: lt.call("cublasLtMatmul"), lambda: CudaDevice.free_pool(None)):
    try:
        call()
    except RuntimeError as error:
        print(error)
print(nvrtc.kernel_source("fma").strip().splitlines()[-1])
"""


def test_the_faults_are_in_the_copy(tmp_path: Path) -> None:
    folder = gpu_faults.broken_checkout(tmp_path / "lab")
    scripts = str(folder / "workflow" / "scripts")
    told = subprocess.run([sys.executable, "-c", ASK, scripts], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED (15)",
        "cudaErrorLaunchFailure: closing was made to fail",
        "this is no CUDA;",
    ]


@pytest.mark.gpu
def test_a_session_with_three_broken_programs_is_finished() -> None:
    assert gpu_faults.main() == 0

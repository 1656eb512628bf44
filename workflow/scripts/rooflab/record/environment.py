"""What else could explain a number: versions, variables that change results, the commit. Nothing private."""

import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rooflab.record import handover

# Variables that change what is measured; nothing else of the environment is recorded. Which card it was, its UUID says.
VARIABLES = (
    "CUDA_LAUNCH_BLOCKING", "CUPY_TF32", "CUPY_ACCELERATORS",
    "NVIDIA_TF32_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG", "CUBLAS_EMULATE_SINGLE_PRECISION", "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "OPENBLAS_CORETYPE", "MKL_NUM_THREADS", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PERF_BOOST", "CUPY_GPU_MEMORY_LIMIT",
    "CUBLAS_LOGINFO_DBG", "CUBLASLT_LOG_LEVEL", "NPY_DISABLE_CPU_FEATURES", "OMP_PROC_BIND", "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
)  # fmt: skip
PACKAGES = ("numpy", "ml_dtypes", "snakemake", "cupy-cuda12x", "cupy-cuda13x", "nvidia-ml-py")
ROOT = Path(__file__).resolve().parents[4]


def now_iso() -> str:
    """The time in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def installed(name: str) -> str | None:
    """The version of a package: what the module that is loaded says of itself, else its distribution; None without either."""
    told = getattr(sys.modules.get(name), "__version__", None)
    try:
        return str(told) if told else version(name)
    except PackageNotFoundError:
        return None


def git_state(root: Path = ROOT) -> dict[str, Any]:
    """{"commit", "dirty"} of the checkout; None and a reason where there is none. Results lie in the tree and do not count as dirt."""
    try:
        top = _git(root, "rev-parse", "--show-toplevel")
        if Path(top).resolve() != root.resolve():
            return _no_commit("not a git checkout of its own: it lies inside another repository")
        commit = _git(root, "rev-parse", "HEAD")
        dirty = bool(_git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":!results"))
    except FileNotFoundError:
        return _no_commit("git is not installed")
    except subprocess.CalledProcessError as error:
        none = "not a git repository" in error.stderr
        return _no_commit(
            "not a git checkout" if none else f"git refuses: {(error.stderr.splitlines() or ['no reason'])[0]}"
        )
    except OSError as error:
        return _no_commit(f"git cannot be run: {error.strerror}")
    return {"commit": commit, "dirty": dirty}


def _no_commit(reason: str) -> dict[str, Any]:
    return {"commit": None, "dirty": None, "reason": reason}


def _git(root: Path, *arguments: str) -> str:
    """What git says of `root`, also where another user owns it: the code of it is running already. Its hooks stay out."""
    trusted = ["-c", f"safe.directory={root.resolve()}", "-c", "core.fsmonitor=false"]
    run = subprocess.run(
        ["git", *trusted, "-C", str(root), *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LC_ALL": "C"},
    )
    return run.stdout.strip()


def collect() -> dict[str, Any]:
    """The environment of this process, as it enters every record."""
    packages = {name: installed(name) for name in PACKAGES}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "kernel": platform.release(),
        "packages": {name: found for name, found in packages.items() if found},
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "git": git_state(),
        "program": Path(sys.argv[0]).name,
        "command": handover.text(handover.COMMAND) or None,
    }

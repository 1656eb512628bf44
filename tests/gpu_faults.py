"""On a machine with a GPU: a session with three broken programs is finished all the same. `python tests/gpu_faults.py`

In a copy of this checkout one product is refused at launch, one kernel does not compile, and closing the device raises
after a third measurement; then the real workflow runs there with a small config. One line per expectation, and the
reasons of the records; the exit status is 1 if an expectation is not met. Takes about a minute.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import lab

SMALL: dict[str, dict[str, Any]] = {
    "launch_floor": {"iterations": 100},
    "bandwidth": {"patterns": ["read"], "buffer_bytes": 268435456, "samples": 5},
    "gemm": {
        "dtypes": ["fp16", "fp8_e4m3"],
        "sizes": [2048],
        "other_dtypes": [],
        "sustained_s": 0.1,
        "burst_blocks": 5,
        "algorithms": 2,
    },
    "fma": {"sustained_s": 0.1, "burst_blocks": 5},
    "decode": {
        "dtypes": ["fp16"],
        "sequence_lengths": [128],
        "iterations": 100,
        "configurations": 2,
        "graph_samples": 5,
    },
}
PACKAGE = Path("workflow/scripts/rooflab/measure/cuda")
MAIN = 'if __name__ == "__main__":'
REFUSED = """

_call = Lt.call


def _refusing(self: Lt, function: str, *arguments: Any) -> None:
    if function == "cublasLtMatmul":
        raise LtError(function, 15)
    _call(self, function, *arguments)


Lt.call = _refusing
"""
UNCOMPILABLE = "\nthis is no CUDA;\n"
UNCLOSABLE = """
from rooflab.measure.cuda.device import CudaDevice


def _raising(device: CudaDevice) -> None:
    raise RuntimeError("cudaErrorLaunchFailure: closing was made to fail")


CudaDevice.free_pool = _raising
"""


def broken_checkout(folder: Path) -> Path:
    """A copy of this checkout with the three faults and the small config."""
    lab.copy_code(folder)
    for file, text in ((PACKAGE / "cublaslt.py", REFUSED), (PACKAGE / "kernels/fma.cu", UNCOMPILABLE)):
        with (folder / file).open("a", encoding="utf-8") as opened:
            opened.write(text)
    program = folder / "workflow/scripts/paid/launch_floor.py"
    program.write_text(program.read_text(encoding="utf-8").replace(MAIN, f"{UNCLOSABLE}\n\n{MAIN}"), encoding="utf-8")
    lab.edit(folder, lambda config: config.update({"device": "auto"}))
    lab.edit(folder, lambda config: config["decode"]["hbm"].update(dtypes=[]))
    lab.edit(folder, lambda config: [config[stage].update(values) for stage, values in SMALL.items()])
    return folder


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Every record of the copy by `side/stage/name`."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in (folder / "results").glob("*/[gc]pu/**/*.json"))
    return {f"{each['side']}/{each['stage']}/{each['name']}": each for each in found}


def expectations(folder: Path, done: subprocess.CompletedProcess[str]) -> list[tuple[str, bool]]:
    """What must hold, each with whether it does."""
    made = records(folder)
    failed = {name: each["reason"] for name, each in made.items() if each["status"] == "failed"}
    logs = "\n".join(path.read_text(encoding="utf-8") for path in (folder / "logs").rglob("*launch_floor*.log"))
    dry = lab.snakemake(folder, "measurements", "-n", "--quiet", "host")
    left = dry.stdout + dry.stderr
    again = [line for line in left.splitlines() if "output:" in line and ".2.json" in line]
    return [
        ("the run ends with success", done.returncode == 0),
        ("the product refused at launch says so", "NOT_SUPPORTED" in failed.get("gpu/gemm/fp8_e4m3-n2048", "")),
        ("the kernel that does not compile says so", "does not compile" in failed.get("gpu/fma/fma-fp32", "")),
        ("nothing else failed", len(failed) == 2),
        ("a decode step was measured", made.get("gpu/decode/minigpt-fp16-S128", {}).get("status") == "measured"),
        ("so was the host", made.get("cpu/decode/minigpt-fp32-S16", {}).get("status") == "measured"),
        (
            "the record whose closing raised is good",
            made.get("gpu/launch_floor/launch_floor", {}).get("status") == "measured",
        ),
        ("its log names what failed after it", "closing the device failed: RuntimeError" in logs),
        ("only the two failed ones are planned again", len(again) == 2 and left.count("output:") == 2),
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        folder = broken_checkout(Path(place) / "lab")
        done = lab.snakemake(folder, "measurements")
        print(done.stdout + done.stderr)
        found = expectations(folder, done)
        for name, each in records(folder).items():
            if each["status"] != "measured":
                print(f"{name}: {each['status']}: {each['reason']}\n  what to do: {each['remedy']}")
        for text, holds in found:
            print(f"{'PASS' if holds else 'FAIL'}  {text}")
    return 0 if all(holds for _, holds in found) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The import table of workflow/README.md, enforced."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
ROOMS = sorted(SCRIPTS.glob("rooflab/*.py"))
MAY_NOT = {
    "theory": {"numpy", "cupy", "pynvml", "json", "time", "pathlib", "os"},
    "dtypes": {"numpy", "cupy", "pynvml", "json", "time", "pathlib", "os"},
    "vendor": {"numpy", "cupy", "pynvml", "time"},
    "records": {"numpy", "cupy", "pynvml", "rooflab.theory", "rooflab.vendor"},
    "protocol": {"numpy", "cupy", "pynvml", "rooflab.theory", "pathlib", "json"},
    "operators": {"cupy", "pynvml", "time", "pathlib", "os", "json"},
    "minigpt": {"cupy", "pynvml", "time", "pathlib", "os", "json"},
    "plan": {"numpy", "cupy", "pynvml", "time", "rooflab.theory"},
    "model_plan": {"numpy", "cupy", "pynvml", "time", "rooflab.theory"},
    "geometry": {"numpy", "cupy", "pynvml", "json", "time", "pathlib", "os", "rooflab.theory"},
    "model_theory": {"numpy", "cupy", "pynvml", "json", "time", "pathlib", "os"},
    "step_operators": {"cupy", "pynvml", "time", "pathlib", "os", "json"},
}
FREE = ("ceilings", "points", "regimes", "checks", "answers", "evidence", "statistics", "model_points", "model_table")
ROOMS_OF_WORDS = ("rooflab/chart*.py", "rooflab/report_*.py", "rooflab/text_roofline.py", "rooflab/terminal.py")
PROGRAMS_OF_WORDS = ("plot.py", "report_html.py", "interpretation.py")
DRAWN = [p.name for pattern in ROOMS_OF_WORDS + PROGRAMS_OF_WORDS for p in SCRIPTS.glob(pattern)]


def imported(path: Path) -> set[str]:
    """Every module a file imports, at any depth, with its parents."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] + [f"{node.module}.{a.name}" for a in node.names]
        for name in names:
            parts = name.split(".")
            found |= {".".join(parts[: i + 1]) for i in range(len(parts))}
    return found


@pytest.mark.parametrize("room", sorted(MAY_NOT))
def test_a_room_knows_only_what_it_may(room: str) -> None:
    assert imported(SCRIPTS / "rooflab" / f"{room}.py") & MAY_NOT[room] == set()


@pytest.mark.parametrize("room", FREE)
def test_the_free_model_knows_no_gpu_and_no_plot(room: str) -> None:
    assert imported(SCRIPTS / "rooflab" / f"{room}.py") & {"cupy", "pynvml", "matplotlib"} == set()


@pytest.mark.parametrize("name", DRAWN)
def test_picture_and_prose_compute_nothing(name: str) -> None:
    path = SCRIPTS / name if (SCRIPTS / name).exists() else SCRIPTS / "rooflab" / name
    assert imported(path) & {"cupy", "pynvml", "rooflab.theory", "rooflab.vendor", "rooflab.ceilings"} == set()


def test_cupy_is_imported_in_one_module() -> None:
    assert [p.name for p in ROOMS if "cupy" in imported(p)] == ["cuda_device.py"]


def test_no_pytorch_jax_or_triton_anywhere() -> None:
    product = [*SCRIPTS.rglob("*.py")]
    assert [p.name for p in product if imported(p) & {"torch", "jax", "triton"}] == []


def test_importing_everything_else_loads_no_gpu_library() -> None:
    modules = [f"rooflab.{p.stem}" for p in ROOMS if not p.stem.startswith(("cuda_", "__"))]
    program = f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n" + "\n".join(f"import {m}" for m in modules)
    program += "\nprint([m for m in ('cupy', 'cupy_backends', 'pynvml', 'torch') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

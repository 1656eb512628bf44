"""Which folder may import which: the table of workflow/README.md, held over every file, at the top and inside functions."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
FILES = sorted(path for path in SCRIPTS.rglob("*.py") if path.name != "__init__.py")
MOST_MODULES = 20
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 250, 50

ALLOWED: dict[str, set[str]] = {
    "theory": set(),
    "record": set(),
    "look": set(),
    "reference": {"theory"},
    "plan": {"theory", "reference", "record", "plan/reading"},
    "plan/reading": {"theory"},
    "machine": {"record"},
    "measure": {"theory", "reference", "record", "machine"},
    "measure/cuda": {"theory", "reference", "record", "machine", "measure"},
    "derive": {"theory", "record", "plan", "derive/chip"},
    "derive/chip": {"theory", "record", "derive"},
    "predict": {"theory", "plan", "derive"},
    "draw": {"look"},
    "explain": {"look", "record"},
    "cost": {"theory", "record", "plan", "machine"},
    "fleet": {"theory", "record", "look", "derive", "derive/chip"},
    "run": {"record", "plan", "machine", "cost", "explain"},  # explain: a run ends with its closing lines
    "paid": {"theory", "reference", "machine", "measure", "measure/cuda"},
}
ALLOWED["measure/cuda/attention"] = ALLOWED["measure/cuda"] | {"measure/cuda"}
ALLOWED["paid"] |= {"measure/cuda/attention"}
ALLOWED["free"] = set(ALLOWED) - {"measure", "measure/cuda/attention", "paid"}
ONLY_FOR = {("free", "measure/cuda"): {"free/doctor.py"}}
THIRD_PARTY = {
    "cupy": {"measure/cuda"},
    "cupy_backends": {"measure/cuda"},
    "matplotlib": {"draw", "fleet", "free"},
    "numpy": {"reference", "measure", "measure/cuda", "measure/cuda/attention", "paid", "free"},
    "pynvml": {"machine"},
    "snakemake": {"run"},
}
FORBIDDEN = {"torch", "jax", "triton", "flashinfer"}
FOLDERS = sorted(ALLOWED, key=len, reverse=True)


def where(path: Path) -> str:
    """The file as people name it: `derive/points.py`, `paid/bandwidth.py`."""
    return os.path.relpath(path, SCRIPTS).removeprefix("rooflab/")


def room(path: Path) -> str:
    return where(path).rpartition("/")[0]


def imported(path: Path) -> Iterator[str]:
    """Every module a file imports, at any depth; `from a import b` counts as a and as a.b."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """The folder a module of ours stands in, None for another's."""
    first, _, rest = module.partition(".")
    inside = rest.replace(".", "/") if first == "rooflab" else module.replace(".", "/")
    return next((folder for folder in FOLDERS if f"{inside}/".startswith(f"{folder}/")), None)


@pytest.mark.parametrize("path", FILES, ids=where)
def test_a_room_imports_only_what_it_may(path: Path) -> None:
    here = room(path)
    assert here in ALLOWED, f"{where(path)} stands in no folder of the layout"
    rooms = {found for module in imported(path) if (found := room_of(module)) and found != here}
    lent = {to for (folder, to), files in ONLY_FOR.items() if folder == here and where(path) not in files}
    assert rooms - (ALLOWED[here] - lent) == set()


@pytest.mark.parametrize("path", FILES, ids=where)
def test_libraries_stay_in_their_rooms(path: Path) -> None:
    found = {module.split(".")[0] for module in imported(path)}
    assert found & FORBIDDEN == set()
    assert {name for name in found & set(THIRD_PARTY) if room(path) not in THIRD_PARTY[name]} == set()


def test_cupy_is_imported_in_one_module() -> None:
    using = {where(path) for path in FILES if {"cupy", "cupy_backends"} & {m.split(".")[0] for m in imported(path)}}
    assert using == {"measure/cuda/device.py"}


def test_imports_run_in_no_circle() -> None:
    modules = {where(path): path for path in FILES}

    def needs(path: Path) -> set[str]:
        names = {module.removeprefix("rooflab.").replace(".", "/") + ".py" for module in imported(path)}
        return {name for name in names if name in modules and name != where(path)}

    TopologicalSorter({name: needs(path) for name, path in modules.items()}).prepare()


def test_no_folder_is_crowded() -> None:
    crowded = {
        where(folder): count
        for folder in SCRIPTS.rglob("*/")
        if (count := len(list(folder.glob("*.py")))) > MOST_MODULES + 1
    }
    assert crowded == {}


def test_no_file_and_no_function_is_long() -> None:
    sources = [path for path in SCRIPTS.parent.rglob("*") if path.suffix in {".py", ".smk", ".cu", ".js", ".css"}]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources}
    assert {
        where(path): lines for path, lines in lengths.items() if "data" not in path.parts and lines > MOST_LINES
    } == {}
    functions = {
        f"{where(path)}: {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: lines for name, lines in functions.items() if lines > MOST_LINES_OF_A_FUNCTION} == {}


def test_the_house_page_shows_this_table_and_each_room_says_what_it_is_for() -> None:
    page = (SCRIPTS.parent / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/]+)` \| (.+) \| (.+) \|$", page, re.M)
    told = {
        name: (purpose, set(re.findall(r"`([\w/]+)`", allowed))) for name, purpose, allowed in rows if name in ALLOWED
    }
    assert told.keys() == ALLOWED.keys()
    for name in sorted(ALLOWED.keys() - {"free", "paid"}):
        purpose = ast.get_docstring(ast.parse((SCRIPTS / "rooflab" / name / "__init__.py").read_text(encoding="utf-8")))
        assert purpose and (told[name][0].lower(), told[name][1]) == (purpose.rstrip(".").lower(), ALLOWED[name]), name
    assert told["paid"][1] == ALLOWED["paid"]


def test_importing_all_but_the_gpus_rooms_loads_no_gpu_library() -> None:
    ours = [p for p in FILES if not where(p).startswith(("measure/cuda", "paid/", "free/"))]
    modules = [".".join(path.relative_to(SCRIPTS).with_suffix("").parts) for path in ours]
    program = f"import sys; sys.path.insert(0, {str(SCRIPTS)!r})\n" + "\n".join(f"import {m}" for m in modules)
    program += "\nprint([m for m in ('cupy', 'cupy_backends', 'pynvml', 'torch') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

"""Makes .venv from the lock files, once; a stamp written last says what it holds, and without it the next run starts over."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence

import pip_run
from cuda_choice import Choice, Driver, choose, find_driver, system_cupy

ROOT = Path(__file__).resolve().parent.parent
MODULES = "snakemake numpy matplotlib yaml jsonschema pynvml safetensors ml_dtypes threadpoolctl pygments"
DOWNLOAD_MB = {None: 60, 12: 890, 13: 650}


def check_venv_module(find: Callable[[str], object] = util.find_spec) -> None:
    """Exits where this Python cannot make virtual environments (Debian and Ubuntu ship that part separately)."""
    missing = [name for name in ("venv", "ensurepip") if find(name) is None]
    if missing:
        package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        raise SystemExit(
            f"{sys.executable} lacks module {' and '.join(missing)}: on Debian or Ubuntu, apt-get install {package}, "
            "elsewhere use a complete Python: make setup PYTHON=..."
        )


def parse_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options; a wrong value is one sentence."""
    parser = argparse.ArgumentParser(description="Makes .venv from the lock files.")
    parser.add_argument("--gpu", default="auto", help="auto (CuPy where there is an NVIDIA driver), 0 or 1")
    parser.add_argument("--cuda", default="", help="12 or 13: the CUDA major release of CuPy (12 where not given)")
    parser.add_argument("--wheels", default="", help="a folder of wheels, to install without a network")
    parser.add_argument("--test", action="store_true", help="also what the test suite needs")
    options = parser.parse_args(arguments)
    for name, value, allowed in (("GPU", options.gpu, ("auto", "0", "1")), ("CUDA", options.cuda, ("", "12", "13"))):
        if value not in allowed:
            raise SystemExit(f"{name}={value} is not an option: use one of {', '.join(filter(None, allowed))}")
    if options.wheels and not Path(options.wheels).is_dir():
        raise SystemExit(f"WHEELS={options.wheels} is not a folder: give the folder that holds the wheels")
    options.cuda = int(options.cuda) if options.cuda else None
    options.wheels = Path(options.wheels).resolve() if options.wheels else None
    return options


def lock_files(choice: Choice, test: bool, folder: Path = ROOT / "requirements") -> list[Path]:
    """The lock files to install; tests compile kernels, so they need an NVRTC where no CuPy brings one."""
    names = [f"gpu{choice.cuda}"] if choice.source == "wheel" else []
    if test:
        names += ["test", "nvrtc"] if choice.source == "none" else ["test"]
    return [folder / f"{name}.lock" for name in names or ["base"]]


def digest(locks: Sequence[Path]) -> str:
    """One sha256 over the lock files."""
    return hashlib.sha256(b"".join(lock.read_bytes() for lock in locks)).hexdigest()


def make_stamp(venv: Path, choice: Choice, options: argparse.Namespace) -> dict[str, Any]:
    """What a finished .venv says of itself."""
    return {
        "place": str(venv),
        "source": choice.source,
        "cuda": choice.cuda,
        "asked": options.gpu != "auto",
        "test": options.test,
        "locks": digest(lock_files(choice, options.test)),
    }


def read_stamp(venv: Path) -> dict[str, Any] | None:
    """The stamp of a finished .venv; None where it is unfinished, moved, outdated, or without its Python."""
    try:
        stamp: dict[str, Any] = json.loads((venv / "setup.json").read_text())
        current = digest(lock_files(Choice(stamp["source"], stamp["cuda"]), stamp["test"]))
        intact = stamp["place"] == str(venv) and stamp["locks"] == current and (venv / "bin/python").exists()
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return stamp if intact else None


def serves(stamp: dict[str, Any] | None, options: argparse.Namespace, driver: Driver | None) -> bool:
    """Whether a finished .venv is what the options ask for. `auto` accepts what was asked for explicitly before."""
    if stamp is None or (options.test and not stamp["test"]):
        return False
    if options.gpu == "0":
        return stamp["source"] == "none"
    if stamp["source"] == "none":
        return options.gpu == "auto" and (driver is None or stamp["asked"])
    return options.cuda in (None, stamp["cuda"])


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Lets one set-up at a time into the folder; the kernel frees the lock of one that died."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another set-up is at work in this folder: waiting for it", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_checked(command: Sequence[str], problem: str, **keywords: Any) -> str:
    """Standard output of a command; exits with the problem and the command's last line where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **keywords)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise SystemExit(f"{problem}: {said[-1]}")
    return done.stdout


def make_venv(venv: Path, choice: Choice) -> Path:
    """An empty environment (with the packages of this Python behind its own where CuPy is the system's); its Python."""
    run_checked([sys.executable, "-E", "-m", "venv", "--clear", str(venv)], f"{venv.name} cannot be made")
    if choice.source == "system":
        # not --system-site-packages: from within a virtual environment that names the Python below it
        outer = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        inner = next(venv.glob("lib/python*/site-packages"))
        (inner / "outer-python.pth").write_text("".join(path + "\n" for path in outer))
    return venv / "bin/python"


def wanted(test: bool) -> list[str]:
    """The project's own requirements, from pyproject.toml."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project["dependencies"] + (project["optional-dependencies"]["test"] if test else [])


def add_missing(python: Path, locks: Sequence[Path], options: argparse.Namespace) -> None:
    """Adds the pins that the outer Python lacks or has outside the project's range, until nothing more is missing."""
    pins = pip_run.pins(locks)
    locked = [line.rstrip(" \\") for text in pins.values() for line in text.splitlines() if not line.startswith(" ")]
    question = json.dumps({"wanted": wanted(options.test), "locked": locked})
    added: set[str] = set()
    missing = {"snakemake"}  # always its own: the command must start with this environment's Python
    while missing:
        with tempfile.TemporaryDirectory() as folder:
            lock = pip_run.write_pins({name: pins[name] for name in sorted(missing)}, Path(folder))
            pip_run.install(python, [lock], options.wheels, shadow=True)
        added |= missing
        answer = run_checked(
            [str(python), "-E", str(ROOT / "tools/unmet.py")], "packages cannot be read", input=question
        )
        missing = set(json.loads(answer)) & set(pins) - added
    print(f"added to the packages of {sys.executable}: {', '.join(sorted(added))}")


def build(venv: Path, choice: Choice, options: argparse.Namespace) -> None:
    """Makes .venv anew and stamps it; whatever fails on the way leaves it without a stamp."""
    locks = lock_files(choice, options.test)
    (venv / "setup.json").unlink(missing_ok=True)
    python = make_venv(venv, choice)
    if choice.source == "system":
        add_missing(python, locks, options)
    else:
        pip_run.install(python, locks, options.wheels)
    modules = MODULES.split() + ([] if choice.source == "none" else ["cupy"])
    run_checked([str(python), "-E", "-c", f"import {', '.join(modules)}"], "the installed packages do not work")
    (venv / "setup.json").write_text(json.dumps(make_stamp(venv, choice, options), indent=1) + "\n")


def announce(choice: Choice, options: argparse.Namespace, driver: Driver | None) -> None:
    """Says what is about to happen, and why."""
    seen = f"NVIDIA driver seen ({driver.seen})" if driver else "no NVIDIA driver seen"
    what = {
        "none": "without CuPy",
        "wheel": f"with CuPy for CUDA {choice.cuda}",
        "system": f"on top of {sys.executable} and its CuPy for CUDA {choice.cuda}",
    }[choice.source]
    size = DOWNLOAD_MB[choice.cuda if choice.source == "wheel" else None] + 110 * options.test
    source = f"from {options.wheels}" if options.wheels else f"up to {size} MB are downloaded"
    print(f"set-up of .venv {what} ({seen}; {source}) ...", flush=True)


def main(arguments: Sequence[str]) -> None:
    """The set-up, or nothing where .venv already is what the options ask for."""
    options = parse_options(arguments)
    venv = ROOT / ".venv"
    with alone(ROOT / ".venv.lock"):
        driver = find_driver()
        if serves(read_stamp(venv), options, driver):
            return
        if Path(sys.prefix).resolve() == venv:
            raise SystemExit("the set-up would replace the Python that it runs on: type deactivate, then run it again")
        check_venv_module()
        choice = choose(options.gpu, options.cuda, driver, None if options.gpu == "0" else system_cupy())
        announce(choice, options, driver)
        build(venv, choice, options)
    print("set-up done: . .venv/bin/activate && snakemake --cores 1")


def start(arguments: Sequence[str]) -> None:
    """`main`, with what a person may cause told in one sentence."""
    try:
        main(arguments)
    except KeyboardInterrupt:
        sys.exit("set-up interrupted: run the same command again")
    except OSError as problem:
        sys.exit(f"set-up failed: {problem}")

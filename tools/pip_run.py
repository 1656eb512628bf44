"""Runs pip on lock files, and turns what it says on a failure into one sentence with a remedy."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Callable, Mapping, Sequence

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HASHES_DIFFER = r"DO NOT MATCH THE HASHES"
# pip's own variables that say where packages come from; the others (PIP_TARGET, PIP_USER, PIP_CONSTRAINT …) put them
# elsewhere or change what is installed, and are kept from our pip
OF_THE_SOURCE = frozenset(
    ("CACHE_DIR", "CERT", "CLIENT_CERT", "CONFIG_FILE", "DEFAULT_TIMEOUT", "EXTRA_INDEX_URL", "FIND_LINKS", "INDEX_URL")
    + ("KEYRING_PROVIDER", "NO_CACHE_DIR", "NO_INDEX", "PROXY", "RETRIES", "TIMEOUT", "TRUSTED_HOST")
)
CAUSES = (
    (
        r"is not a trusted or secure host",
        "the package index is an http:// address, which pip passes over: give an https:// one, or trust it by "
        "PIP_TRUSTED_HOST=HOST",
    ),
    (
        HASHES_DIFFER,
        "a downloaded package is not the one in the lock file. Try again; if it stays, do not trust the source",
    ),
    (
        r"No space left on device",
        "the disk is full. Make room (about 1 GB, 3 GB with CuPy), then run the same command again",
    ),
    (
        r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|Connection (?:refused|reset)|ProxyError"
        r"|Network is unreachable|name resolution|SSLError|Max retries exceeded",
        "the package index cannot be reached. Check the network (or proxy), then run the same command again; without a "
        "network, collect the wheels elsewhere (pip download --require-hashes -r LOCK -d FOLDER) and use "
        "make setup WHEELS=FOLDER",
    ),
)


def explain(output: str) -> str:
    """One sentence for a failed pip run, from its output."""
    for pattern, sentence in CAUSES:
        if re.search(pattern, output):
            return sentence
    errors = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()[-1:]
    return "pip failed: " + errors[-1]


def install(
    python: Path, locks: Sequence[Path], wheels: Path | None, *, shadow: bool = False, run: Run = subprocess.run
) -> None:
    """Installs the pins of the lock files, hashes checked; with `shadow` also those that an outer environment has.

    With a folder of wheels nothing is downloaded, and wheels built on the spot, whose hashes no lock file can hold, are
    accepted after saying so.
    """
    command = [str(python), "-E", "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps"] + ["--ignore-installed"] * shadow
    command += ["--no-index", "--find-links", str(wheels)] if wheels else []
    failure = try_pip(command + ["--require-hashes"], locks, run)
    if failure and wheels and re.search(HASHES_DIFFER, failure):
        print(f"{wheels} holds wheels that were built there: their hashes are not in the lock file and are not checked")
        with tempfile.TemporaryDirectory() as folder:
            failure = try_pip(command, [without_hashes(lock, Path(folder)) for lock in locks], run)
    if failure and wheels and "No matching distribution found" in failure:
        missing = re.findall(r"No matching distribution found for (\S+)", failure)[-1]
        raise SystemExit(
            f"{wheels} has no wheel of {missing} for this Python: add it (pip download --no-deps {missing})"
        )
    if failure:
        raise SystemExit(explain(failure))


def try_pip(command: Sequence[str], locks: Sequence[Path], run: Run) -> str | None:
    """Output of a pip run that failed, None where it worked."""
    files = [word for lock in locks for word in ("--requirement", str(lock))]
    done = run([*command, *files], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment())
    return (done.stdout or "pip failed and said nothing") if done.returncode else None


def environment(outer: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that pip gets: of its own ones only those that say where packages come from."""
    kept = {f"PIP_{name}" for name in OF_THE_SOURCE}
    return {name: value for name, value in outer.items() if not name.startswith("PIP_") or name in kept}


def pins(locks: Sequence[Path]) -> dict[str, str]:
    """Name and text (version, marker, hashes) of each pin; a name with several markers keeps all of them."""
    found: dict[str, str] = {}
    for text in dict.fromkeys(
        text for lock in locks for text in re.findall(r"^\w.*(?:\n[ \t].*)*", lock.read_text(), re.M)
    ):
        name = text.split("==")[0]
        found[name] = found[name] + "\n" + text if name in found else text
    return found


def write_pins(chosen: Mapping[str, str], folder: Path) -> Path:
    """A lock file with the chosen pins alone."""
    lock = folder / "chosen.lock"
    lock.write_text("".join(text + "\n" for text in chosen.values()))
    return lock


def without_hashes(lock: Path, folder: Path) -> Path:
    """A copy of the lock file that pins versions only."""
    copy = folder / lock.name
    copy.write_text(re.sub(r"\s*\\\n\s+--hash=\S+", "", lock.read_text()))
    return copy

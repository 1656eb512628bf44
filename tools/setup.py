"""Makes .venv from the lock files, once: python3 tools/setup.py [--help]

Written so that the oldest Python understands it and can be told in one sentence what it lacks; make_venv.py does the work.
"""

import os
import sys

OLDEST, NEWEST = (3, 11), (3, 13)  # the locked packages have wheels for these


def supported(path):
    # type: (str) -> str | None
    """The newest supported Python that the folders of a PATH hold, by name; None where they hold none."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        name = "python3." + str(minor)
        if any(os.access(os.path.join(folder, name), os.X_OK) for folder in path.split(os.pathsep)):
            return name
    return None


def check_python(version, path):
    # type: (tuple[int, ...], str) -> None
    """Exits on a Python that the locked packages do not support, naming one that is here and supported, if any."""
    if OLDEST <= version[:2] <= NEWEST:
        return
    here = supported(path)
    remedy = "use the one that is here: make setup PYTHON=" + here if here else "install one of these"
    raise SystemExit(
        "Python " + ".".join(str(part) for part in version[:2]) + " is not supported: the locked packages are for "
        "Python 3.11, 3.12 and 3.13 (on older ones pip quietly installs Snakemake 7, which does not start): " + remedy
    )


if __name__ == "__main__":
    check_python(tuple(sys.version_info[:3]), os.environ.get("PATH", ""))
    from make_venv import start

    start(sys.argv[1:])

"""How the set-up calls pip and explains its failures, with a made-up pip; and which packages it finds missing."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))

import pip_run  # noqa: E402
import unmet  # noqa: E402


class FakePip:
    """Answers each pip run with the next (exit status, output) and remembers the commands and the files' contents."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.commands: list[list[str]] = []
        self.texts: list[str] = []
        self.environments: list[dict[str, str]] = []

    def __call__(self, command: list[str], **keywords: Any) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        self.environments.append(keywords["env"])
        self.texts.append(Path(command[command.index("--requirement") + 1]).read_text())
        status, output = self.answers.pop(0)
        return subprocess.CompletedProcess(command, status, stdout=output)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / "base.lock"
    file.write_text(
        "# comment\none==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\ntwo==2 ; python_version < '3.12' \\\n"
        "    --hash=sha256:cc\ntwo==3 ; python_version >= '3.12' \\\n    --hash=sha256:dd\n"
    )
    return file


NETWORK = (
    "WARNING: Retrying: NewConnectionError('Failed to establish a new connection: [Errno -3] Temporary failure in name "
    "resolution')\nERROR: No matching distribution found for one==1.0"
)


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (NETWORK, "the package index cannot be reached.*WHEELS=FOLDER"),
        (
            "WARNING: The repository located at mirror.example is not a trusted or secure host and is being ignored.\n"
            "ERROR: No matching distribution found for one==1.0",
            "an http:// address, which pip passes over.*PIP_TRUSTED_HOST",
        ),
        ("ERROR: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "not the one in the lock file"),
        ("noise\nERROR: something else", "pip failed: ERROR: something else"),
        ("", "said nothing"),
    ],
)
def test_a_failed_pip_is_one_sentence(lock: Path, output: str, sentence: str) -> None:
    with pytest.raises(SystemExit, match=sentence):
        pip_run.install(Path("python"), [lock], None, run=FakePip((1, output)))


def test_pip_gets_only_those_of_its_variables_that_say_where_packages_come_from(lock: Path) -> None:
    outer = {"PIP_TARGET": "/x", "PIP_USER": "1", "PIP_CONSTRAINT": "c", "PIP_PREFIX": "/y", "PIP_DRY_RUN": "1"}
    kept = {"PIP_INDEX_URL": "https://mirror.example/simple", "PIP_PROXY": "p", "PATH": "/bin", "HOME": "/h"}
    assert pip_run.environment(outer | kept) == kept
    pip = FakePip((0, ""))
    pip_run.install(Path("python"), [lock], None, run=pip)
    assert not {"PIP_TARGET", "PIP_USER"} & set(pip.environments[0])


def test_hashes_are_checked_and_nothing_is_resolved(lock: Path) -> None:
    pip = FakePip((0, ""))
    pip_run.install(Path("python"), [lock], None, run=pip)
    assert {"--require-hashes", "--no-deps"} <= set(pip.commands[0])
    assert "--no-index" not in pip.commands[0]


def test_wheels_built_on_the_spot_are_taken_without_hashes_and_told(
    lock: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pip = FakePip((1, "DO NOT MATCH THE HASHES"), (0, ""))
    pip_run.install(Path("python"), [lock], tmp_path, run=pip)
    assert all({"--no-index", "--find-links"} <= set(command) for command in pip.commands)
    assert pip.texts[1].splitlines()[1:] == [
        "one==1.0",
        "two==2 ; python_version < '3.12'",
        "two==3 ; python_version >= '3.12'",
    ]
    assert "are not checked" in capsys.readouterr().out


def test_a_wheel_missing_from_the_folder_is_named(lock: Path, tmp_path: Path) -> None:
    pip = FakePip((1, "ERROR: No matching distribution found for one==1.0"))
    with pytest.raises(SystemExit, match=r"has no wheel of one==1\.0"):
        pip_run.install(Path("python"), [lock], tmp_path, run=pip)


def test_pins_keep_every_marker_of_a_name(lock: Path, tmp_path: Path) -> None:
    pins = pip_run.pins([lock, lock])
    assert list(pins) == ["one", "two"]
    assert pins["two"].count("two==") == 2
    chosen = pip_run.write_pins({"two": pins["two"]}, tmp_path)
    assert pip_run.pins([chosen]) == {"two": pins["two"]}


def test_a_package_in_range_is_kept_and_one_out_of_range_is_not() -> None:
    assert unmet.outside_range(["pytest>=8", "no-such-package>=1", "numpy>=999"]) == {"no-such-package", "numpy"}
    assert unmet.outside_range(["no-such-package>=1 ; python_version < '3'"]) == set()


def test_absent_pins_are_those_of_this_platform() -> None:
    assert unmet.absent(["pytest==0.1", "no-such-package==1", "colorless==1 ; python_version < '3'"]) == {
        "no-such-package"
    }

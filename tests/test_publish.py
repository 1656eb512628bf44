"""Every free program publishes through one writer: killed in the middle it leaves no half file, and nothing that is taken for a result."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab import ROOT
from rooflab.record import publish, sums
from rooflab.run import guard

SCRIPTS = ROOT / "workflow" / "scripts"
SESSION = ROOT / "results" / "nvidia-h200"
MODEL = "llama-3-1-8b"
ROOFLINE = f"--roofline {SESSION}/roofline.json"
PROGRAMS = {
    "plot": f"{ROOFLINE} --png r.png --svg r.svg --dark-svg d.svg --dpi 40",
    "interpretation": f"{ROOFLINE} --out i.md --figures f.csv",
    "report_html": f"{ROOFLINE} --svg {SESSION}/roofline.svg --prose {SESSION}/interpretation.md --figures {SESSION}/figures.csv "
    f"--manifest {SESSION}/manifest.json --out r.html",
    "model_table": f"{ROOFLINE} --name {MODEL} --out m.md",
    "model_chart": f"{ROOFLINE} --name {MODEL} --png m.png --svg m.svg --dpi 40",
    "compare": f"--results {SESSION.parent} --threshold 0.05 --out compare.json",
}
# killed where the part file is whole and its name is not yet the target's
KILLED = (
    "import os, runpy, signal, sys; os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL); "
    f"sys.path.insert(0, {str(SCRIPTS)!r}); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_killed_program_leaves_nothing_that_counts_and_nothing_after_the_sweep(program: str, tmp_path: Path) -> None:
    session = tmp_path / "results" / "s"
    session.mkdir(parents=True)
    command = [sys.executable, "-c", KILLED, str(SCRIPTS / "free" / f"{program}.py"), *PROGRAMS[program].split()]
    killed = subprocess.run(command, cwd=session, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    assert len(list(session.iterdir())) == 1 and sums.files(session) == []
    publish.sweep(tmp_path / "results")
    assert list(session.iterdir()) == []


def test_a_new_run_sweeps_the_part_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    part = tmp_path / "results" / "s" / "roofline.svg.12.part"
    part.parent.mkdir(parents=True)
    part.write_text("half")
    guard.take_the_run(Path("results")).close()
    assert not part.exists()


def test_a_text_that_cannot_be_written_removes_the_part_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    publish.write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        publish.write_text(path, "half \ud800")
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"] and path.read_text() == "old"


def test_a_published_file_has_the_user_s_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        publish.write_text(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644

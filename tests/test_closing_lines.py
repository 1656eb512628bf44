"""What a run says at its end fits into 80 columns and 40 rows, whatever the session holds."""

import json
from pathlib import Path
from typing import Any

import pytest
from drawn_sessions import gpu_roofline
from rooflab.explain import closing
from rooflab.explain.terminal import HEIGHT, fitted, plain, wrapped

RESULTS = Path(__file__).resolve().parent.parent / "results"
COMMITTED = sorted(path.parent for path in RESULTS.glob("*/manifest.json"))


def write(folder: Path, **more: Any) -> Path:
    """A session with six Checks, one of them failed at length."""
    check = {"name": "gemm_within_30_percent",
             "status": "pass", "value": {"bf16": 0.7769134733, "fp16": 0.7448842978, "fp32": 0.754}, "limit": 0.7,
             "advice": [], "reason": []}  # fmt: skip
    failed = check | {"status": "fail", "advice": ["compare the relative error in the record " * 4]}
    manifest = {"checks": [check, check, check, check, check, failed], "terminated": None,
                "paid": {"paid_s": 103.2, "usd": 0.0861, "stages": {f"gpu/stage{i}": 1.5 for i in range(12)}}} | more  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "roofline.json").write_text(json.dumps(gpu_roofline()))
    return folder


def shown(capsys: pytest.CaptureFixture[str], folders: list[Path], rented: bool = True) -> list[str]:
    closing.show(folders, rented)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 60])
def test_any_number_of_sessions_fits(count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, [write(tmp_path / f"nvidia-h200-{i:02}") for i in range(count)])
    assert len(told) <= HEIGHT and max(map(len, told)) < 80
    assert "\x1b" not in "".join(told)
    assert "terminate it" in " ".join(told)
    assert ("FLOP/byte" in "\n".join(told)) == (count == 1)
    assert any(line.startswith("and ") and line.endswith("more sessions in results/") for line in told) == (count == 60)


def test_a_session_of_its_own_shows_its_checks_and_the_roofline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "\n".join(shown(capsys, [write(tmp_path / "nvidia-h200")], rented=False))
    assert "bf16 0.777, fp16 0.745, fp32 0.754 (limit 0.7)" in told.replace("\n    ", " ")
    assert "FAIL" in told and "compare the relative error" in told
    assert "a int8 1.50 PFLOP/s" in told and "terminate" not in told


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_the_committed_sessions_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, [folder])
    assert len(told) <= HEIGHT and max(map(len, told)) < 80
    assert "FLOP/byte" in "\n".join(told)


def test_many_sessions_are_told_in_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, [write(tmp_path / f"nvidia-h200-{i:02}") for i in range(9)], rented=False)
    assert "nvidia-h200-04: 5 of 6 Checks pass, paid 103.2 s, $0.0861" in told
    assert len(told) == 9


def test_the_session_of_this_run_is_told_in_full_beside_any_number_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a fresh clone the committed sessions shrank it to one line, without path and picture."""
    for others in (1, 3, 60):
        folders = [write(tmp_path / f"{others}" / f"nvidia-h200-{i:02}") for i in range(others + 1)]
        closing.show(folders, rented=True, measured=[folders[1].name])
        told = capsys.readouterr().out
        assert len(told.splitlines()) <= HEIGHT and f"{folders[1].name}: " in told and "report.html" in told
        assert "compare the relative error" in told.replace("\n    ", " ") and told.count("FAIL") == 1


def test_lines_are_cut_at_words_and_set_in() -> None:
    assert wrapped(["  pass  " + "word " * 20]) == [
        "  pass  " + " ".join(["word"] * 14),
        "    " + " ".join(["word"] * 6),
    ]
    assert wrapped(["", "short"]) == ["", "short"]


def test_the_drawing_goes_before_the_words() -> None:
    words = [f"line {i}" for i in range(30)]
    assert fitted([words], ["s"], ["drawing"] * 13, []) == words
    assert fitted([words[:20]], ["s"], ["drawing"] * 13, []) == [*words[:20], "", *["drawing"] * 13]


def test_figures_have_three_digits() -> None:
    assert plain({"fp16": 0.74488, "n": 4}) == "fp16 0.745, n 4"
    assert plain(None) == "None" and plain(1) == "1"

"""The roofline in the terminal: narrow and short enough, plain where it must be, with every ceiling named."""

import json
from pathlib import Path

import pytest
from drawn_sessions import SESSIONS, gpu_roofline, t4
from rooflab.explain.text_roofline import COLUMNS, ROWS, lines

COMMITTED = sorted((Path(__file__).resolve().parent.parent / "results").glob("*/roofline.json"))


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_it_fits_into_78_columns_and_13_rows_and_the_terminals_characters(name: str, encoding: str) -> None:
    drawn = lines(SESSIONS[name](), encoding)
    assert len(drawn) == (0 if name in ("nothing measured", "decode alone") else ROWS + 2)
    assert max(map(len, drawn), default=0) <= 78
    assert b"\x1b" not in "".join(drawn).encode(encoding)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_the_committed_sessions_fit_too(path: Path) -> None:
    drawn = lines(json.loads(path.read_text(encoding="utf-8")), "utf-8")
    assert len(drawn) == ROWS + 2 and max(map(len, drawn)) <= 78


def test_ceilings_stand_in_order_and_points_below_them() -> None:
    drawn = lines(t4())
    assert "a fp16 24.0 TFLOP/s" in drawn[0] and "b fp32 4.10 TFLOP/s" in drawn[1]
    assert "/ HBM 240 GB/s" in drawn[2] and "x GEMM  o decode" in drawn[3]
    field = [line.split("|", 1)[1][:COLUMNS] for line in drawn[:ROWS]]
    rows = {mark: [i for i, row in enumerate(field) if mark in row] for mark in "abxo/"}
    assert rows["a"] < rows["b"] and max(rows["x"]) < min(rows["o"]) and len(rows["/"]) > 3


def test_the_slope_rises_and_the_ceiling_is_level() -> None:
    field = [line.split("|", 1)[1][:COLUMNS] for line in lines(t4())[:ROWS]]
    columns = [row.index("/") for row in field if "/" in row]
    assert columns == sorted(columns, reverse=True)
    assert field[next(i for i, row in enumerate(field) if row.endswith("a"))].count("-") > 5


def test_too_many_ceilings_are_counted() -> None:
    assert "more ceilings" in "\n".join(lines(gpu_roofline()))
    assert "more ceilings" not in "\n".join(lines(t4()))


def test_an_unknown_encoding_gives_plain_characters() -> None:
    assert lines(t4(), None) == lines(t4(), "no-such-encoding") == lines(t4(), "ascii")
    assert "─" in "".join(lines(t4(), "utf-8"))

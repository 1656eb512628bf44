"""The interpretation's frame: paragraphs, figures, notes, language; and the catalogue its sentences come from."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
import yaml
from rooflab.derive.document import roofline as model
from rooflab.explain.compose import FILL, MUST, Sentence, composed
from rooflab.explain.figures import table
from rooflab.explain.prose import interpretation, paragraphs
from rooflab.look import catalogue, words
from rooflab.look.voice import UNITS, Voice
from synthetic import cpu_session, h200_session, planned, with_files

SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
# placeholders that hold a word, a list of made-up parts, or a count with its noun beside it
WORDS_AND_COUNTS = {
    "bound", "bounds", "date", "device", "dtype", "high_name", "items", "label", "library", "low_name", "name", "names", "over", "peak",
    "rate", "reasons", "tier", "what",
}  # fmt: skip


def modelled(session: str) -> dict[str, Any]:
    made = h200_session() if session == "gpu" else cpu_session()
    return model("nvidia-h200" if session == "gpu" else "cpu-host", with_files(made), planned(made))


def placeholders(text: str) -> set[tuple[str, str]]:
    return {(name, unit or "") for _, name, unit, _ in Formatter().parse(text) if name}


def interpret(roofline: dict[str, Any], language: str = "en") -> str:
    return interpretation(roofline, paragraphs(roofline, language), language)


def test_what_is_absent_is_said_and_failed_checks_have_their_link() -> None:
    roofline = modelled("gpu")
    assert "[report.html](report.html#checks)" not in interpret(roofline)
    roofline["holes"] = [{"stage": "gemm", "name": "int8-n4096", "side": "gpu", "status": "failed", "reason": "lost",
                          "file": "x", "remedy": None}]  # fmt: skip
    roofline["checks"] = [
        {"name": "decode_sequences", "status": "fail", "value": 2, "limit": 3, "reason": [], "advice": []}
    ]
    assert "The measurement in int8 failed." in interpret(roofline)
    assert "A Check failed: [report.html](report.html#checks)" in interpret(roofline)


def test_notes_are_one_line_with_a_link() -> None:
    roofline = modelled("gpu")
    before = interpret(roofline)
    roofline["notes"] = [{"code": "several_devices", "values": {"side": "gpu", "count": 2, "devices": ["a", "b"]}}]
    assert interpret(roofline) == before
    assert (
        before.rstrip()
        .splitlines()[-1]
        .endswith("Notes, gaps and the meaning of the words: [report.html](report.html).")
    )


def test_figures_csv_lists_each_number_with_its_key_its_value_and_its_record() -> None:
    roofline = modelled("gpu")
    rows = list(csv.DictReader(table(paragraphs(roofline)).splitlines()))
    assert list(rows[0]) == ["paragraph", "text", "key", "value", "record"]
    low = next(row for row in rows if row["key"] == "answers.gemm.dtypes.fp8_e4m3.fraction_of_ceiling")
    assert low["text"] == "90.5 %" and low["record"].startswith("gpu/gemm/fp8_e4m3-n4096.")
    assert float(low["value"]) == roofline["answers"]["gemm"]["dtypes"]["fp8_e4m3"]["fraction_of_ceiling"]
    ends = [row["text"] for row in rows if row["key"].endswith(("-S128-fused.sequence", "-S1024-fused.sequence"))][:2]
    assert ends == ["128", "1024"]


def test_both_languages_cite_the_same_verdicts() -> None:
    roofline = modelled("gpu")
    en, es = (
        {row["key"] for row in csv.DictReader(table(paragraphs(roofline, each)).splitlines())}
        for each in catalogue.LANGUAGES
    )
    assert {
        f"answers.{part}.{key}" for part in ("gemm", "decode", "cpu") for key in roofline["answers"][part]["required"]
    } <= en & es


def test_a_file_that_is_no_roofline_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'roofline'"):
        paragraphs({"schema": "manifest"})


def test_a_language_without_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="language is 'fr', expected one of en, es"):
        paragraphs(modelled("cpu"), "fr")


def test_the_program_writes_both_files_in_the_language_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "roofline.json").write_text(json.dumps(modelled("cpu")), encoding="utf-8")
    program = [
        sys.executable,
        str(SCRIPTS / "free" / "interpretation.py"),
        "--roofline",
        str(tmp_path / "roofline.json"),
    ]
    for language, said in (("en", "measured 2026"), ("es", "medido el 2026")):
        out, figures = tmp_path / f"{language}.md", tmp_path / f"{language}.csv"
        subprocess.run([*program, "--language", language, "--out", str(out), "--figures", str(figures)], check=True)
        assert said in out.read_text(encoding="utf-8").splitlines()[0]
        assert figures.read_text(encoding="utf-8").startswith("paragraph,text,key,value,record\n")


def test_a_paragraph_keeps_what_must_be_said_and_never_grows_too_long() -> None:
    must, may, fill = (
        Sentence(" ".join([word] * 50) + ".", rank) for word, rank in (("a", MUST), ("b", 1), ("c", FILL))
    )
    assert composed([fill, must]).startswith("c")  # fifty words are too few
    assert "c" not in composed([must, may, fill])
    assert len(composed([must, may, may]).split()) == 100
    assert len(composed([must, must, must]).split()) == 150


def test_every_text_stands_in_both_languages_with_the_same_numbers() -> None:
    for key, languages in catalogue.texts().items():
        assert set(languages) == set(catalogue.LANGUAGES), key
        assert placeholders(languages["en"]) == placeholders(languages["es"]), key
        assert all(languages.values()), key


def test_every_number_in_a_text_names_its_unit() -> None:
    own = yaml.safe_load((catalogue.DATA / "texts_prose.yaml").read_text(encoding="utf-8"))
    for key, languages in own.items():
        bare = {name for name, unit in placeholders(languages["en"]) if not unit}
        assert bare <= WORDS_AND_COUNTS, key
        assert {unit for _, unit in placeholders(languages["en"]) if unit} <= set(UNITS), key


def test_every_text_of_picture_and_prose_is_asked_for_and_there() -> None:
    rooms = "prose|gemm|decode|cpu|holes|bound|chart|title|state"
    code = "".join(
        path.read_text(encoding="utf-8")
        for room in ("explain", "draw", "look")
        for path in SCRIPTS.glob(f"rooflab/{room}/*.py")
    )
    asked = re.findall(rf'f?"((?:{rooms})\.[^"]+)"', code)
    patterns = [re.compile(re.sub(r"\\\{.*?\\\}", ".*", re.escape(key))) for key in asked]
    own = [key for key in catalogue.texts() if re.match(rf"(?:{rooms})\.", key)]
    assert [key for key in own if not any(p.fullmatch(key) for p in patterns)] == []
    assert [p.pattern for p in patterns if not any(p.fullmatch(key) for key in catalogue.texts())] == []


def test_the_model_s_sentences_have_texts() -> None:
    for session in (h200_session(failed=("fp32-n4096",)), h200_session(without=("minigpt-fp32-S128",)), cpu_session()):
        roofline = model("s", with_files(session), planned(h200_session()), gpu_sessions=["nvidia-h200"])
        said = [*roofline["notes"], *[c["reason"] for c in roofline["checks"] if c["status"] == "fail"]]
        said += [h["reason"] for h in roofline["holes"] if h["status"] == "missing"]
        said += [roofline["answers"]["cpu"]["reason"]] if roofline["answers"]["cpu"]["reason"] else []
        assert [each for each in said if "«" in Voice("es").reason(each)] == []


def test_numbers_are_written_as_each_language_writes_them() -> None:
    assert Voice("en").number((0.003, 0.0101), "percent") == "0.300–1.01 %"
    assert Voice("es").number((0.003, 0.0101), "percent") == "0,300–1,01 %"
    assert Voice("en").number((0.003, 0.01), "exact_percent") == "0.3–1 %"
    assert Voice("en").number((1.183e-5, 1.5e-5), "host_seconds") == "12–15 µs"
    assert Voice("es").number((9e-7, 1.2e-6), "seconds") == "900 ns – 1,20 µs"
    assert Voice("en").number((4.12, 18.2), "times") == "4.12–18.2×"
    assert Voice("en").number(2**31, "bytes") == "2 GiB"
    assert Voice("en").number(2048.0, "intensity") == "2048 FLOP/byte"
    assert words.span("3 %", "3 %") == "3 %"


def test_lists_are_joined_as_each_language_joins_them() -> None:
    assert Voice("es").listed(["fp16"]) == "fp16"
    assert Voice("en").listed(["fp16", "bf16", "fp32"]) == "fp16, bf16 and fp32"
    assert Voice("es").listed(["fp16", "int8"]) == "fp16 e int8"
    assert Voice("es").listed(["fp16", "fp32"]) == "fp16 y fp32"


def test_what_the_derivation_says_in_codes_is_said_in_the_language_asked_for() -> None:
    said = [
        {"code": "few_dtypes", "values": {"count": 2, "least": 3}},
        {"code": "no_fp32", "values": {"sides": ["gpu", "cpu"]}},
    ]
    assert Voice("en").reason(said) == "2 of 3 dtypes measured; no fp32 decode attention measured on: gpu, cpu"
    assert Voice("es").reason(said[0]) == "2 de 3 formatos medidos"
    assert (Voice("en").reason("no such thing"), Voice("es").reason("no such thing")) == (
        "no such thing",
        "«no such thing»",
    )

"""The interpretation's frame: paragraphs, figures, notes, language; and the catalogue its sentences come from."""

import json
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
import yaml
from free.interpretation import figures, interpret
from rooflab.derive.document import roofline as model
from rooflab.look import catalogue, words
from rooflab.look.voice import UNITS, Voice
from synthetic import cpu_session, h200_session, planned, with_files

SCRIPTS = Path(__file__).parents[1] / "workflow" / "scripts"
# placeholders that hold a word, a list of made-up parts, or a count with its noun beside it
WORDS_AND_COUNTS = {
    "above", "after", "before", "below", "bound", "copy", "count", "cpu", "device", "dtype", "far", "far_count",
    "gpu", "hbm", "high_name", "implementation", "inside", "items", "label", "length", "lengths", "library", "longest",
    "low_name", "n", "name", "names", "peak", "reached", "reason", "reasons", "share", "slope", "state", "status",
    "tier", "title", "total", "verdict", "what", "where", "why",
}  # fmt: skip


def modelled(session: str) -> dict[str, Any]:
    made = h200_session() if session == "gpu" else cpu_session()
    return model("nvidia-h200" if session == "gpu" else "cpu-host", with_files(made), planned(made))


def paragraphs(text: str) -> list[str]:
    return [re.sub(r"\n<!--.*-->", "", block) for block in text.strip().split("\n\n")[1:]]


def placeholders(text: str) -> set[tuple[str, str]]:
    return {(name, unit or "") for _, name, unit, _ in Formatter().parse(text) if name}


def test_a_latency_that_does_not_rise_is_noted_only_then() -> None:
    roofline = modelled("gpu")
    roofline["answers"]["decode"]["dtypes"].pop("fp32")
    assert "did not always take longer" not in interpret(roofline)
    sequences = roofline["answers"]["decode"]["dtypes"]["fp16"]["sequences"]
    sequences["256"]["median_s"] = sequences["128"]["median_s"] / 2
    assert "did not always take longer (fp16:" in interpret(roofline)


def test_holes_and_failed_checks_are_said() -> None:
    roofline = modelled("gpu")
    roofline["holes"] = [{"stage": "gemm", "name": "int8-n4096", "side": "gpu", "status": "failed", "reason": "lost",
                          "file": "x", "remedy": None}]  # fmt: skip
    roofline["checks"] = [{"name": "decode_sequences", "status": "fail", "value": 2, "limit": 3,
                           "reason": [{"code": "few_lengths", "values": {"dtype": "fp16", "count": 2, "least": 4}}]}]  # fmt: skip
    gemm, _, cpu = paragraphs(interpret(roofline))
    assert "Not measured (1): GPU int8-n4096 (failed: lost)." in gemm
    assert "Failed checks (1): decode attention at 4 or more values of S (fp16: 2 of 4)." in cpu


def test_every_note_of_the_model_is_in_the_text_and_none_where_there_is_none() -> None:
    roofline = modelled("gpu")
    assert "notes" not in interpret(roofline)
    roofline["notes"] = [
        {"code": "spread", "values": {"where": "gpu/decode", "series": "fused", "share": 0.194, "count": 3}},
        "something nobody foresaw, 7 times",
    ]
    assert [line for line in interpret(roofline).splitlines() if line.startswith("- ")] == [
        "- gpu/decode: fused: samples spread by up to 19% of their median in 3 measurements",
        "- something nobody foresaw, 7 times",
    ]
    spanish = interpret(roofline, "es")
    assert "- gpu/decode: fused: las muestras se dispersan hasta un 19 % de su mediana en 3 mediciones" in spanish
    assert "- «something nobody foresaw, 7 times»" in spanish


def test_figures_are_key_value_pairs_of_numbers_only() -> None:
    answer = {"a": {"b": 0.5, "name": "x"}, "c": None, "d": True, "required": ["a.b"]}
    assert figures(answer) == "<!-- figures: a.b=0.5 -->"
    assert figures({}) == "<!-- figures: none -->"


def test_the_figures_are_the_same_in_every_language() -> None:
    roofline = modelled("gpu")
    found = [re.findall(r"<!-- figures:.*?-->", interpret(roofline, language)) for language in catalogue.LANGUAGES]
    assert len(found[0]) == 3 and found[0] == found[1]


def test_a_file_that_is_no_roofline_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'roofline'"):
        interpret({"schema": "manifest"})


def test_a_language_without_texts_is_refused() -> None:
    with pytest.raises(ValueError, match="language is 'fr', expected one of en, es"):
        interpret(modelled("cpu"), "fr")


def test_the_program_writes_the_language_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "roofline.json").write_text(json.dumps(modelled("cpu")), encoding="utf-8")
    command = [
        sys.executable,
        str(SCRIPTS / "free" / "interpretation.py"),
        "--roofline",
        str(tmp_path / "roofline.json"),
    ]
    for language, title in (("en", "# What the roofline of"), ("es", "# Lo que dice el roofline de")):
        out = tmp_path / f"{language}.md"
        subprocess.run([*command, "--language", language, "--out", str(out)], check=True)
        assert out.read_text(encoding="utf-8").startswith(title)


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


def test_every_text_the_prose_asks_for_is_there_and_none_is_left_over() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in SCRIPTS.glob("rooflab/explain/*.py"))
    asked = re.findall(r'f?"((?:prose|gemm|decode|cpu|rung|bound)\.[^"]+)"', code)
    patterns = [re.compile(re.sub(r"\\\{.*?\\\}", ".+", re.escape(key))) for key in asked]
    own = [key for key in catalogue.texts() if re.match(r"(gemm|decode|cpu|rung|bound)\.", key)]
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
    assert Voice("en").number((0.003, 0.0101), "percent") == "0.3–1.01 %"
    assert Voice("es").number((0.003, 0.0101), "percent") == "0,3–1,01 %"
    assert Voice("es").number((9e-7, 1.2e-6), "seconds") == "900 ns – 1,2 µs"
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

"""The prose: three paragraphs from the model of synthetic sessions, each with its figures."""

import copy
import re
from typing import Any

import pytest
from interpretation import figures, interpret
from rooflab.checks import interpretation_answers
from roofline import roofline as model
from synthetic import cpu_session, h200_session, planned, with_files


def modelled(session: str) -> dict[str, Any]:
    made = h200_session() if session == "gpu" else cpu_session()
    return model("nvidia-h200" if session == "gpu" else "cpu-host", with_files(made), planned(made))


def paragraphs(text: str) -> list[str]:
    return [re.sub(r"\n<!--.*-->", "", block) for block in text.strip().split("\n\n")[1:]]


@pytest.mark.parametrize("session", ["gpu", "cpu"])
def test_three_paragraphs_hold_every_required_figure(session: str) -> None:
    roofline = modelled(session)
    text = interpret(roofline)
    assert text.startswith("# ")
    assert len(paragraphs(text)) == 3
    assert interpretation_answers(roofline, text)["status"] == "pass"


@pytest.mark.parametrize("session", ["gpu", "cpu"])
def test_no_sentence_without_a_number(session: str) -> None:
    for paragraph in paragraphs(interpret(modelled(session))):
        for sentence in re.split(r"(?<=[.])\s+(?=[A-Z])", paragraph):
            assert re.search(r"\d", sentence), sentence


def test_the_gpu_session_says_where_its_points_lie() -> None:
    gemm, decode, cpu = paragraphs(interpret(modelled("gpu")))
    assert "of its measured ceiling of" in gemm
    assert "of the vendor's dense peak" in gemm
    assert "fp16 Tensor Core peak" in decode
    assert "the textbook's 0.3–1 %" in decode
    assert "× the CPU's rate" in cpu
    assert "read bandwidths stand at" in cpu


def test_a_launch_bound_step_contradicts_the_textbook_and_says_so() -> None:
    roofline = modelled("gpu")
    for own in roofline["answers"]["decode"]["dtypes"].values():
        for step in own["sequences"].values():
            step.update(bound_by="launch", tier="L2", textbook="below")
    decode = paragraphs(interpret(roofline))[1]
    assert "the data contradict it" in decode
    assert "bound by launch" in decode
    assert "neither memory slope sets the latency" in decode


def test_a_latency_that_does_not_rise_is_noted_only_then() -> None:
    roofline = modelled("gpu")
    for own in roofline["answers"]["decode"]["dtypes"].values():
        own["latency_rises_with_sequence"] = True
    assert "does not rise" not in interpret(roofline)
    roofline["answers"]["decode"]["dtypes"]["fp16"]["latency_rises_with_sequence"] = False
    assert "In fp16 the latency does not rise at every step of S" in interpret(roofline)


def test_a_product_far_below_its_ceiling_is_not_called_near() -> None:
    roofline = modelled("gpu")
    roofline["answers"]["gemm"]["dtypes"]["fp16"]["fraction_of_ceiling"] = 0.41
    assert "fp16 (41 %) lies more than 20 % below the ceiling" in interpret(roofline)


def test_a_cpu_session_says_that_no_gpu_session_lies_beside_it() -> None:
    text = interpret(modelled("cpu"))
    assert "0 GPU sessions" in text
    assert "no GPU session lies beside it" in text


def test_holes_and_failed_checks_are_said() -> None:
    roofline = copy.deepcopy(modelled("gpu"))
    roofline["holes"] = [{"stage": "gemm", "name": "int8-n4096", "side": "gpu", "status": "failed", "reason": "lost",
                          "file": "x", "remedy": None}]  # fmt: skip
    roofline["checks"] = [{"title": "near the vendor", "status": "fail", "value": 2, "limit": 3, "reason": None}]
    gemm, _, cpu = paragraphs(interpret(roofline))
    assert "Not measured (1): gpu gemm int8-n4096 (failed: lost)." in gemm
    assert "Failed: near the vendor (value 2, limit 3)." in cpu


def test_an_empty_session_is_three_paragraphs_too() -> None:
    assert len(paragraphs(interpret(model("nvidia-l4", {}, [])))) == 3


def test_figures_are_key_value_pairs_of_numbers_only() -> None:
    answer = {"a": {"b": 0.5, "name": "x"}, "c": None, "d": True, "required": ["a.b"]}
    assert figures(answer) == "<!-- figures: a.b=0.5 -->"
    assert figures({}) == "<!-- figures: none -->"


def test_a_file_that_is_no_roofline_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'roofline'"):
        interpret({"schema": "manifest"})

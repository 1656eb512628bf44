"""The stop conditions and the answers: pass, fail and not applicable, each with its numbers."""

from typing import Any

import pytest
import synthetic
from free.manifest import CHECK_ORDER, checks, manifest
from rooflab.derive.checks_of_files import interpretation_answers, plot_complete
from rooflab.derive.document import roofline
from rooflab.explain.figures import table
from rooflab.explain.prose import interpretation, paragraphs
from rooflab.look.voice import Voice
from rooflab.record.keys import resolve

SAY = Voice("en").reason
H200_CAP = "the 700 W limit holds a Tensor Core product below the 1830 MHz that the peaks assume, within milliseconds"
PAID = {"paid_s": 60.0, "usd": 0.05, "interrupted": 0, "stages": {"gpu/gemm": 60.0}}


def model(made: list[synthetic.Record]) -> dict[str, Any]:
    return roofline("s", synthetic.with_files(made), synthetic.planned(made))


def named(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in found}


def svg_of(made: dict[str, Any]) -> str:
    return "".join(f'<g id="{item["id"]}"/>' for kind in ("ceilings", "points") for item in made[kind])


def prose_of(made: dict[str, Any]) -> tuple[str, str]:
    """An interpretation and its figures."""
    said = paragraphs(made)
    return interpretation(made, said), table(said)


def test_an_h200_meets_the_measured_conditions() -> None:
    found = named(model(synthetic.h200_session())["checks"])
    assert {check["status"] for check in found.values()} == {"pass"}
    assert found["gemm_within_30_percent"]["value"]["fp16"] == pytest.approx(760 / 989.4)
    assert found["decode_sequences"]["value"] == {"bf16": 4, "fp16": 4, "fp32": 4}


def test_one_slow_dtype_fails_condition_1_with_its_figure() -> None:
    slow = synthetic.gemm("gpu", "fp16", 4096, 300, 310, 300, 2e-4)
    made = synthetic.h200_session(without=["fp16-n4096"], extra=[slow])
    found = named(model(made)["checks"])["gemm_within_30_percent"]
    assert (found["status"], SAY(found["reason"])) == (
        "fail",
        "fp16 reaches 31.3 %, held by the power limit; " + H200_CAP,
    )
    assert "investigation" in SAY(found["advice"])


def test_two_dtypes_are_too_few() -> None:
    names = [f"{dtype}-n{n}" for dtype in ("bf16", "fp8_e4m3") for n in (4096, 8192)]
    found = named(model(synthetic.h200_session(unsupported=names))["checks"])["gemm_within_30_percent"]
    assert (found["status"], SAY(found["reason"])) == ("fail", "2 of 3 dtypes measured")


def test_a_part_without_vendor_figures_is_not_judged() -> None:
    unknown = synthetic.device("gpu", name="NVIDIA Mystery")
    found = named(model(synthetic.h200_session(without=["device"], extra=[unknown]))["checks"])
    assert found["gemm_within_30_percent"]["status"] == "not applicable"
    assert "not in the vendor table" in SAY(found["gemm_within_30_percent"]["reason"])


def test_a_cpu_session_has_no_vendor_peak_but_has_decode() -> None:
    found = named(model(synthetic.cpu_session())["checks"])
    assert found["gemm_within_30_percent"]["status"] == "not applicable"
    assert SAY(found["gemm_within_30_percent"]["reason"]) == "no vendor peak for this CPU"
    assert (found["decode_sequences"]["status"], found["decode_sequences"]["value"]) == ("pass", {"fp32": 4})


def test_three_sequences_are_too_few() -> None:
    found = named(model(synthetic.h200_session(failed=["minigpt-bf16-S512"]))["checks"])["decode_sequences"]
    assert (found["status"], SAY(found["reason"])) == ("fail", "bf16: 3 of 4")


def test_a_point_above_its_roof_fails_with_a_likely_cause() -> None:
    fast = synthetic.decode("gpu", "fp16", 128, [synthetic.decode_series("fused", "fused", 5.0)])
    made = synthetic.h200_session(without=["minigpt-fp16-S128"], extra=[fast])
    found = named(model(made)["checks"])["points_below_roof"]
    assert (found["status"], found["value"]) == ("fail", 1)
    assert "gpu-decode-minigpt-fp16-S128-fused at 186 %" in SAY(found["reason"])
    assert "launch floor" in SAY(found["advice"])


def test_launches_in_a_row_are_not_their_own_ceiling_and_a_far_slower_burst_is_told() -> None:
    fast = synthetic.gemm("gpu", "fp16", 4096, 900, 760, 650, 2e-4)
    made = model(synthetic.h200_session(without=["fp16-n4096"], extra=[fast]))
    ceiling = next(c for c in made["ceilings"] if c["id"] == "gpu-compute-fp16")
    assert (ceiling["burst"], ceiling["series"]) == (pytest.approx(761e12), "burst")
    point = next(p for p in made["points"] if p["id"] == "gpu-gemm-fp16-n4096")
    assert point["fraction_of_ceiling"] == pytest.approx(900 / 761) and point["above_roof"]
    assert any("ran 18.4 % faster than the bursts" in note for note in map(SAY, made["notes"]))
    assert not any("than the bursts" in note for note in map(SAY, model(synthetic.h200_session())["notes"]))


def test_the_plot_must_hold_every_id() -> None:
    made = model(synthetic.cpu_session())
    assert plot_complete(made, svg_of(made))["status"] == "pass"
    cut = plot_complete(made, svg_of(made).replace("cpu-gemm-fp32-n2048", "other"))
    assert (cut["status"], SAY(cut["reason"])) == ("fail", "absent: cpu-gemm-fp32-n2048")
    assert SAY(plot_complete(made, None)["reason"]) == "roofline.svg is not there"


def test_the_interpretation_must_hold_three_paragraphs_with_their_figures() -> None:
    made = model(synthetic.h200_session())
    text, figures = prose_of(made)
    assert interpretation_answers(made, text, figures)["status"] == "pass"
    key = made["answers"]["decode"]["required"][0]
    made["answers"]["decode"]["required"] = [key, "dtypes.fp16.sequences.256.fraction_of_peak"]
    cut = interpretation_answers(made, text, figures)
    assert (cut["status"], SAY(cut["reason"])) == ("fail", "absent: decode: dtypes.fp16.sequences.256.fraction_of_peak")
    assert (
        SAY(interpretation_answers(made, text + "\n\n**A fourth.** And more.\n", figures)["reason"])
        == "4 paragraphs, expected 3"
    )
    assert SAY(interpretation_answers(made, None, figures)["reason"]).startswith("interpretation.md is not there")
    assert SAY(interpretation_answers(made, text, None)["reason"]) == "figures.csv is not there"


def manifest_of(made: list[synthetic.Record], plan: list[synthetic.Record] | None = None) -> dict[str, Any]:
    results = [{"file": "roofline.json", "sha256": "0" * 64}]
    planned = synthetic.planned(made) if plan is None else plan
    return manifest("s", synthetic.with_files(made), planned, PAID, results)


def test_a_whole_session_passes_all_in_order() -> None:
    made = synthetic.h200_session()
    roof = model(made)
    found = checks(manifest_of(made), roof, svg_of(roof), *prose_of(roof))
    assert tuple(check["name"] for check in found) == CHECK_ORDER
    assert [check["status"] for check in found] == ["pass"] * 7


def test_a_session_with_a_hole_is_not_complete_and_an_unsupported_dtype_is() -> None:
    whole = synthetic.planned(synthetic.h200_session())
    short = synthetic.h200_session(without=["d2d"])
    roof = model(short)
    found = named(checks(manifest_of(short, whole), roof, None, None, None))["manifest_complete"]
    assert found["status"] == "fail"
    assert "not measured: gpu/bandwidth/d2d." in SAY(found["reason"])
    final = synthetic.h200_session(unsupported=["fp8_e4m3-n4096", "fp8_e4m3-n8192"])
    assert named(checks(manifest_of(final), model(final), None, None, None))["manifest_complete"]["status"] == "pass"


def test_the_manifest_quotes_the_records_and_sets_the_renderer_apart() -> None:
    made = manifest_of(synthetic.h200_session())
    assert made["environment"]["packages"]["numpy"] == ["2.1.2"]
    assert made["environment"]["git"]["dirty"] == [False]
    assert made["devices"]["gpu"]["uuids"] == [synthetic.H200["uuid"]]
    assert set(made["rendered_by"]) == {"python", "platform", "numpy"}
    assert made["paid"]["usd"] == 0.05


def test_every_required_figure_is_there() -> None:
    for made in (model(synthetic.h200_session()), model(synthetic.cpu_session())):
        for answer in made["answers"].values():
            assert [key for key in answer["required"] if resolve(answer, key) is None] == []
    assert model(synthetic.h200_session())["answers"]["decode"]["required"]


def test_the_answers_of_an_h200() -> None:
    found = model(synthetic.h200_session())["answers"]
    fp16 = found["gemm"]["dtypes"]["fp16"]
    assert fp16["burst_fraction_of_vendor"] == pytest.approx(761 / 989.4)
    assert (fp16["ceiling"], fp16["burst_flop_per_s"]) == ("gpu-compute-fp16", fp16["ceiling_flop_per_s"])
    assert fp16["power_capped"] is True
    assert found["decode"]["peak"] == "gpu-compute-fp16"
    assert found["decode"]["dtypes"]["fp16"]["latency_rises_with_sequence"] is True
    assert found["decode"]["dtypes"]["fp32"]["latency_rises_with_sequence"] is False
    assert found["decode"]["dtypes"]["fp16"]["sequences"]["1024"]["textbook"] == "below"
    cpu = found["cpu"]
    assert cpu["sequences"]["1024"]["ratio"] == pytest.approx(230 / 14.9)
    assert cpu["bandwidth_ratio_read"] == pytest.approx(4713 / 38)
    assert cpu["bandwidth_ratio_copy"] == pytest.approx(4289 / 30)
    assert cpu["larger"] == "bandwidth"
    assert cpu["likely_reasons"] == ["gpu_below_its_roof"]  # of a floor of 9.3 µs and a CPU at half of its DRAM


def test_the_answers_of_a_cpu_session() -> None:
    records = synthetic.with_files(synthetic.cpu_session())
    alone = roofline("s", records, [])["answers"]
    assert alone["decode"]["peak"] == "cpu-compute-fp32"
    assert (alone["cpu"]["available"], alone["cpu"]["required"]) == (False, [])
    assert "no GPU session lies beside it" in SAY(alone["cpu"]["reason"])
    beside = roofline("s", records, [], gpu_sessions=["nvidia-h200"])["answers"]
    assert "nvidia-h200" in SAY(beside["cpu"]["reason"])


def test_without_a_cpu_the_comparison_says_what_is_absent() -> None:
    found = model(synthetic.gpu_records())["answers"]["cpu"]
    assert SAY(found["reason"]) == "no fp32 decode attention measured on: cpu"

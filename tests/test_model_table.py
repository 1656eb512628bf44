"""A model's decode step: what it consists of, what is planned of it, where each part lands, and the page that says so."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
import yaml
from free import model_table as pages
from rooflab.derive.document import roofline
from rooflab.derive.serving import models
from rooflab.explain.model_line import headlines, of_session
from rooflab.plan.models import resolved, shipped
from rooflab.plan.operators import points
from rooflab.record.records import check_schema
from rooflab.theory import step as model_theory
from rooflab.theory.geometry import Decoder

ROOT = Path(__file__).parents[1]
MODELS = resolved([{"name": name} for name in shipped()])
LLAMA, GPT2, DEEPSEEK = (MODELS[name] for name in ("llama-3-1-8b", "gpt2", "deepseek-v2-lite"))
WINDOWED = Decoder(4, 64, 4, 2, 16, 128, 100, 4096, window=256, window_layers=3)
Record = dict[str, Any]


def config(**changes: Any) -> Record:
    loaded: Record = yaml.safe_load((ROOT / "config.yaml").read_text())
    return loaded | changes


# ---- the table


SLOWER = 1.25  # measured over attainable in the synthetic records
READ, L2_READ, FLOP_RATE, NODE_S = 4713e9, 9000e9, 790e12, 0.51e-6


def fastest(work: Any, warm: bool = False) -> float:
    rate = L2_READ if warm and work.bytes <= synthetic.H200_FACTS["l2_bytes"] else READ
    return max(work.flop / FLOP_RATE if not warm else 0.0, work.bytes / rate, NODE_S)


def series(name: str, seconds: float, **changes: Any) -> Record:
    how = {"launch": "graph", "cache": "cold", "relative_error": 1e-4, "tolerance": 1e-3}
    return synthetic.series(name, "x", seconds, **(how | changes))


def model_records(name: str, config_: Record) -> list[Record]:
    """Every record of a model, each part SLOWER than its roof."""
    model, made = MODELS[name], []
    for each in points(config_ | {"operators": [{"name": name}]}):
        stage, spec = each.stage, each.spec
        if stage == "attention":
            work = model_theory.attention_work(model, spec["batch"], spec["sequence"], 2)
            parts = [series("fused cold", SLOWER * fastest(work))]
        elif stage == "step":
            products, kernels = (
                model_theory.products(model, spec["batch"]),
                model_theory.elementwise(model, spec["batch"]),
            )
            parts = [series(p.part, SLOWER * fastest(p.work(2, 2))) for p in products]
            parts += [series(e.part, SLOWER * fastest(e.work(2), warm=True), cache="warm") for e in kernels]
        else:
            sizes = {"fp8_e4m3": (1, 2), "fp32": (4, 4)}.get(spec["dtype"], (2, 2))
            product = [model_theory.Product("p", b, spec["n"], spec["k"], 1).work(*sizes) for b in spec["batches"]]
            parts = [series(f"m{b}", w.bytes / READ * 1.1) for b, w in zip(spec["batches"], product, strict=True)]
        made.append(synthetic.record(stage, "gpu", each.name, spec=dict(spec), dtype=spec["dtype"], series=parts))
    return made


def files(made: list[Record]) -> dict[str, Record]:
    return {f"{r['side']}/{r['stage']}/{r['name']}.{r['key']}.json": r for r in made}


def made_of(records: list[Record]) -> Record:
    """roofline.json of an H200 with these records as well."""
    whole = files([*synthetic.h200_session(), *records])
    made = roofline("nvidia-h200", whole, [])
    check_schema("roofline", made, "roofline.json")
    return made


@pytest.fixture(scope="module")
def llama() -> Record:
    return made_of(model_records("llama-3-1-8b", config()))


def test_a_step_is_the_sum_of_its_measured_parts(llama: Record) -> None:
    (model,) = llama["models"]
    step = next(s for s in model["steps"] if (s["sequence"], s["batch"]) == (8192, 16))
    parts = [p for p in model["operators"] if p["batch"] == 16]
    attention = next(p for p in parts if p["length"] == 8192)
    others = sum(p["count"] * p["median_s"] for p in parts if p["kind"] != "attention")
    assert step["measured_s"] == pytest.approx(32 * attention["median_s"] + others)
    assert step["tokens_per_s"] == pytest.approx(16 / step["measured_s"]) and step["missing"] == []
    assert step["attention_share"] == pytest.approx(32 * attention["median_s"] / step["measured_s"])


def test_a_step_far_below_its_roof_is_not_said_to_be_bound_by_it(llama: Record) -> None:
    (model,) = llama["models"]
    assert all(step["at_roof"] for step in model["steps"] if step["fraction_of_attainable"] >= 2 / 3)
    slow = [step | {"at_roof": False} for step in model["steps"]]
    text = pages.page(llama | {"models": [model | {"steps": slow}]}, "llama-3-1-8b")
    assert text.count("below every roof, the nearest HBM") > pages.page(llama, "llama-3-1-8b").count("below every roof")


def test_every_product_and_attention_lies_where_it_was_put_below_its_roof(llama: Record) -> None:
    parts = [p for p in llama["models"][0]["operators"] if p["kind"] != "elementwise"]
    assert {p["part"] for p in parts} == {
        "attention",
        "QKV",
        "attention output",
        "MLP gate and up",
        "MLP down",
        "LM head",
    }
    for part in parts:
        assert part["fraction_of_attainable"] == pytest.approx(1 / SLOWER, rel=0.03), part["part"]
        assert part["bound_by"] == ("compute" if part["intensity"] > FLOP_RATE / READ else "HBM")
        assert part["verified"] and part["file"]


def test_batch_one_reads_the_weights_and_the_roof_says_how_fast_that_can_be(llama: Record) -> None:
    """8.03 G weights less the embedding in bf16 at 4713 GB/s: 3.2 ms."""
    step = next(s for s in llama["models"][0]["steps"] if (s["sequence"], s["batch"]) == (1024, 1))
    assert step["attainable_s"] == pytest.approx(2 * 7.5e9 / READ, rel=0.1) and step["bound_by"] == "HBM"


def test_the_batch_at_which_the_products_turn_compute_bound(llama: Record) -> None:
    model = llama["models"][0]
    turn = model["compute_bound_batch"]
    assert 150 < turn < 250  # a little above the ridge, 168 FLOP/byte, because activations move too
    works = [p.work(2, 2) for p in model_theory.products(LLAMA, turn) for _ in range(p.count)]
    assert sum(w.flop for w in works) / FLOP_RATE >= sum(w.bytes for w in works) / READ
    assert [c["compute_bound_batch"] for c in model["contexts"] if c["sequence"] == 32768] == [None]


def test_what_fits_into_the_card(llama: Record) -> None:
    model = llama["models"][0]
    room = synthetic.H200["memory_bytes"] - model["weight_bytes"]
    context = next(c for c in model["contexts"] if c["sequence"] == 8192)
    assert context["cache_bytes_per_sequence"] == 2**30
    assert context["sequences_that_fit"] == room // 2**30
    fits = {(s["sequence"], s["batch"]): s["fits"] for s in model["steps"]}
    assert fits[8192, 64] is True and fits[8192, 256] is False and fits[32768, 256] is False


def test_a_part_that_was_not_measured_leaves_the_sum_open_and_is_named() -> None:
    records = model_records("gpt2", config())
    step = next(r for r in records if r["stage"] == "step" and r["spec"]["batch"] == 16)
    step["series"] = [s for s in step["series"] if s["name"] != "LM head"]
    (model,) = made_of(records)["models"]
    open_, whole = (next(s for s in model["steps"] if s["batch"] == batch) for batch in (16, 64))
    assert open_["measured_s"] is None and open_["missing"] == ["LM head"] and open_["attainable_s"] is not None
    assert whole["measured_s"] is not None
    assert "Not measured, so that a step with it has no sum: LM head." in pages.page(made_of(records), "gpt2")


def test_a_refuted_part_counts_as_not_measured() -> None:
    records = model_records("gpt2", config())
    next(r for r in records if r["stage"] == "attention")["series"][0]["relative_error"] = 1.0
    missing = {tuple(s["missing"]) for s in made_of(records)["models"][0]["steps"]}
    assert ("attention",) in missing


def test_layers_with_a_window_are_summed_at_their_own_length() -> None:
    spec_config = config(operators=[{"name": "w", "geometry": WINDOWED.as_dict()}])
    made = []
    for each in points(spec_config):
        stage, spec = each.stage, each.spec
        if stage == "attention":
            parts = [series("fused cold", spec["sequence"] * 1e-7)]
        elif stage == "step":
            parts = [series(p.part, 1e-6) for p in model_theory.products(WINDOWED, spec["batch"])]
            parts += [series(e.part, 1e-6) for e in model_theory.elementwise(WINDOWED, spec["batch"])]
        else:
            continue
        made.append(synthetic.record(stage, "gpu", each.name, spec=dict(spec), dtype=spec["dtype"], series=parts))
    (model,) = made_of(made)["models"]
    step = next(s for s in model["steps"] if (s["sequence"], s["batch"]) == (1024, 1))
    others = sum(p["count"] for p in model["operators"] if p["batch"] == 1 and p["count"]) * 1e-6
    assert step["measured_s"] == pytest.approx((1 * 1024 + 3 * 256) * 1e-7 + others)


def test_the_minigpt_s_points_and_answers_do_not_change(llama: Record) -> None:
    alone = roofline("nvidia-h200", files(synthetic.h200_session()), [])
    assert alone["models"] == [] and alone["sweeps"] == []
    for field in ("points", "answers", "ceilings"):
        assert llama[field] == alone[field]
    assert llama["checks"][:3] == alone["checks"][:3]


def test_the_walk_up_the_slope_says_where_its_largest_gap_is(llama: Record) -> None:
    by_dtype = {sweep["dtype"]: sweep for sweep in llama["sweeps"]}
    assert set(by_dtype) == {"fp32", "fp16", "bf16", "fp8_e4m3"}
    bf16 = by_dtype["bf16"]
    assert [p["batch"] for p in bf16["points"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    below = [p for p in bf16["points"] if p["bound_by"] == "HBM"]
    assert all(p["fraction_of_attainable"] == pytest.approx(1 / 1.1, rel=0.01) for p in below)
    gap = bf16["largest_gap"]
    assert gap["fraction_of_attainable"] == min(p["fraction_of_attainable"] for p in bf16["points"])


def test_the_models_come_from_the_records_alone(llama: Record) -> None:
    (model,) = llama["models"]
    assert model["geometry"] == LLAMA.as_dict() and model["source"] == shipped()["llama-3-1-8b"]["source"]
    assert json.loads(json.dumps(model)) == model


def test_without_ceilings_nothing_is_attainable_and_nothing_breaks() -> None:
    (model,) = models(files(model_records("gpt2", config())), [], [])
    assert all(s["attainable_s"] is None and s["measured_s"] is not None for s in model["steps"])
    assert model["compute_bound_batch"] is None


# ---- the page


def test_the_page_holds_every_step_and_part_and_what_is_left_out(llama: Record) -> None:
    text = pages.page(llama, "llama-3-1-8b")
    model = llama["models"][0]
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith("| --")]
    tables = len(model["steps"]) + len(model["operators"]) + len(model["contexts"])
    assert len(rows) == tables + len(llama["sweeps"]) + 5  # and a head for each of the five
    assert all(each in text for each in model_theory.LEFT_OUT)
    assert "32 query heads on 8 KV heads of 128" in text and "by the roof from batch" in text
    assert "no, " in text and "huggingface.co" in text


def test_the_page_says_where_the_walk_up_the_slope_falls_furthest_below_the_roof(llama: Record) -> None:
    gap = next(s for s in llama["sweeps"] if s["dtype"] == "bf16")["largest_gap"]
    (row,) = [
        line for line in pages.page(llama, "llama-3-1-8b").splitlines() if line.startswith("| bf16 | 8192 × 8192")
    ]
    assert f"| 1 to 512 | {gap['batch']} |" in row and row.endswith(" % |")


def test_a_page_without_measurements_says_so() -> None:
    text = pages.page(roofline("nvidia-h200", files(synthetic.h200_session()), []), "gpt2")
    assert "Nothing of this model is measured yet" in text


def test_the_headline_is_the_best_step_that_fits(llama: Record) -> None:
    (line,) = headlines(llama)
    fitting = [s for s in llama["models"][0]["steps"] if s["fits"]]
    best = max(fitting, key=lambda s: s["tokens_per_s"])
    assert f"S {best['sequence']}, batch {best['batch']}" in line and line.startswith("  llama-3-1-8b bf16: ")
    assert len(line) <= 80 and "tokens/s (roof " in line


def test_a_session_without_models_has_no_line(tmp_path: Path) -> None:
    assert of_session(tmp_path) == []
    (tmp_path / "roofline.json").write_text('{"devices": {}}')
    assert of_session(tmp_path) == []


def test_a_hole_is_told_with_its_reason() -> None:
    records = model_records("gpt2", config())
    records[0] = synthetic.emptied(records[0], "unsupported")
    text = pages.page(made_of(records), "gpt2")
    assert f"`{records[0]['name']}`: unsupported" in text

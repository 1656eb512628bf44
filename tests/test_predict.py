"""What a model would do on a measured card: held against models that were measured there, left out one at a time."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from free.predict import predicted
from lab import copy_code, run
from real_configs import published
from rooflab.derive.serving_points import Setting
from rooflab.explain.prediction import page, terminal
from rooflab.plan.config import ConfigError, checked
from rooflab.plan.huggingface import decoder_of
from rooflab.plan.models import shipped
from rooflab.plan.operators import foretold
from rooflab.plan.session import prices
from rooflab.predict.document import document
from rooflab.predict.shapes import Shape, expected_loss, measured_shapes
from rooflab.predict.steps import Card, roof_of, step
from rooflab.record.records import check_schema
from rooflab.theory.geometry import decoder
from rooflab.theory.step import attentions, cache_bytes, index_work
from test_model_table import ROOT, config, made_of, model_records

COMMITTED = json.loads((ROOT / "results" / "nvidia-h200" / "roofline.json").read_text())
RESULTS = ROOT / "results"
WIDEST = 0.20
Record = dict[str, Any]


def setting(model: Record) -> Setting:
    return Setting(model["name"], decoder(model["geometry"]), model["dtype"], model["kv_dtype"])


def left_out(name: str) -> list[tuple[Record, Record]]:
    """Each measured step of a model, and what is told of it by the session's other models."""
    (model,) = (each for each in COMMITTED["models"] if each["name"] == name)
    card = Card(roof_of(COMMITTED), measured_shapes(COMMITTED, without=name))
    told = [step(setting(model), card, each["sequence"], each["batch"]) for each in model["steps"]]
    return [(each, one) for each, one in zip(model["steps"], told, strict=True) if one is not None]


def test_a_model_left_out_lies_within_its_range_in_nine_of_ten_steps_and_no_range_is_wide() -> None:
    pairs = [pair for model in COMMITTED["models"] for pair in left_out(model["name"])]
    assert len(pairs) == 36
    held = [told["low_s"] <= seen["measured_s"] <= told["high_s"] for seen, told in pairs]
    assert sum(held) >= 0.9 * len(held)
    widths = [(told["high_s"] - told["low_s"]) / (told["high_s"] + told["low_s"]) for _, told in pairs]
    assert max(widths) <= WIDEST


@pytest.mark.parametrize("name", [model["name"] for model in COMMITTED["models"]])
def test_the_roof_is_that_of_the_session_s_own_page(name: str) -> None:
    for seen, told in left_out(name):
        assert told["roof_s"] == pytest.approx(seen["attainable_s"]) and told["bound_by"] == seen["bound_by"]
        assert told["roof_s"] <= told["low_s"] <= told["high_s"]


def test_the_nearest_shapes_speak_and_the_furthest_out_of_them_do_not() -> None:
    known = [Shape("product", 1e-5, 0, 16, lost_s=lost) for lost in (1e-6, 4e-6, 4e-6, 4e-6, 5e-6, 9e-6)]
    far = Shape("product", 1e-2, 0, 16, lost_s=1.0)
    assert expected_loss(Shape("product", 1e-5, 0, 16), [*known, far]) == pytest.approx((4e-6, 5e-6))
    assert expected_loss(Shape("product", 4e-5, 0, 16), [*known, far]) == pytest.approx((8e-6, 10e-6))
    assert expected_loss(Shape("attention", 1e-5, 10, 16), known) is None


def asked(*operators: Record, **serving: Any) -> Record:
    given = config(predict=list(operators))
    return foretold(given | {"serving": given["serving"] | serving})


def test_without_a_wish_the_operators_are_told_of_and_without_them_every_shipped_model() -> None:
    assert [each["name"] for each in foretold(config())["models"]] == list(shipped())
    assert [each["name"] for each in foretold(config(operators=[{"name": "gpt2"}]))["models"]] == ["gpt2"]
    with pytest.raises(ConfigError, match="config: predict: nobody: not a shipped geometry"):
        checked(config(predict=[{"name": "nobody"}]))


@pytest.mark.parametrize(
    ("given", "named", "told"),
    [
        (None, {}, {}),
        ({"nvidia-h200": 2}, {}, {"nvidia-h200": 2}),
        (3.0, {}, {"nvidia-h200": 3.0}),  # the only session with a GPU
        (3.0, {"session": "cpu-example"}, {"cpu-example": 3.0}),
    ],
)
def test_one_price_is_that_of_the_session_it_can_mean(given: Any, named: Record, told: Record) -> None:
    assert prices(RESULTS, config(price_usd_per_hour=given, **named)) == told


@pytest.fixture(scope="module")
def made() -> Record:
    names = (
        "llama-3-1-70b-fp8",
        "llama-3-1-70b-awq",
        "llama-3-1-70b",
        "qwen2-5-7b",
        "mixtral-8x7b",
        "deepseek-v2-lite",
    )
    found = predicted(RESULTS, asked(*({"name": name} for name in names)), {"nvidia-h200": 3.6})
    check_schema("predict", found, "predict.json")
    return found


def of(made: Record, name: str, sequence: int = 8192) -> Record:
    return next(each for each in made["predictions"] if (each["model"], each["sequence"]) == (name, sequence))


def test_what_is_stored_and_what_fits(made: Record) -> None:
    weights = {model["name"]: model["weight_bytes"] for model in made["models"]}
    assert weights["llama-3-1-70b-fp8"] == pytest.approx(72.7e9, rel=0.01)
    assert weights["llama-3-1-70b-awq"] == pytest.approx(39.8e9, rel=0.01)
    memory = COMMITTED["devices"]["gpu"]["memory_bytes"]
    four_bits = of(made, "llama-3-1-70b-awq")
    assert four_bits["sequences_that_fit"] == (memory - weights["llama-3-1-70b-awq"]) // (8192 * 327_680)
    assert {each["batch"]: each["fits"] for each in four_bits["steps"]}[64] is False
    assert four_bits["sequences_that_fit"] in {each["batch"] for each in four_bits["steps"]}


def test_fewer_bytes_are_faster_where_memory_is_the_limit(made: Record) -> None:
    whole, fp8, awq = (of(made, f"llama-3-1-70b{kind}")["steps"][0] for kind in ("", "-fp8", "-awq"))
    assert whole["roof_s"] / fp8["roof_s"] == pytest.approx(2, rel=0.08)
    assert whole["roof_s"] / awq["roof_s"] == pytest.approx(3.7, rel=0.08)


def test_a_million_tokens_cost_what_their_seconds_do(made: Record) -> None:
    (first, *_) = of(made, "qwen2-5-7b")["steps"]
    assert first["low_usd_per_million_tokens"] == pytest.approx(first["low_s"] * 3.6 / 3600 * 1e6)
    assert first["high_tokens_per_s"] == pytest.approx(1 / first["high_s"])


def test_a_model_that_was_measured_there_says_where(made: Record) -> None:
    (told,) = of(made, "deepseek-v2-lite")["notes"]
    assert told.endswith("which has these sizes: its page holds the measured steps")
    assert of(made, "mixtral-8x7b")["notes"] == []


def test_the_page_answers_which_card_and_says_that_nothing_was_measured(made: Record) -> None:
    text = page(made)
    assert "Nothing here was measured with these models" in text and "5 % on either side" in text
    assert text.count("| mixtral-8x7b | 8192 | nvidia-h200 |") == 1
    assert "no product on weights in awq was measured" in text and "12.9 B of them for a token" in text
    assert "- cpu-example: no GPU was measured in it" in text
    assert any(line.startswith("  qwen2-5-7b on nvidia-h200, S 32768: ") for line in terminal(made))


def test_the_cheaper_card_comes_first_and_one_that_is_too_small_says_so() -> None:
    small = json.loads(json.dumps(COMMITTED))
    small["devices"]["gpu"] |= {"memory_bytes": 16 * 2**30, "name": "small"}
    cards = {"dear": COMMITTED, "cheap": COMMITTED, "small": small}
    found = document(
        asked({"name": "mixtral-8x7b"}), cards, {"dear": 4.0, "cheap": 2.0, "small": 0.1}, {"torn": "no seal"}
    )
    rows = [line for line in page(found).splitlines() if line.startswith("| mixtral-8x7b | 1024 |")]
    assert [row.split(" | ")[2] for row in rows] == ["cheap", "dear", "small"]
    assert "the weights do not fit" in rows[2] and "- torn: no seal" in page(found)


def test_a_context_that_the_model_does_not_have_is_told() -> None:
    found = document(asked({"name": "gpt2"}), {"nvidia-h200": COMMITTED}, {}, {})
    assert found["models"][0]["beyond_context"] == [8192, 32768]
    assert "context up to 1024, so that S 8192, 32768 is left out." in page(found)


def test_a_session_without_served_models_tells_the_roof_alone() -> None:
    found = document(asked({"name": "qwen2-5-7b"}), {"bare": made_of([])}, {}, {})
    (first, *_) = found["predictions"][0]["steps"]
    assert first["roof_s"] > 0 and first["low_s"] is None and first["low_tokens_per_s"] is None
    assert "| – |" in page(found)


def test_a_missing_ceiling_is_said() -> None:
    bare = made_of([]) | {"ceilings": []}
    found = document(asked({"name": "qwen2-5-7b"}), {"bare": bare}, {}, {})
    assert {each["reason"] for each in found["predictions"]} == {"a ceiling it needs was not measured in this session"}
    assert "a ceiling it needs was not measured" in page(found)


def test_predicting_plans_nothing_that_is_paid_and_needs_no_gpu(tmp_path: Path) -> None:
    folder = copy_code(tmp_path)
    session = folder / "results" / "nvidia-h200"
    for record in [*synthetic.h200_session(), *model_records("gpt2", config())]:
        stage = "" if record["stage"] in ("device", "launch_floor") else f"{record['stage']}/"
        path = session / record["side"] / f"{stage}{record['name']}.{record['key']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record))
    before = sorted(path.name for path in session.rglob("*"))
    told = run(folder, "predict", "--config", "predict=[{name: qwen2-5-7b}]")
    assert "qwen2-5-7b on nvidia-h200, S 32768" in told
    assert sorted(path.name for path in session.rglob("*")) == before
    assert (folder / "results" / "predict.md").exists() and (folder / "results" / "predict.json").exists()


SPARSE = next(entry.config for entry in published() if entry.name == "deepseek-ai/DeepSeek-V3.2")


def test_attention_that_chooses_its_tokens_reads_them_and_every_index_key() -> None:
    model = decoder_of(SPARSE)
    assert [(each.length, each.count) for each in attentions(model, 32768, 4)] == [(2048, 61)]
    assert [(each.length, each.count) for each in attentions(model, 1024, 4)] == [(1024, 61)]
    assert index_work(model, 4, 32768).bytes == 4 * 32768 * 132
    assert index_work(model, 4, 32768).flop == 2 * 4 * 32768 * 64 * 128
    assert cache_bytes(model, 32768, 2) == 32768 * 61 * (2 * 576 + 132)


def test_a_model_without_a_kernel_here_is_told_of_and_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SPARSE))
    entry = {"name": "sparse", "config_json": str(path)}
    with pytest.raises(ConfigError, match="config: operators: sparse: attention that chooses its tokens .* `snakemake"):
        checked(config(operators=[entry]))
    found = document(asked(entry), {"nvidia-h200": COMMITTED}, {}, {})
    short, _, long = (each["steps"][0]["roof_s"] for each in found["predictions"])
    assert 0 < long - short < 0.2 * short  # 32 times the context adds the index keys and a thousand more rows
    assert {each["reason"] for each in found["predictions"]} == {"the weights do not fit"}

"""A model's name does not decide a number: its parts are measured once, and found under whatever name they were."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from free import model_table as pages
from rooflab.derive.document import roofline
from rooflab.derive.serving import models
from rooflab.plan import measurements, points, session
from rooflab.plan.config import checked
from rooflab.plan.models import shipped
from rooflab.plan.operators import asked
from rooflab.plan.points import Point
from rooflab.record.records import check_schema, digest, key_of, read_record
from rooflab.theory import step
from rooflab.theory.geometry import decoder
from test_model_table import ROOT, config, files, made_of, model_records, series

COMMITTED = ROOT / "results" / "nvidia-h200"
MEASURED = ("llama-3-1-8b", "phi-3-mini-128k", "deepseek-v2-lite")
LLAMA = shipped()["llama-3-1-8b"]["config"]
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
MISTRAL = shipped()["mistral-7b-v0-3"]["config"] | {"sliding_window": 4096, "vocab_size": 32000}
Record = dict[str, Any]


def given(tmp_path: Path, name: str, fields: Record) -> Record:
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(fields))
    return {"name": name, "config_json": str(path)}


def parts(operators: list[Record]) -> list[Point]:
    points = measurements.session_points(checked(config(operators=operators)), with_gpu=True)
    return [each for each in points if each.stage in ("attention", "step")]


def pending(points: list[Point]) -> list[str]:
    return [path.name for path in session.planned_files(COMMITTED, points) if not path.exists()]


def test_the_committed_models_are_still_measured() -> None:
    points = parts([{"name": name} for name in MEASURED])
    assert len(points) == 48 and pending(points) == []


def test_the_same_sizes_under_another_name_are_not_paid_for_again(tmp_path: Path) -> None:
    points = parts([given(tmp_path, "my-finetune", LLAMA | {"tie_word_embeddings": True})])
    assert len(points) == 16 and pending(points) == []
    assert len(pending(parts([given(tmp_path, "wider", LLAMA | {"intermediate_size": 14848})]))) == 16


def test_two_names_of_the_same_sizes_are_planned_once(tmp_path: Path) -> None:
    one, two = parts([{"name": "llama-3-1-8b"}]), parts([given(tmp_path, "mine", LLAMA)])
    assert [p.key for p in one] == [p.key for p in two] and [p.name for p in one] != [p.name for p in two]
    assert [p.name for p in parts([{"name": "llama-3-1-8b"}, given(tmp_path, "mine", LLAMA)])] == [p.name for p in one]


def test_a_record_under_its_old_key_and_one_under_its_new_one_are_both_trusted() -> None:
    (new,) = (read_record(path) for path in COMMITTED.glob("gpu/step/llama-3-1-8b-bf16-B1.*.json"))
    assert new["key"] == key_of(new["spec"]) != digest(new["spec"])[:8]
    record = read_record(
        ROOT / "tests" / "data" / "llama-3-1-8b-bf16-B1.d07fb221.json"
    )  # of the time when it held the name
    assert record["key"] == digest(record["spec"])[:8] != key_of(record["spec"])
    renamed = record["spec"] | {"operator": "other", "stored": {"tied": True}}
    assert key_of(renamed) == key_of(record["spec"])


def test_a_failed_attempt_under_another_name_is_tried_again_as_the_next(tmp_path: Path) -> None:
    (planned, *_) = parts([{"name": "gpt2"}])
    first = next(r for r in model_records("gpt2", config()) if r["name"] == planned.name)
    folder = tmp_path / "gpu" / planned.stage
    folder.mkdir(parents=True)
    record = first | {
        "status": "failed",
        "spec": first["spec"] | {"stage": planned.stage, "side": "gpu", "protocol": planned.spec["protocol"]},
    }
    (folder / "other-bf16-S1024-B1.00000000.json").write_text(json.dumps(record))
    (found,) = points.attempts(tmp_path, planned)
    assert found.name.startswith("other-")


def test_the_plan_s_holes_are_none_where_another_name_was_measured(tmp_path: Path) -> None:
    points = parts([given(tmp_path, "mine", LLAMA)])
    plan = [{"file": p.file(), "stage": p.stage, "side": p.side, "name": p.name} for p in points]
    records = {path.relative_to(COMMITTED).as_posix(): read_record(path) for path in session.record_files(COMMITTED)}
    made = roofline("nvidia-h200", records, plan, asked=asked(config(operators=[given(tmp_path, "mine", LLAMA)])))
    assert not [hole for hole in made["holes"] if hole["status"] == "missing"]
    assert not [note for note in made["notes"] if "other parameters" in note]
    mine, theirs = (next(m for m in made["models"] if m["name"] == name) for name in ("mine", "llama-3-1-8b"))
    assert mine["steps"] == theirs["steps"] and mine["source"] is None
    assert session.held_models(COMMITTED, config(operators=[given(tmp_path, "mine", LLAMA)])) == ["mine"]
    assert session.held_models(COMMITTED, config(operators=[{"name": "gpt2"}])) == []


# ---- contexts


def test_a_context_beyond_the_window_keeps_its_row_and_says_what_is_cached(tmp_path: Path) -> None:
    operators = [given(tmp_path, "windowed", MISTRAL)]
    lengths = {p.spec["sequence"]: p.spec.get("contexts") for p in parts(operators) if p.stage == "attention"}
    assert lengths == {1024: None, 4096: [8192, 32768]}
    (model,) = models(_records(operators), [], [])
    assert sorted({row["sequence"] for row in model["steps"]}) == [1024, 8192, 32768]
    assert {c["sequence"]: c["window_tokens"] for c in model["contexts"]} == {1024: None, 8192: 4096, 32768: 4096}
    by_context = {c["sequence"]: c["cache_bytes_per_sequence"] for c in model["contexts"]}
    assert by_context[8192] == by_context[32768] == 4096 * 131_072
    at = {(s["sequence"], s["batch"]): s["measured_s"] for s in model["steps"]}
    assert at[8192, 1] == at[32768, 1] and all(at.values())


def _records(operators: list[Record]) -> dict[str, Record]:
    made = []
    for point in parts(operators):
        model, batch = decoder(point.spec["geometry"]), point.spec["batch"]
        names = ["fused cold"]
        if point.stage == "step":
            names = [each.part for each in (*step.products(model, batch), *step.elementwise(model, batch))]
        taken = [series(name, 1e-5) for name in names]
        made.append(synthetic.record(point.stage, "gpu", point.name, spec=point.spec, dtype="bf16", series=taken))
    return files(made)


def test_contexts_that_the_model_does_not_have_are_told() -> None:
    operators = [{"name": "gpt2"}]
    made = made_of_asked(operators)
    (model,) = made["models"]
    assert model["beyond_context"] == [8192, 32768]
    assert "S 8192, 32768: beyond this model's context of 1024, left out." in pages.page(made, "gpt2")


def made_of_asked(operators: list[Record]) -> Record:
    records = files(
        [*synthetic.h200_session(), *model_records("llama-3-1-8b", config()), *model_records("gpt2", config())]
    )
    wanted = {name for each in operators for name in (each["name"],)}
    made = roofline("nvidia-h200", records, [], asked=asked(config(operators=operators)))
    check_schema("roofline", made, "roofline.json")
    return made | {"models": [model for model in made["models"] if model["name"] in wanted]}


# ---- quantized checkpoints


def test_the_page_of_a_quantized_model_says_what_is_measured_and_what_is_by_the_roof(tmp_path: Path) -> None:
    made = made_of_asked([given(tmp_path, "four-bits", LLAMA | {"quantization_config": AWQ})])
    (model,) = made["models"]
    assert model["stored"] == {"method": "awq", "bits": 4, "kv_bits": None}
    assert model["weight_bytes"] == pytest.approx(5.73e9, rel=0.01)
    row = next(s for s in model["steps"] if (s["sequence"], s["batch"]) == (1024, 1))
    assert row["stored_attainable_s"] < 0.4 * row["attainable_s"] < row["measured_s"]
    assert row["memory_bytes_asked"] == model["weight_bytes"] + 1024 * 131_072
    text = pages.page(made, "four-bits")
    assert "## Measured with weights in bf16, cache in bf16" in text
    assert "Measured are products in bf16 and attention on a cache in bf16" in text
    assert "as stored (awq, 4 bits), by the roof, ms/token" in text and "by the roof alone" in text


def test_the_page_of_a_model_in_its_own_dtype_says_nothing_of_the_kind() -> None:
    text = pages.page(made_of(model_records("llama-3-1-8b", config())), "llama-3-1-8b")
    assert "as stored" not in text and "Measured are products" not in text

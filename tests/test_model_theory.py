"""What a decode step consists of, by theory, and what the plan measures of it."""

import re
from typing import Any

import pytest
from rooflab.plan import measurements
from rooflab.plan.config import ConfigError, checked
from rooflab.plan.operators import names, points
from rooflab.theory import step, storage
from rooflab.theory.geometry import Experts
from rooflab.theory.work import decode_attention
from test_model_table import DEEPSEEK, GPT2, LLAMA, MODELS, WINDOWED, config

Record = dict[str, Any]


# ---- theory


@pytest.mark.parametrize(
    ("name", "billions"),
    [("llama-3-1-8b", 8.03), ("mistral-7b-v0-3", 7.25), ("qwen2-5-7b", 7.62), ("gpt2", 0.124), ("phi-3-mini-128k", 3.82),
     ("deepseek-v2-lite", 15.7), ("gemma-7b", 8.54)],
)  # fmt: skip
def test_the_weights_are_as_many_as_the_model_is_known_for(name: str, billions: float) -> None:
    assert storage.parameters(MODELS[name]) / 1e9 == pytest.approx(billions, rel=0.01)


def test_the_products_of_a_grouped_model() -> None:
    found = {p.part: (p.rows, p.n, p.k, p.count) for p in step.products(LLAMA, 16)}
    assert found == {
        "QKV": (16, 6144, 4096, 32),
        "attention output": (16, 4096, 4096, 32),
        "MLP gate and up": (16, 28672, 4096, 32),
        "MLP down": (16, 4096, 14336, 32),
        "LM head": (16, 128256, 4096, 1),
    }


def test_an_mlp_without_gate_goes_up_once_and_its_norm_has_mean_and_bias() -> None:
    parts = {p.part: p.n for p in step.products(GPT2, 1)}
    assert parts["MLP up"] == 3072 and "MLP gate and up" not in parts
    kernels = {e.part: (e.kernel, e.count) for e in step.elementwise(GPT2, 1)}
    assert kernels == {"norm": ("layernorm", 25), "activation": ("gelu", 12)}


def test_latent_attention_absorbs_each_head_s_share_of_the_weights() -> None:
    found = {p.part: (p.groups, p.n, p.k) for p in step.products(DEEPSEEK, 4)}
    assert found["query and latent"] == (1, 16 * 192 + 576, 2048)
    assert found["heads' queries to the latent"] == (16, 512, 128)
    assert found["heads' values from the latent"] == (16, 128, 512)
    assert found["attention output"] == (1, 2048, 16 * 128)


@pytest.mark.parametrize(("batch", "groups", "rows"), [(1, 6, 1), (16, 51, 2), (256, 64, 24)])
def test_the_experts_that_a_batch_chooses(batch: int, groups: int, rows: int) -> None:
    found = {p.part: (p.groups, p.rows) for p in step.products(DEEPSEEK, batch)}
    assert found["experts gate and up"] == found["experts down"] == (groups, rows)
    assert found["MLP down"] == (1, batch)


def test_distinct_experts_are_those_of_the_expectation() -> None:
    experts = Experts(count=8, chosen=2, inner=16)
    assert [step.distinct_experts(experts, batch) for batch in (1, 2, 100)] == [2, 4, 8]


def test_grouped_attention_is_that_of_the_minigpt_s_theory() -> None:
    assert step.attention_work(LLAMA, 3, 500, 2) == decode_attention(3, 32, 8, 500, 128, 2)


def test_latent_attention_reads_its_latent_once() -> None:
    work = step.attention_work(DEEPSEEK, 2, 1000, 2)
    assert work.bytes == 2 * 1000 * 576 * 2
    assert work.flop == 2 * 2 * 1000 * 16 * (576 + 512)


@pytest.mark.parametrize(("kv_bytes", "intensity"), [(2, 4.0), (1, 8.0)])
def test_intensity_is_twice_the_group_over_the_element(kv_bytes: int, intensity: float) -> None:
    assert step.attention_work(LLAMA, 16, 8192, kv_bytes).intensity == intensity


def test_a_window_caps_the_length_and_the_cache() -> None:
    assert [(a.length, a.count) for a in step.attentions(WINDOWED, 1024, 2)] == [(1024, 1), (256, 3)]
    assert [(a.length, a.count) for a in step.attentions(WINDOWED, 200, 2)] == [(200, 4)]
    assert step.cache_bytes(WINDOWED, 1024, 2) == (1024 + 3 * 256) * 2 * 2 * 16 * 2


def test_the_cache_of_a_sequence() -> None:
    assert step.cache_bytes(LLAMA, 8192, 2) == 2**30
    assert step.cache_bytes(DEEPSEEK, 1000, 2) == 1000 * 27 * 576 * 2


def test_a_product_reads_its_weights_and_input_and_writes_its_output() -> None:
    work = step.Product("p", rows=3, n=5, k=7, count=1, groups=2).work(in_bytes=1, out_bytes=2)
    assert work.flop == 2 * 2 * 3 * 5 * 7 and work.bytes == 2 * ((3 * 7 + 5 * 7) * 1 + 3 * 5 * 2)


def test_an_elementwise_kernel_moves_each_operand_once() -> None:
    assert step.Elementwise("n", "rmsnorm", 3, 8, 1).work(2).bytes == (4 * 24 + 8) * 2
    assert step.Elementwise("n", "layernorm", 3, 8, 1).work(2).bytes == (4 * 24 + 16) * 2
    assert step.Elementwise("a", "silu_gated", 3, 8, 1).work(4).bytes == 3 * 24 * 4
    assert step.Elementwise("a", "gelu", 3, 8, 1).work(4).bytes == 2 * 24 * 4


# ---- plan


def test_the_default_session_has_no_operators() -> None:
    assert points(config()) == []


def three() -> Record:
    return config(operators=[{"name": name} for name in ("llama-3-1-8b", "phi-3-mini-128k", "deepseek-v2-lite")])


def test_three_real_models_fit_into_two_hundred_files() -> None:
    points = measurements.session_points(checked(three()), with_gpu=True)
    mine = [p for p in points if p.stage in ("attention", "step", "sweep")]
    assert {p.stage: sum(q.stage == p.stage for q in mine) for p in mine} == {"attention": 36, "step": 12, "sweep": 4}
    assert len(points) <= 200 and len({p.file() for p in points}) == len(points)
    assert max(p.spec["sequence"] for p in mine if p.stage == "attention") == 32768
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", p.name) for p in mine)


def test_a_value_more_in_a_list_changes_no_other_file() -> None:
    before = {p.file() for p in measurements.session_points(checked(three()), with_gpu=True)}
    more = three()
    more["serving"] = more["serving"] | {
        "batches": [1, 16, 64, 128, 256], "sequence_lengths": [1024, 2048, 8192, 32768], "kv_dtypes": ["bf16", "fp8_e4m3"],
    }  # fmt: skip
    more["operators"] = [*more["operators"], {"name": "gpt2"}]
    after = {p.file() for p in measurements.session_points(checked(more), with_gpu=True)}
    assert before < after


def test_a_changed_geometry_changes_its_own_files_only() -> None:
    given = three()
    first = {p.file() for p in measurements.session_points(checked(given), with_gpu=True)}
    given["operators"][0] = {"name": "llama-3-1-8b", "geometry": LLAMA.as_dict() | {"layers": 16}}
    second = {p.file() for p in measurements.session_points(checked(given), with_gpu=True)}
    assert {file for file in first - second if "/llama-3-1-8b-" in file} == first - second != set()


def test_contexts_beyond_a_model_s_own_are_left_out_and_windows_are_measured() -> None:
    given = config(operators=[{"name": "gpt2"}, {"name": "w", "geometry": WINDOWED.as_dict()}])
    specs = [each.spec for each in points(given) if each.stage == "attention"]
    assert {s["sequence"] for s in specs if s["operator"] == "gpt2"} == {1024}
    assert {s["sequence"] for s in specs if s["operator"] == "w"} == {256, 1024}


def test_a_bad_operator_is_one_line_of_the_config() -> None:
    with pytest.raises(ConfigError, match="config: operators: nobody: not a shipped geometry"):
        checked(config(operators=[{"name": "nobody"}]))


def test_a_file_tells_its_model() -> None:
    files = [point.file() for point in measurements.session_points(checked(three()), with_gpu=True)]
    assert names(f"results/x/{file}" for file in files) == ["deepseek-v2-lite", "llama-3-1-8b", "phi-3-mini-128k"]


def test_five_hundred_files_are_planned_in_no_time() -> None:
    given = three()
    given["serving"] = given["serving"] | {
        "batches": list(range(1, 33)), "sequence_lengths": [1024, 2048, 4096, 8192, 16384, 32768],
    }  # fmt: skip
    points = measurements.session_points(checked(given), with_gpu=True)
    assert len(points) > 600 and len({p.file() for p in points}) == len(points)

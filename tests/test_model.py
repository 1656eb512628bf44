"""The free model on synthetic sessions: ceilings, points, holes, files, and that any subset of records will do."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic
from free.device_query import device_query
from free.peak_flops_summary import peak_flops
from rooflab.derive.ceilings import all_ceilings
from rooflab.derive.document import roofline
from rooflab.derive.floors import launch_floors
from rooflab.derive.given import given_ceilings
from rooflab.derive.series import is_power_capped
from rooflab.look.voice import Voice
from rooflab.record import ledger
from rooflab.record.records import check_schema, key_of, seal, validator
from rooflab.theory.quantiles import median, percentile, spread

SCRIPTS = Path(__file__).resolve().parent.parent / "workflow" / "scripts"


def model(made: list[synthetic.Record], plan: list[synthetic.Record] | None = None, **more: Any) -> dict[str, Any]:
    planned = synthetic.planned(made) if plan is None else plan
    result = roofline("session", synthetic.with_files(made), planned, **more)
    check_schema("roofline", result, "roofline.json")
    return result


def by_id(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in items}


def test_percentiles_are_linear_between_samples() -> None:
    assert (median([3, 1, 2]), median([1, 2]), percentile([0, 10], 90)) == (2, 1.5, 9)
    assert spread([1.0, 2.0, 3.0]) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="0 samples"):
        median([])


def test_synthetic_records_are_valid_measurements() -> None:
    for made in synthetic.h200_session() + synthetic.cpu_session():
        check_schema("measurement", made, made["name"])


def test_the_compute_ceiling_is_the_fastest_burst_of_any_size() -> None:
    found = by_id(all_ceilings(synthetic.with_files(synthetic.h200_session())))
    fp8, bf16 = found["gpu-compute-fp8_e4m3"], found["gpu-compute-bf16"]
    assert (fp8["n"], bf16["n"]) == (8192, 4096)
    assert fp8["burst"] == pytest.approx(1547e12)
    assert bf16["sustained"] == pytest.approx(678e12, rel=0.02)
    assert bf16["fraction_of_vendor"] == pytest.approx(790 / 989.4)
    assert bf16["burst_spread"][0] < bf16["burst"] < bf16["burst_spread"][1]
    assert (bf16["label"], bf16["accumulator"], bf16["power_capped"]) == ("bf16 Tensor Core", "fp32", True)
    assert found["gpu-compute-fp32"]["unit"] == "CUDA core"


def test_a_candidate_algorithm_raises_the_ceiling_and_a_wrong_result_does_not() -> None:
    n = 4096
    seconds = 2 * n**3 / 800e12
    record = synthetic.gemm("gpu", "fp16", n, 700, 760, 650, 2e-4)
    better = synthetic.series("burst candidate", "cublasLt 3", seconds, relative_error=2e-4, tolerance=1e-3)
    wrong = synthetic.series("burst candidate", "cublasLt 4", seconds / 2, relative_error=1.0, tolerance=1e-3)
    made = synthetic.record(
        "gemm", "gpu", "fp16-n4096", operator="gemm", dtype="fp16", shape=record["shape"],
        series=[*record["series"], better, wrong],
    )  # fmt: skip
    (ceiling,) = all_ceilings({"gpu/gemm/x": made})
    assert (ceiling["implementation"], ceiling["burst"]) == ("cublasLt 3", pytest.approx(800e12))


@pytest.mark.parametrize(("pattern", "rate"), synthetic.H200_GB_PER_S.items())
def test_memory_ceilings_count_reads_and_writes(pattern: str, rate: float) -> None:
    found = by_id(all_ceilings(synthetic.with_files(synthetic.h200_session())))
    ceiling = found[f"gpu-memory-{pattern}"]
    assert ceiling["burst"] == pytest.approx(rate * 1e9)
    assert (ceiling["tier"], ceiling["unit_of_value"], ceiling["vendor"]) == ("HBM", "bytes_per_s", 4.8e12)


def test_power_cap_is_read_whatever_the_spelling_and_unknown_where_the_chip_is_silent() -> None:
    def capped(during: dict[str, Any]) -> bool | None:
        return is_power_capped({"name": "burst", "chip": {"before": {}, "during": during}})

    assert [capped({"throttle_reasons": [r]}) for r in ("SwPowerCap", "sw_power_cap", "GpuIdle")] == [True, True, False]
    assert capped({}) is None


def test_launch_floors_are_per_launch() -> None:
    floors = by_id(launch_floors(synthetic.with_files(synthetic.h200_session())))
    assert floors["gpu-launch-graph"]["median_s"] == pytest.approx(0.51e-6)
    assert floors["gpu-launch-back_to_back"]["median_s"] == pytest.approx(4.5e-6)


def test_the_gemm_point_is_the_lab_series_at_4096_with_both_conventions() -> None:
    points = by_id(model(synthetic.h200_session())["points"])
    fp16 = points["gpu-gemm-fp16-n4096"]
    assert (fp16["intensity"], fp16["lab_point"], fp16["samples"]) == (2048, True, 5)
    assert fp16["intensity_with_writes"] == pytest.approx(4096 / 3)
    assert fp16["achieved_flop_per_s"] == pytest.approx(700e12)
    assert fp16["fraction_of_ceiling"] == pytest.approx(700 / 761)
    assert fp16["fraction_of_vendor"] == pytest.approx(700 / 989.4)
    assert "gpu-gemm-fp16-n8192" not in points
    assert points["cpu-gemm-fp32-n2048"]["lab_point"]


def test_fp8_writes_two_bytes_per_element() -> None:
    fp8 = by_id(model(synthetic.h200_session())["points"])["gpu-gemm-fp8_e4m3-n4096"]
    assert (fp8["intensity"], fp8["intensity_with_writes"]) == (4096, 2048)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_one_decode_lab_point_per_dtype_and_sequence_the_fastest_from_python(dtype: str) -> None:
    points = [
        p for p in model(synthetic.h200_session())["points"] if p["id"].startswith(f"gpu-decode-minigpt-{dtype}-")
    ]
    lab = [p for p in points if p["lab_point"]]
    assert [p["sequence"] for p in lab] == [128, 256, 512, 1024]
    assert {(p["implementation"], p["launch"], p["timing"]) for p in lab} == {("fused", "python", "sync_each")}
    assert len(points) == 12
    assert {p["intensity"] for p in points} == {0.5 if dtype == "fp32" else 1.0}


def test_a_wrong_result_is_no_lab_point() -> None:
    good = synthetic.decode_series("cupy_chain", "cupy_chain", 100.0)
    wrong = synthetic.decode_series("fused", "fused", 10.0, relative_error=0.5)
    points = by_id(model([synthetic.decode("gpu", "fp16", 128, [good, wrong])])["points"])
    assert points["gpu-decode-minigpt-fp16-S128-cupy_chain"]["lab_point"]
    assert not points["gpu-decode-minigpt-fp16-S128-fused"]["lab_point"]
    assert not points["gpu-decode-minigpt-fp16-S128-fused"]["verified"]


def test_ridge_points_stay_on_their_side() -> None:
    ridges = model(synthetic.h200_session())["ridge_points"]
    assert all(r["ceiling"][:3] == r["slope"][:3] for r in ridges)
    found = {(r["ceiling"], r["slope"]): r["intensity"] for r in ridges}
    assert found["gpu-compute-bf16", "gpu-memory-read"] == pytest.approx(790e12 / 4713e9)


def test_the_theoretical_cpu_peak_needs_every_factor() -> None:
    factors = {"cores": 8, "clock_hz": 3e9, "fp32_lanes": 8, "fma_units": 2, "reason": None}
    made = [r for r in synthetic.cpu_session() if r["stage"] != "device"] + [synthetic.device("cpu", peak=factors)]
    found = by_id(all_ceilings(synthetic.with_files(made)))
    assert found["cpu-compute-fp32"]["vendor"] == 8 * 3e9 * 8 * 2 * 2
    assert found["cpu-compute-fp64"]["vendor"] == 8 * 3e9 * 8 * 2
    assert by_id(all_ceilings(synthetic.with_files(synthetic.cpu_session())))["cpu-compute-fp32"]["vendor"] is None


def test_a_given_cpu_roofline_replaces_the_records(tmp_path: Path) -> None:
    (tmp_path / "cpu.json").write_text('{"flop_per_s": {"fp32": 1e12}, "bytes_per_s": {"read": 5e10}}')
    given = given_ceilings(tmp_path / "cpu.json")
    kept = [r for r in synthetic.h200_session() if r["side"] == "gpu" or r["stage"] not in ("gemm", "bandwidth")]
    result = model(kept, cpu_ceilings=given)
    assert result["answers"]["cpu"]["bandwidth_ratio_read"] == pytest.approx(4713 / 50)
    assert by_id(result["points"])["cpu-decode-minigpt-fp32-S128-numpy"]["memory_ceiling"] == "cpu-memory-read"


GOOD = {"flop_per_s": {"fp32": 8e11}, "bytes_per_s": {"read": 4e10}}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "the top level: 'flop_per_s' is a required property"),
        ([], "the top level: .*is not of type 'object'"),
        ({"gflops": 800}, "the top level"),
        (GOOD | {"flop_per_s": {"x": 1e12}}, "flop_per_s: .*'x' was unexpected"),
        (GOOD | {"flop_per_s": {}}, "flop_per_s"),
        (GOOD | {"flop_per_s": {"fp32": "8e11"}}, r"flop_per_s\.fp32: '8e11' is not of type 'number'"),
        (GOOD | {"flop_per_s": {"fp32": 800}}, "fp32: 800 FLOP/s is no CPU's .*in GFLOP/s it would be 8e\\+11"),
        (GOOD | {"bytes_per_s": {"read": 40}}, "read: 40 byte/s is no CPU's .*in Gbyte/s it would be 4e\\+10"),
        (GOOD | {"bytes_per_s": {"read": 4e19}}, r"read: 4e\+19 byte/s is no CPU's \(expected 1e\+08 to 1e\+14\)$"),
    ],
)
def test_a_bad_cpu_roofline_is_one_clear_line(tmp_path: Path, given: Any, told: str) -> None:
    (tmp_path / "cpu.json").write_text(json.dumps(given))
    with pytest.raises(ValueError, match=f"cpu.json.*{told}") as error:
        given_ceilings(tmp_path / "cpu.json")
    assert "\n" not in str(error.value)


def test_what_the_driver_refuses_is_null_and_nested_facts_are_found() -> None:
    cuda = {"compute_capability": "9.0", "l2_bytes": 62_914_560}
    nvml = {"max_sm_clock_hz": {"unavailable": "not supported"}, "power_limit_w": {"unavailable": "no permission"}}
    device = synthetic.record("device", "gpu", "device", details={"cuda": cuda, "nvml": nvml})
    made = synthetic.h200_session(without=["device"], extra=[device])
    result = model(made)
    assert result["devices"]["gpu"]["l2_bytes"] == 62_914_560
    assert by_id(result["ceilings"])["gpu-compute-fp16"]["vendor"] == pytest.approx(989.4e12)


def test_the_order_of_the_records_does_not_matter() -> None:
    made = synthetic.h200_session()
    shuffled = random.Random(0).sample(made, len(made))
    plan = synthetic.planned(made)
    assert json.dumps(model(made, plan)) == json.dumps(model(shuffled, plan))


@pytest.mark.parametrize("seed", range(12))
def test_any_subset_of_records_gives_a_valid_model(seed: int) -> None:
    made, chance = synthetic.h200_session(), random.Random(seed)
    kept = chance.sample(made, chance.randrange(len(made)))
    result = model(kept, synthetic.planned(made))
    assert len(result["holes"]) == len(made) - len(kept)
    assert {hole["status"] for hole in result["holes"]} == {"missing"}


def test_no_record_at_all_is_a_session_of_holes() -> None:
    result = model([], synthetic.planned(synthetic.cpu_session()))
    assert (result["points"], result["ceilings"], result["devices"]) == ([], [], {"gpu": None, "cpu": None})
    assert len(result["holes"]) == len(synthetic.cpu_session())


def test_holes_say_why() -> None:
    result = model(synthetic.h200_session(failed=["fp16-n8192"], unsupported=["fp8_e4m3-n4096"]))
    assert {(h["name"], h["status"], h["reason"]) for h in result["holes"]} == {
        ("fp16-n8192", "failed", "fp16-n8192 is failed"),
        ("fp8_e4m3-n4096", "unsupported", "fp8_e4m3-n4096 is unsupported"),
    }


def test_a_later_attempt_replaces_a_failed_one() -> None:
    good = synthetic.gemm("gpu", "fp16", 4096, 700, 760, 650, 2e-4, attempt=2)
    failed = synthetic.emptied(synthetic.gemm("gpu", "fp16", 4096, 700, 760, 650, 2e-4), "failed")
    result = model([failed, good])
    assert (result["holes"], len(result["points"])) == ([], 1)
    assert [item["file"].split(".")[-2] for item in result["generated_from"]] == ["2"]


def test_an_attempt_that_fails_does_not_hide_the_earlier_good_record_and_is_told() -> None:
    good = synthetic.gemm("gpu", "fp16", 4096, 700, 760, 650, 2e-4)
    anew = {"spec": good["spec"] | {"protocol": 2}, "started_at": "2027-01-01T00:00:00Z"}
    failed = synthetic.emptied(good | anew | {"key": key_of(anew["spec"])}, "failed")
    plan = synthetic.planned([failed])
    assert [hole["status"] for hole in model([failed], plan)["holes"]] == ["failed"]
    result = model([good, failed], plan)
    assert (result["holes"], len(result["points"])) == ([], 1)
    assert [note["code"] for note in result["notes"]] == ["later_attempt_failed", "other_parameters"]
    assert "fp16-n4096 is failed" in str(result["notes"][0])


def test_a_record_of_other_parameters_is_used_and_named() -> None:
    old = synthetic.gemm("gpu", "fp16", 4096, 700, 760, 650, 2e-4)
    plan = [synthetic.planned([old])[0] | {"file": "gpu/gemm/fp16-n4096.00000000.json"}]
    result = model([old], plan)
    assert len(result["points"]) == 1
    assert [note["code"] for note in result["notes"]] == ["other_parameters"]


def test_mixed_cards_versions_and_noise_are_named() -> None:
    other = synthetic.H200 | {"uuid": "GPU-00000000-0000-0000-0000-000000000002"}
    environment = synthetic.GPU_ENVIRONMENT | {"packages": {"numpy": "2.9.9"}}
    jumpy = synthetic.series("burst", "read", 1.0, samples_s=[1.0, 1.0, 2.0])
    shape = {"bytes_per_array": 2**30, "reads": 1, "writes": 0}
    odd = synthetic.record(
        "bandwidth", "gpu", "read", shape=shape, series=[jumpy], device=other, environment=environment
    )
    notes = Voice("en").reason(model([*synthetic.h200_session(without=["read"]), odd])["notes"])
    assert "measured on 2 devices" in notes
    assert "packages.numpy: 2.1.2, 2.9.9" in notes
    assert "samples spread by up to 80.0 %" in notes
    assert model(synthetic.h200_session())["notes"] == []


def test_the_schema_refuses_an_unknown_field() -> None:
    made = model(synthetic.cpu_session())
    made["points"][0]["speed"] = 1
    assert [error.validator for error in validator("roofline").iter_errors(made)] == ["additionalProperties"]


def test_device_query_carries_vendor_figures_with_sources() -> None:
    made = device_query("s", synthetic.with_files(synthetic.h200_session()), [])
    fp16 = made["gpu"]["vendor"]["flop_per_s"]["fp16"]
    assert (fp16["value"], fp16["source"].split(":")[0]) == (pytest.approx(989.4e12), "https")
    assert made["cpu"]["llc_bytes"] == 33554432
    assert device_query("s", synthetic.with_files(synthetic.cpu_session()), [])["gpu"] is None


def test_peak_flops_has_every_dtype_or_its_reason() -> None:
    made = synthetic.h200_session(unsupported=["fp8_e4m3-n4096", "fp8_e4m3-n8192"])
    dtypes = peak_flops("s", synthetic.with_files(made), synthetic.planned(made))["dtypes"]
    assert list(dtypes) == ["bf16", "fp16", "fp32", "fp8_e4m3"]
    assert dtypes["fp8_e4m3"]["status"] == "unsupported"
    assert dtypes["fp16"]["burst_flop_per_s"] == pytest.approx(760e12)
    assert dtypes["fp16"]["sustained_fraction_of_vendor"] == pytest.approx(649 / 989.4, rel=0.02)
    assert dtypes["fp16"]["verified"]


def run(program: str, folder: Path, paths: list[Path], plan: Path, out: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPTS / "free" / program), "--session-dir", str(folder), "--planned", str(plan)]
    command += ["--out", str(folder / out), "--records", *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_programs_write_their_files_from_the_command_line(tmp_path: Path) -> None:
    folder, plan = tmp_path / "cpu-example", tmp_path / "plan.json"
    made = synthetic.cpu_session()
    paths = synthetic.write_session(folder, made)
    plan.write_text(json.dumps(synthetic.planned(made)))
    outputs = {
        "device_query.py": "device_query.json",
        "peak_flops_summary.py": "peak_flops.json",
        "roofline.py": "roofline.json",
        "manifest.py": "manifest.json",
    }
    for program, out in outputs.items():
        done = run(program, folder, paths, plan, out)
        assert (done.returncode, done.stderr) == (0, "")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["checks"]) == 7
    assert str(tmp_path) not in json.dumps(manifest)


def test_roofline_json_is_made_of_its_arguments_and_their_files_alone(tmp_path: Path) -> None:
    """The same records, twice, with another ledger and another session beside them: the same bytes."""
    folder, plan = tmp_path / "results" / "cpu-example", tmp_path / "plan.json"
    made = synthetic.cpu_session()
    paths = synthetic.write_session(folder, made)
    plan.write_text(json.dumps(synthetic.planned(made)))
    assert run("roofline.py", folder, paths, plan, "roofline.json").returncode == 0
    first = (folder / "roofline.json").read_bytes()
    (tmp_path / "results" / "nvidia-h200" / "gpu").mkdir(parents=True)
    ledger.append(folder / "ledger.jsonl", "run start", run="a")
    assert run("roofline.py", folder, paths[::-1], plan, "roofline.json").returncode == 0
    assert (folder / "roofline.json").read_bytes() == first
    assert run("roofline.py", folder, [*paths, "--gpu-sessions", "b", "a"], plan, "roofline.json").returncode == 0
    assert json.loads((folder / "roofline.json").read_text())["answers"]["cpu"]["gpu_sessions"] == ["a", "b"]


def test_a_damaged_record_stops_the_program_with_its_name(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text("[]")
    paths = synthetic.write_session(tmp_path, synthetic.cpu_session()[:1])
    paths[0].write_text(paths[0].read_text().replace("AVX2", "AVX9"))
    done = run("roofline.py", tmp_path, paths, plan, "roofline.json")
    assert done.returncode != 0
    assert paths[0].name in done.stderr
    assert not (tmp_path / "roofline.json").exists()


def test_variants_and_the_instruction_peak_have_ceilings_of_their_own() -> None:
    full = synthetic.gemm("gpu", "fp8_e4m3", 8192, 1390, 1410, 1205, 2e-3)
    acc16 = synthetic.gemm("gpu", "fp16", 8192, 700, 766, 654, 2.4e-3)
    renamed = [seal(full | {"name": "fp8_e4m3_full-n8192"}), seal(acc16 | {"name": "fp16_acc16-n8192"})]
    shape = {"threads": 1000, "fma_per_thread": 500}
    timed = [synthetic.series(name, "register FMA kernel", 1e6 / 65e12) for name in ("burst", "sustained")]
    fma = synthetic.record("fma", "gpu", "fma-fp32", operator="fma", dtype="fp32", shape=shape, series=timed)
    made = model(synthetic.h200_session(extra=[*renamed, fma]))
    tops = {c["variant"]: c for c in made["ceilings"] if c["side"] == "gpu" and c["kind"] == "compute"}
    assert tops["fp8_e4m3_full"]["burst"] == pytest.approx(1410e12) and tops["fp8_e4m3_full"]["dtype"] == "fp8_e4m3"
    assert (tops["fp16_acc16"]["accumulator"], tops["fp16"]["accumulator"]) == ("fp16", "fp32")
    assert tops["fp32_fma"]["burst"] == pytest.approx(65e12) and tops["fp32_fma"]["unit"] == "CUDA core"
    assert tops["fp8_e4m3"]["burst"] == pytest.approx(1547e12)
    point = next(p for p in made["points"] if p["variant"] == "fp8_e4m3_full")
    assert not point["lab_point"] and point["fraction_of_ceiling"] == pytest.approx(1390 / 1410)
    check_schema("roofline", made, "here")


def test_a_point_is_held_against_the_empty_launches_of_its_own_program() -> None:
    own = synthetic.decode_series("empty", "empty kernel", 4.0, cache=None, relative_error=None, tolerance=None)
    fused = synthetic.decode_series("fused", "fused", 5.0)
    quick = synthetic.decode("gpu", "fp16", 128, [own, fused])
    made = model(synthetic.h200_session(without=["minigpt-fp16-S128"], extra=[quick]))
    points = {p["id"]: p for p in made["points"]}
    point = points["gpu-decode-minigpt-fp16-S128-fused"]
    assert point["launch_floor_s"] == pytest.approx(4e-6) and not point["above_roof"]
    assert points["gpu-decode-minigpt-fp16-S256-fused"]["launch_floor_s"] == pytest.approx(9.3e-6)
    assert not [name for name in points if "empty" in name]

"""What the rules are told: which files a run makes, what code they depend on, and that the rules stay free of Python."""

import ast
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from lab import ROOT
from rooflab.machine import detect
from rooflab.plan import config as configuration
from rooflab.record import handover, names
from rooflab.run.asked import Asked
from rooflab.run.code import CODE, SCRIPTS, code_of
from rooflab.run.paid import PAID
from rooflab.run.places import Places
from rooflab.run.refusals import refuse_force
from rooflab.run.targets import FREE, Targets
from snakemake_interface_executor_plugins.settings import ExecMode

RULES = sorted((ROOT / "workflow" / "rules").glob("*.smk"))


def asked(*targets: str) -> Asked:
    """A request as Snakemake's workflow object holds it."""
    return Asked(
        SimpleNamespace(
            dag_settings=SimpleNamespace(targets=targets),
            output_settings=SimpleNamespace(dryrun=True, quiet=None),
            exec_mode=ExecMode.DEFAULT,
            executor_plugin=None,
            global_resources={},
        )
    )


def config(**changes: Any) -> dict[str, Any]:
    return configuration.checked(
        yaml.safe_load((ROOT / "config.yaml").read_text()) | {"device": "nvidia-h200"} | changes
    )


def targets(results: Path, *wanted: str, **changes: Any) -> Targets:
    told, made = asked(*wanted), config(**changes)
    return Targets(told, Places(told, made, results), made, results)


def test_a_run_that_measures_plans_its_session_and_a_free_one_takes_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "old" / "gpu").mkdir(parents=True)
    (tmp_path / "old" / "gpu" / "device.00000000.json").write_text("{}")
    measuring, drawing = targets(tmp_path), targets(tmp_path, "plot")
    assert measuring.sessions() == ["nvidia-h200", "old"] and drawing.sessions() == ["old"]
    new = measuring.records_of(SimpleNamespace(session="nvidia-h200"))
    assert new == measuring.measured_files() and len(new) == len(measuring.points)
    assert drawing.records_of(SimpleNamespace(session="old")) == [str(tmp_path / "old/gpu/device.00000000.json")]


def test_a_session_that_cannot_be_trusted_is_not_drawn_and_raises_the_alarm(tmp_path: Path) -> None:
    bad = tmp_path / "old" / "gpu" / "device.00000000.json"
    bad.parent.mkdir(parents=True)
    bad.write_text("{}")
    drawing = targets(tmp_path, "report")
    assert drawing.free() == [str(tmp_path / "untrusted")] and str(bad) in handover.text(handover.UNTRUSTED)


def test_the_free_files_of_a_session_are_those_of_the_list(tmp_path: Path) -> None:
    (tmp_path / "old" / "gpu").mkdir(parents=True)
    assert targets(tmp_path, "report").free() == [str(tmp_path / "old" / name) for name in FREE]


def test_a_job_that_would_make_a_measurement_anew_is_refused_and_a_missing_one_is_not(tmp_path: Path) -> None:
    there, missing = (Path("results/x/gpu") / f"{name}.00000000.json" for name in ("device", "launch_floor"))
    there = tmp_path / there
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    refuse_force([SimpleNamespace(output=[str(missing)]), SimpleNamespace(output=["results/x/roofline.json"])])
    with pytest.raises(SystemExit, match="a forced run would measure again"):
        refuse_force([SimpleNamespace(output=[str(missing), str(there)])])


@pytest.mark.parametrize("given", [{}, {"gpus": ["GPU-5ccde6f2"], "parallel_gpus": True}])
def test_a_paid_job_asks_for_one_place_and_its_card_s_slot(given: dict[str, Any], tmp_path: Path) -> None:
    made = config(**given)
    resources = Places(asked(), made, tmp_path).resources("gpu")
    assert resources["paid"] == 1 and ("card0" in resources) == bool(given)
    assert Places(asked(), made, tmp_path).resources("cpu") == {"paid": 1}


def test_a_gpu_s_session_is_not_measured_on_a_machine_without_one(tmp_path: Path) -> None:
    """It got an empty picture, failed records and seconds, with exit status 0."""
    (tmp_path / "nvidia-h200" / "gpu").mkdir(parents=True)
    with pytest.raises(SystemExit, match="holds measurements of a GPU, and this run measures a CPU alone"):
        targets(tmp_path, device="cpu", session="nvidia-h200").measured_files()
    assert targets(tmp_path, "plot", device="cpu", session="nvidia-h200").sessions() == ["nvidia-h200"]


def test_an_amd_gpu_is_named_as_not_measured(tmp_path: Path) -> None:
    for place, vendor, kind in (("a", "0x8086", "0x030000"), ("b", "0x1002", "0x120000"), ("c", "0x1002", "0x040300")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "vendor").write_text(f"{vendor}\n")
        (tmp_path / place / "class").write_text(f"{kind}\n")
    told = detect.not_measured(tmp_path)
    assert told is not None and "AMD GPU is here and is not measured" in told
    (tmp_path / "b" / "vendor").write_text("0x10de\n")
    assert detect.not_measured(tmp_path) is None and detect.not_measured(tmp_path / "absent") is None


def imports(program: Path) -> set[Path]:
    """The files of ours that a program imports, however deep, and itself."""
    seen, ahead = set(), [program]
    while ahead:
        path = ahead.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                ahead += [SCRIPTS / f"{module.replace('.', '/')}.py" for module in modules]
    return seen


@pytest.mark.parametrize("rule", CODE)
def test_a_rule_names_all_the_code_that_its_program_imports(rule: str) -> None:
    program = SCRIPTS / CODE[rule][0]
    named = {Path(each).resolve() for each in code_of(rule)}
    assert imports(program) <= named


def test_every_paid_rule_has_a_program_and_files_that_no_other_makes() -> None:
    assert {f"{each.name}.py" for each in PAID} == {path.name for path in (SCRIPTS / "paid").glob("[a-z]*.py")}
    assert len({each.output for each in PAID}) == len({each.log for each in PAID}) == len(PAID)
    for point in targets(Path("nowhere")).points.values():
        [rule] = (each for each in PAID if (each.side, each.stage) == (point.side, point.stage))
        assert point.file() == rule.file.format(name=point.name, key=point.key)


def test_the_rules_hold_no_python_of_their_own() -> None:
    for path in [*RULES, ROOT / "Snakefile"]:
        text = path.read_text()
        assert not re.search(r"^\s*(def|class) ", text, re.MULTILINE), path
    assert len((ROOT / "Snakefile").read_text().splitlines()) <= 60
    assert len((ROOT / "workflow" / "rules" / "session.smk").read_text().splitlines()) <= 60


def test_every_variable_that_is_handed_over_stands_in_one_module() -> None:
    known = {value for name, value in vars(handover).items() if name.isupper()}
    programs = [path for path in SCRIPTS.rglob("*.py") if path.name != "handover.py"]
    named = {found for path in [*programs, *RULES] for found in re.findall(r"ROOFLAB_\w+", path.read_text())}
    written_out = [path.name for path in programs if re.search(r"[\"']ROOFLAB_\w+[\"']", path.read_text())]
    assert named <= known and written_out == []


@pytest.mark.parametrize(
    ("file", "name", "attempt", "first"),
    [
        ("gpu/gemm/fp16-n4096.0123abcd.json", "fp16-n4096", 1, "gpu/gemm/fp16-n4096.0123abcd.json"),
        ("gpu/gemm/fp16-n4096.01234567.12.json", "fp16-n4096", 12, "gpu/gemm/fp16-n4096.01234567.json"),
        ("cpu/device.0123abcd.2.json", "device", 2, "cpu/device.0123abcd.json"),
    ],
)
def test_a_file_s_name_is_read_as_it_was_written(file: str, name: str, attempt: int, first: str) -> None:
    side, stage, key = file.split("/")[0], file.split("/")[1], file.split(".")[1]
    assert names.measurement(side, stage.split(".")[0], name, key, attempt) == file
    assert (names.name_of(file), names.attempt_of(file), names.first_attempt(file)) == (name, attempt, first)


def test_a_model_is_read_out_of_its_files_whatever_the_format() -> None:
    for file in (names.attention("phi-3-mini-128k", "fp8_e4m3", 1024, 16), names.step("phi-3-mini-128k", "bf12", 1)):
        stage = "attention" if "-S" in file else "step"
        assert names.model_of(names.measurement("gpu", stage, file, "0123abcd")) == "phi-3-mini-128k"
    assert names.model_of("gpu/decode/minigpt-fp16-S128.0123abcd.json") is None


def test_the_lengths_of_one_format_are_measured_in_turns(tmp_path: Path) -> None:
    made, wc = targets(tmp_path), SimpleNamespace(session="nvidia-h200")
    steps = {
        point.name: point.file() for point in made.points.values() if point.stage == "decode" and point.side == "gpu"
    }
    found = json.loads(made.beside_of(wc, ["results/nvidia-h200/" + steps["minigpt-fp16-S128"]]))
    assert [each["out"] for each in found] == [
        str(tmp_path / "nvidia-h200" / steps[f"minigpt-fp16-S{length}"]) for length in (256, 512, 1024)
    ]
    assert [each["spec"]["sequence"] for each in found] == [256, 512, 1024]
    there = tmp_path / "nvidia-h200" / steps["minigpt-fp16-S512"]
    there.parent.mkdir(parents=True)
    there.write_text(json.dumps({"status": "measured"}))
    left = json.loads(made.beside_of(wc, ["results/nvidia-h200/" + steps["minigpt-fp16-S128"]]))
    assert [each["spec"]["sequence"] for each in left] == [256, 1024]
    assert made.beside_of(wc, ["results/nvidia-h200/" + steps["minigpt-fp16-hbm"]]) == "[]"


def test_nothing_else_is_measured_in_turns(tmp_path: Path) -> None:
    made, wc = targets(tmp_path), SimpleNamespace(session="nvidia-h200")
    others = [point for point in made.points.values() if (point.side, point.stage) != ("gpu", "decode")]
    assert others and {made.beside_of(wc, ["results/nvidia-h200/" + each.file()]) for each in others} == {"[]"}

"""The file name is the key: exactly what changes a number changes a name."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from rooflab.plan import measurements, points
from rooflab.plan.config import checked
from rooflab.plan.measurements import session_points
from rooflab.record import names, records

SHIPPED = checked(yaml.safe_load((Path(__file__).parents[1] / "config.yaml").read_text()))


def files(config: dict, with_gpu: bool = True) -> set[str]:
    return {p.file() for p in session_points(config, with_gpu)}


def changed(path: str, value: object) -> dict:
    config = copy.deepcopy(SHIPPED)
    *groups, leaf = path.split(".")
    place = config
    for group in groups:
        place = place[group]
    place[leaf] = value
    return checked(config)


def stages(names: set[str]) -> set[str]:
    return {"/".join(Path(name).parts[:2]) for name in names}


def test_a_gpu_session_is_the_lab() -> None:
    names = {name.rsplit(".", 2)[0] for name in files(SHIPPED)}
    assert {"gpu/device", "gpu/launch_floor", "gpu/bandwidth/d2d", "gpu/gemm/fp8_e4m3-n4096"} <= names
    assert {f"gpu/decode/minigpt-{d}-S{s}" for d in ("fp32", "fp16", "bf16") for s in (128, 256, 512, 1024)} <= names
    assert {f"cpu/decode/minigpt-fp32-S{s}" for s in (128, 256, 512, 1024)} <= names


def test_a_cpu_session_has_no_gpu_file() -> None:
    assert stages(files(SHIPPED, with_gpu=False)).isdisjoint({"gpu/gemm", "gpu/decode"})


@pytest.mark.parametrize(
    ("path", "value", "pending"),
    [
        ("gemm.iterations", 50, {"gpu/gemm"}),
        ("gemm.warmups", 4, {"gpu/gemm"}),
        ("decode.iterations", 500, {"gpu/decode"}),
        ("bandwidth.samples", 5, {"gpu/bandwidth"}),
        ("cpu.decode.iterations", 500, {"cpu/decode"}),
        ("minigpt.head_dim", 128, {"gpu/decode", "cpu/decode"}),
        ("minigpt.seed", 1, {"gpu/decode", "cpu/decode"}),
        ("price_usd_per_hour", 2.5, set()),
        ("plot.dpi", 100, set()),
        ("terminated_usd", 1, set()),
        ("allow_shared_gpu", True, set()),
    ],
)
def test_exactly_the_affected_stage_is_pending(path: str, value: object, pending: set[str]) -> None:
    after = files(changed(path, value))
    assert stages(after - files(SHIPPED)) == pending
    assert len(after) == len(files(SHIPPED))


def test_one_more_dtype_adds_only_its_own_files() -> None:
    after = files(changed("gemm.dtypes", ["fp32", "fp16", "bf16", "fp8_e4m3", "fp64"]))
    assert {name.rsplit(".", 2)[0] for name in after - files(SHIPPED)} == {"gpu/gemm/fp64-n4096"}


def test_seconds_of_load_are_taken_once_for_each_format() -> None:
    loads = [p.spec for p in measurements.session_points(SHIPPED, True) if p.stage == "gemm" and p.spec["sustained_s"]]
    formats = {
        p.spec["dtype"] for p in measurements.session_points(SHIPPED, True) if (p.stage, p.side) == ("gemm", "gpu")
    }
    assert sorted(spec["dtype"] for spec in loads if spec["side"] == "gpu") == sorted(formats)
    assert {spec["n"] for spec in loads if spec["side"] == "gpu"} == {max(SHIPPED["gemm"]["sizes"])}


def test_the_host_keeps_what_it_measured_as_before() -> None:
    protocols = {(p.side, p.stage): p.spec["protocol"] for p in measurements.session_points(SHIPPED, True)}
    assert (
        protocols["cpu", "gemm"] < protocols["gpu", "gemm"] and protocols["cpu", "decode"] < protocols["gpu", "decode"]
    )


def test_going_back_to_the_old_value_finds_the_old_files() -> None:
    assert files(changed("gemm.iterations", 100)) == files(SHIPPED)


def test_a_raised_protocol_version_is_that_stage_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(SHIPPED)
    monkeypatch.setitem(measurements.PROTOCOL, "bandwidth", 99)
    assert stages(files(SHIPPED) - before) == {"gpu/bandwidth", "cpu/bandwidth"}


def test_other_weights_are_another_measurement() -> None:
    config = copy.deepcopy(SHIPPED)
    config["minigpt"] |= {"weights": "w.npz", "weights_sha256": "a" * 64}
    assert stages(files(checked(config)) - files(SHIPPED)) == {"gpu/decode", "cpu/decode"}


def test_no_path_depends_on_the_order_of_keys() -> None:
    config = {k: SHIPPED[k] for k in reversed(SHIPPED)}
    config["gemm"] = {k: SHIPPED["gemm"][k] for k in reversed(SHIPPED["gemm"])}
    assert files(config) == files(SHIPPED)


def test_attempts_are_counted_by_their_files(tmp_path: Path) -> None:
    point = session_points(SHIPPED, False)[0]
    for number in (1, 2):
        path = tmp_path / point.file(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert [p.name for p in points.attempts(tmp_path, point)] == [
        f"device.{point.key}.json",
        f"device.{point.key}.2.json",
    ]


def test_a_given_cpu_roofline_is_not_measured(tmp_path: Path) -> None:
    given = tmp_path / "mine.json"
    given.write_text('{"flop_per_s": {"fp32": 8e11}, "bytes_per_s": {"read": 4e10}}')
    after = stages(files(changed("cpu.roofline_file", str(given))))
    assert "cpu/gemm" not in after and "cpu/bandwidth" not in after and "cpu/decode" in after


def test_how_long_a_context_the_minigpt_could_have_is_not_part_of_a_step_s_key(tmp_path: Path) -> None:
    """Raising it to measure one longer S made every decode record pending."""
    before = [p for p in session_points(SHIPPED, True) if p.stage == "decode"]
    longer = copy.deepcopy(SHIPPED)
    longer["minigpt"]["context"] *= 4
    after = [p for p in session_points(longer, True) if p.stage == "decode"]
    assert [p.file() for p in before] == [p.file() for p in after]
    assert [p.spec["geometry"]["context"] for p in after] == [4 * p.spec["geometry"]["context"] for p in before]


def test_a_step_named_when_the_context_was_in_its_key_is_found(tmp_path: Path) -> None:
    [point, *_] = (p for p in session_points(SHIPPED, True) if p.stage == "decode")
    old = tmp_path / "gpu" / "decode" / names.file_name(point.name, records.digest(point.spec)[:8])
    assert old.name != Path(point.file()).name
    old.parent.mkdir(parents=True)
    old.write_text(json.dumps({"spec": point.spec}))
    assert points.attempts(tmp_path, point) == [old]

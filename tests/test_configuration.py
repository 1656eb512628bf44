"""A bad config stops with one line that names the key and what is allowed."""

import copy
from pathlib import Path

import pytest
import yaml
from rooflab.plan import written
from rooflab.plan.config import ConfigError, checked

SHIPPED = yaml.safe_load((Path(__file__).parents[1] / "config.yaml").read_text())


def changed(path: str, value: object) -> dict:
    config = copy.deepcopy(SHIPPED)
    *groups, leaf = path.split(".")
    place = config
    for group in groups:
        place = place[group]
    place[leaf] = value
    return config


def test_the_shipped_config_is_valid() -> None:
    assert checked(SHIPPED)["gemm"]["sizes"] == [4096, 8192]


def test_an_integral_float_is_that_integer() -> None:
    assert checked(changed("gemm.iterations", 100.0)) == checked(SHIPPED)


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("price_usd_per_hour", float("nan"), "price_usd_per_hour: nan is not allowed"),
        ("budget_usd", float("inf"), "budget_usd: inf is not allowed"),
        ("gemm.burst_gap_s", float("nan"), "gemm.burst_gap_s: nan is not allowed"),
        ("budget_usd", 1.0, "budget_usd is given without price_usd_per_hour"),
        ("cpu.roofline_file", "nope.json", "nope.json cannot be read"),
        ("session", "untrusted", "is the name of a file or folder of the project"),
        ("session", "gpu", "is the name of a file or folder of the project"),
        ("session", "compare.json", "is the name of a file or folder of the project"),
        ("device", "auto\n", "device: 'auto.n' is not allowed"),
        ("session", "x" * 300, "is not allowed"),
        ("gemm.wramups", 3, r"unknown key 'gemm.wramups'; did you mean 'warmups'\?"),
        ("zzz", 3, "unknown key 'zzz'; known keys: device"),
        ("gemm.iterations", "100", "gemm.iterations: '100' is not allowed; expected integer"),
        ("gemm.iterations", "100", "write it in config.yaml"),
        ("gemm.iterations", 0, "gemm.iterations: 0 is not allowed; expected at least 1"),
        ("gemm.burst_block_s", 0, "expected more than 0"),
        ("gemm.dtypes", ["fp12"], "expected one of fp32, fp16"),
        ("gemm.dtypes", [], "at least one entry"),
        ("gemm.dtypes", ["fp32", "fp32"], "each entry once"),
        ("device", "My GPU", "device: 'My GPU' is not allowed"),
        ("minigpt.kv_heads", 3, "does not divide heads"),
        ("decode.sequence_lengths", [4096], "longer than minigpt.context"),
        ("minigpt.weights", "a.npz", "weights_sha256"),
        ("price_usd_per_hour", "cheap", "a number, null, or a mapping"),
    ],
)
def test_one_line_says_what_is_wrong(path: str, value: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as error:
        checked(changed(path, value))
    assert "\n" not in str(error.value)


def test_a_missing_key_is_named() -> None:
    config = {k: v for k, v in SHIPPED.items() if k != "gemm"}
    with pytest.raises(ConfigError, match="the key 'gemm' is missing"):
        checked(config)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("price: 1e-3", "config.yaml, line 1: price: 1e-3 is a text in YAML: write 0.001"),
        ("a:\n  b: 1e30", "line 2: a.b: 1e30 is a text in YAML: write 1e\\+30"),
        ("n: 0o17", "0o17 is a text in YAML: write 15"),
        ("n: 0123", "0123 is the octal 83 in YAML: write 123"),
        ("t: 3:59", "3:59 is 239 in YAML, in base 60"),
        ("t: 1:30.5", "is 90.5 in YAML, in base 60"),
        ("d: 2020-01-01", "2020-01-01 is a date in YAML"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' stands here a second time"),
        ("g:\n  w: 1\n  w: 2", "line 3: the key 'g.w' stands here a second time"),
        ("l: [1, 0x10, 010]", "l.2: 010 is the octal 8"),
        ("a: &x [*x]", "refers to itself"),
        ("a: [1", "not YAML in line 1"),
        ("a:\n\tb: 1", "not YAML in line 2"),
        ("", "holds no keys"),
        ("- 1", "holds no keys"),
        ("a: caf\xe9".encode("latin-1"), "another encoding in line 1, expected UTF-8"),
        ("a: 1".encode("utf-16"), "UTF-16 in line 1, expected UTF-8"),
    ],
)
def test_what_yaml_would_take_for_something_else_is_told_in_one_line(
    text: str | bytes, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError, match=told) as error:
        written.check(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "a: 1_000",
        "a: .5",
        "a: 1.0e-3",
        "a: '1e-3'",
        "a: on",
        "a: null",
        "a: &x [1]\nb: *x",
        "\ufeffa: 1\r\nb: 2\r\n",
        "a: v1.2",
    ],
)
def test_what_yaml_takes_as_meant_passes(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(text.encode())
    written.check(tmp_path / "config.yaml")


def test_the_shipped_config_is_what_it_seems() -> None:
    written.check(Path(__file__).parents[1] / "config.yaml")


def test_null_on_the_command_line_is_null() -> None:
    """It made a session called "null"."""
    assert checked(changed("session", "null"))["session"] is None
    assert checked(changed("price_usd_per_hour", "null"))["price_usd_per_hour"] is None


@pytest.mark.parametrize(("path", "value"), [("session", "A"), ("device", "x" * 65), ("nodes", {"A": "b"})])
def test_what_is_allowed_is_told_in_words(path: str, value: object) -> None:
    with pytest.raises(ConfigError, match="expected small letters, digits, - and"):
        checked(changed(path, value))

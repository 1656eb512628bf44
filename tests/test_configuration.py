"""A bad config stops with one line that names the key and what is allowed."""

import copy
from pathlib import Path

import pytest
import yaml
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

"""One way in which something was timed, as a record holds it."""

from collections.abc import Sequence
from typing import Any

from rooflab.theory.quantiles import median

Series = dict[str, Any]


def series(
    name: str,
    implementation: str,
    launch: str,
    timing: str,
    cache: str | None,
    warmups: int,
    iterations_per_sample: int,
    samples_s: list[float],
    chip: dict[str, Any],
) -> Series:
    """A series as a record holds it; what was timed is verified by whoever knows what it should be."""
    return {
        "name": name,
        "implementation": implementation,
        "launch": launch,
        "timing": timing,
        "cache": cache,
        "warmups": warmups,
        "iterations_per_sample": iterations_per_sample,
        "samples_s": samples_s,
        "chip": chip,
        "relative_error": None,
        "tolerance": None,
    }


def joined(rounds: Sequence[Series]) -> Series:
    """One series that was taken in several rounds, its samples in order: the state before the first, under load and after
    the last."""
    first, last = rounds[0], rounds[-1]
    made = first | {
        "samples_s": [sample for each in rounds for sample in each["samples_s"]],
        "chip": last["chip"] | {"before": first["chip"]["before"]},
    }
    return made | ({"clock": _clock([each["clock"] for each in rounds])} if "clock" in first else {})


def _clock(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    told = [each for each in rounds if each["sm_hz"] is not None]
    if not told:
        return rounds[0]
    return told[0] | {
        "sm_hz": median([each["sm_hz"] for each in told]),
        "sm_hz_low": min(each["sm_hz_low"] for each in told),
        "sm_hz_high": max(each["sm_hz_high"] for each in told),
        "pairs": sum(each["pairs"] for each in told),
    }

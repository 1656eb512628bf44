"""One way in which something was timed, as a record holds it."""

from typing import Any

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

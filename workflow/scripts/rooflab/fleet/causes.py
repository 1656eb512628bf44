"""Why a card may be slower than another: what the two records say that differs, and nothing they do not say."""

from collections.abc import Iterator, Mapping
from typing import Any

from rooflab.look import words

Record = Mapping[str, Any]
Opened = tuple[Record, Record]  # a record and the series of it that is compared

CLOCK_MATTERS = 0.03
WARMER_C = 10
BRAKES = {
    "hw_slowdown": "the hardware slowed it down",
    "hw_thermal_slowdown": "it was too hot (hardware thermal slowdown)",
    "sw_thermal_slowdown": "it was too hot (software thermal slowdown)",
    "hw_power_brake_slowdown": "an external power brake was on",
    "applications_clocks_setting": "its clocks are locked by a setting",
    "sync_boost": "its clocks are tied to another card's",
    "sw_power_cap": "its power limit held the clocks down",
}


def likely_causes(slow: Opened, good: Opened, slow_device: Record | None, good_device: Record | None) -> list[str]:
    """The differences to the disadvantage of the slow card, the likeliest first; empty where the records show none."""
    return [
        *_company(slow[0], good[0]),
        *_power_limit(slow[0], good[0]),
        *_brakes(slow[1], good[1]),
        *_clocks(slow[1], good[1]),
        *_warmth(slow[1], good[1]),
        *_ecc(slow_device, good_device),
        *_driver(slow[0], good[0]),
    ]


def _company(slow: Record, good: Record) -> Iterator[str]:
    others = slow["environment"].get("other_processes")
    if others and not good["environment"].get("other_processes"):
        yield f"{others} other process(es) used it"
    together = slow["environment"].get("cards_at_once")
    if together and not good["environment"].get("cards_at_once"):
        yield f"it was measured together with {together - 1} other card(s) of its host"


def _power_limit(slow: Record, good: Record) -> Iterator[str]:
    here, there = slow["device"].get("power_limit_w"), good["device"].get("power_limit_w")
    if here and there and here < there:
        yield f"its power limit is {words.watts(here)}, the other's {words.watts(there)}"


def _brakes(slow: Record, good: Record) -> Iterator[str]:
    new = _reasons(slow) - _reasons(good)
    yield from (text for name, text in BRAKES.items() if _plain(name) in new)


def _reasons(series: Record) -> set[str]:
    """Throttle reasons of every reading around a series, without case and underscores."""
    return {_plain(str(name)) for state in series["chip"].values() for name in state.get("throttle_reasons") or ()}


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _clocks(slow: Record, good: Record) -> Iterator[str]:
    for key, name in (("sm_clock_hz", "SM clock"), ("memory_clock_hz", "memory clock")):
        here, there = _during(slow, key), _during(good, key)
        if here and there and here < there * (1 - CLOCK_MATTERS):
            yield f"its {name} under load was {words.hertz(here)}, the other's {words.hertz(there)}"


def _warmth(slow: Record, good: Record) -> Iterator[str]:
    here, there = _during(slow, "temperature_c"), _during(good, "temperature_c")
    if here is not None and there is not None and here >= there + WARMER_C:
        yield f"it was at {here:.0f} °C under load, the other at {there:.0f} °C"


def _during(series: Record, key: str) -> Any:
    return series["chip"].get("during", {}).get(key)


def _ecc(slow: Record | None, good: Record | None) -> Iterator[str]:
    if _ecc_enabled(slow) is True and _ecc_enabled(good) is False:
        yield "its memory has ECC on, the other's off"


def _ecc_enabled(record: Record | None) -> Any:
    details = record["details"] if record else {}
    return {**details, **details.get("nvml", {})}.get("ecc_enabled")


def _driver(slow: Record, good: Record) -> Iterator[str]:
    here, there = slow["environment"].get("driver"), good["environment"].get("driver")
    if here and there and here != there:
        yield f"its driver is {here}, the other's {there}"

"""Why a card is slower than another: what the two records prove, and apart from that what else differs between them.

A cause is named only where the record of the slow figure holds the evidence: another process beside it, a brake that came on
during the series, an SM clock inside the timed block that explains the loss. All else that differs may or may not matter.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rooflab.look import words

Record = Mapping[str, Any]
Opened = tuple[Record, Record]  # a record and the series of it that is compared

EXPLAINS = 0.5  # of a loss, from which on a lower clock is its cause
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
SETTINGS = ("applications_clocks_setting", "sync_boost")  # stay on, so they count if they were on before the series too


def likely_causes(
    slow: Opened, good: Opened, slow_device: Record | None, good_device: Record | None, loss: float
) -> tuple[list[str], list[str]]:
    """(causes, what else differs) to the disadvantage of the slow figure, which lost the fraction `loss` of its speed."""
    clock, without_clock = _clock(slow[1], good[1], loss)
    causes = [*_company(slow[0], good[0]), *_brakes(slow[1], good[1]), *clock]
    differs = [
        *without_clock,
        *_power_limit(slow[0], good[0]),
        *_warmth(slow[1], good[1]),
        *_ecc(slow_device, good_device),
        *_driver(slow[0], good[0]),
    ]
    return causes, differs


def _company(slow: Record, good: Record) -> Iterator[str]:
    others = slow["environment"].get("other_processes")
    if others and not good["environment"].get("other_processes"):
        yield f"{others} other process(es) used it"
    together = slow["environment"].get("cards_at_once")
    if together and not good["environment"].get("cards_at_once"):
        yield f"it was measured together with {together - 1} other card(s) of its host"


def _brakes(slow: Record, good: Record) -> Iterator[str]:
    """Brakes that came on during the slow series and not during the other; one that was on before proves nothing of it."""
    new = _came_on(slow) - _came_on(good)
    yield from (text for name, text in BRAKES.items() if _plain(name) in new)


def _came_on(series: Record) -> set[str]:
    settings = set(map(_plain, SETTINGS))
    before = _reasons(series, "before") - settings
    return (_reasons(series, "during") | _reasons(series, "after")) - before


def _reasons(series: Record, when: str) -> set[str]:
    """Throttle reasons of one reading, without case and underscores."""
    return {_plain(str(name)) for name in (series["chip"].get(when) or {}).get("throttle_reasons") or ()}


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _clock(slow: Record, good: Record, loss: float) -> tuple[list[str], list[str]]:
    """The mean SM clock inside the timed blocks, where both records hold it: the cause, or told as none."""
    here, there = _inside(slow), _inside(good)
    if not here or not there:
        return [], []
    both = f"its SM clock inside the block was {words.hertz(here)}, the other's {words.hertz(there)}"
    if 1 - here / there >= EXPLAINS * loss:
        return [f"{both}: {words.percent(1 - here / there)} of a loss of {words.percent(loss)}"], []
    return [], [f"{both}: not the clock"]


def _inside(series: Record) -> float | None:
    clock = series.get("clock") or {}
    return clock.get("sm_hz")


def _power_limit(slow: Record, good: Record) -> Iterator[str]:
    here, there = slow["device"].get("power_limit_w"), good["device"].get("power_limit_w")
    if here and there and here < there:
        yield f"its power limit is {words.watts(here)}, the other's {words.watts(there)}"


def _warmth(slow: Record, good: Record) -> Iterator[str]:
    here, there = ((series["chip"].get("during") or {}).get("temperature_c") for series in (slow, good))
    if here is not None and there is not None and here >= there + WARMER_C:
        yield f"it was at {here:.0f} °C under load, the other at {there:.0f} °C"


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

"""The small print under the chart: the device and its state, the conventions, what was not measured and why."""

from textwrap import wrap
from typing import Any

from rooflab import words

Record = dict[str, Any]

WIDTH = 235  # characters of a line at the default size
HOLES_SHOWN = 6
NOTES_SHOWN = 4
CONVENTIONS = (
    "GEMM intensity counts the reads of A and B: n/b. Decode intensity counts K and V read once: 2/b. "
    "Points that share an intensity are fanned out sideways. Filled: the plotted lab point. Hollow: other sizes, "
    "implementations and launches. Diamonds: ridge points. "
    "Dotted with ticks: launch floor, the rate at which a step of that size would take as long as an empty launch."
)


def caption_lines(roofline: Record) -> list[str]:
    """The wrapped lines of the caption."""
    parts = [state_text(roofline), CONVENTIONS, holes_text(roofline["holes"]), notes_text(roofline["notes"])]
    return [line for part in parts if part for line in wrap(part, WIDTH)]


def state_text(roofline: Record) -> str:
    """Device, date, SM clocks under load and whether the card ran into its power cap."""
    side = roofline["main_side"]
    device = roofline["devices"].get(side) or {}
    compute = [c for c in roofline["ceilings"] if c["side"] == side and c["kind"] == "compute"]
    facts = [str(device.get("name", roofline["session"]))]
    if device.get("measured_at"):
        facts.append(f"measured {str(device['measured_at'])[:10]}")
    clocks = sorted(c["sm_clock_hz"] for c in compute if c["sm_clock_hz"])
    if clocks:
        facts.append(f"SM clock under load {words.span(words.hertz(clocks[0]), words.hertz(clocks[-1]))}")
    facts.append(power_text(compute))
    return ". ".join(fact for fact in facts if fact) + "."


def power_text(compute: list[Record]) -> str:
    """Which products ran into the power cap; nothing where the device does not say."""
    known = [c for c in compute if c["power_capped"] is not None]
    capped = [c["label"] for c in known if c["power_capped"]]
    if not known:
        return ""
    return f"Power-capped: {', '.join(capped)}" if capped else "No power cap was active"


def holes_text(holes: list[Record]) -> str:
    """Every hole with its reason, the first few of many."""
    if not holes:
        return ""
    shown = [f"{hole['stage']} {hole['name']} ({hole['side']}) — {hole['reason'] or hole['status']}" for hole in holes]
    more = f"; and {len(holes) - HOLES_SHOWN} more" if len(holes) > HOLES_SHOWN else ""
    return f"Not measured: {'; '.join(shown[:HOLES_SHOWN])}{more}."


def notes_text(notes: list[str]) -> str:
    """The first notes; what is more stands in roofline.json."""
    if not notes:
        return ""
    more = f"; and {len(notes) - NOTES_SHOWN} more in roofline.json" if len(notes) > NOTES_SHOWN else ""
    return f"Notes: {'; '.join(notes[:NOTES_SHOWN])}{more}."

"""The small print under the chart: the device and its state, the conventions, what was not measured and why."""

from textwrap import wrap

from rooflab.look.style import Look, Record, ceiling_name

CHARACTERS_PER_IN = 16.9  # of the caption's size
HOLES_SHOWN = 4
REASON_SHOWN = 70  # characters of a hole's reason
NOTES_SHOWN = 2


def caption_lines(roofline: Record, look: Look, width_in: float) -> list[str]:
    """The lines of the caption, wrapped for a width in inches."""
    protocol = look.say("caption.protocol") + "." if roofline["points"] else ""
    parts = [f"{state_text(roofline, look)} {protocol}", look.say("caption.conventions")]
    parts += [holes_text(roofline["holes"], look), notes_text(roofline["notes"], look)]
    return [line for part in parts if part for line in wrap(part, round(CHARACTERS_PER_IN * width_in))]


def state_text(roofline: Record, look: Look) -> str:
    """Device, date, SM clocks under load and whether the card ran into its power cap."""
    side = roofline["main_side"]
    device = roofline["devices"].get(side) or {}
    compute = [c for c in roofline["ceilings"] if c["side"] == side and c["kind"] == "compute"]
    facts = [str(device.get("name", roofline["session"]))]
    if device.get("measured_at"):
        facts.append(look.say("caption.measured_at", date=str(device["measured_at"])[:10]))
    clocks = [c["sm_clock_hz"] for c in compute if c["sm_clock_hz"]]
    if clocks:
        facts.append(look.say("caption.clock", clock=(min(clocks), max(clocks))))
    facts.append(power_text(compute, look))
    return ". ".join(fact for fact in facts if fact) + "."


def power_text(compute: list[Record], look: Look) -> str:
    """Which products ran into the power cap; nothing where the device does not say."""
    known = [c for c in compute if c["power_capped"] is not None]
    capped = [ceiling_name(look, c) for c in known if c["power_capped"]]
    if not known:
        return ""
    return look.say("caption.power_capped", labels=", ".join(capped)) if capped else look.say("caption.no_power_cap")


def holes_text(holes: list[Record], look: Look) -> str:
    """Every hole with its reason, the first few of many."""
    if not holes:
        return ""
    shown = [
        f"{hole['stage']} {hole['name']} ({hole['side']}) — {reason_text(hole, look)}" for hole in holes[:HOLES_SHOWN]
    ]
    if len(holes) > HOLES_SHOWN:
        shown.append(look.say("caption.more", count=len(holes) - HOLES_SHOWN))
    return look.say("caption.not_measured", holes="; ".join(shown))


def reason_text(hole: Record, look: Look) -> str:
    """Why something was not measured, shortened."""
    given = hole["reason"]
    reason = look.reason(given) if given else look.say(f"status.{hole['status']}")
    if len(reason) <= REASON_SHOWN:
        return reason
    kept = reason[:REASON_SHOWN].rsplit(" ", 1)[0] + " …"
    return kept + "»" * (kept.count("«") - kept.count("»"))


def notes_text(notes: list[str], look: Look) -> str:
    """The first notes; what is more stands in roofline.json."""
    if not notes:
        return ""
    shown = [look.reason(note).rstrip(".") for note in notes[:NOTES_SHOWN]]
    if len(notes) > NOTES_SHOWN:
        shown.append(look.say("caption.more_notes", count=len(notes) - NOTES_SHOWN))
    return look.say("caption.notes", notes="; ".join(shown))

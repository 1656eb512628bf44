"""The title and the line below it, by rule: what the products and the steps were seen to do, and in which state."""

from rooflab.draw.shown import Shown
from rooflab.look.style import Look, Record

CACHES = ("L2", "cache")
BEYOND = 1.05  # of a ceiling: from here on the ceiling is too low, though its own spread may explain it


def finding(roofline: Record, shown: Shown, look: Look) -> str:
    """What the picture shows, in one sentence: of the products, then of the steps."""
    device = (roofline["devices"].get(shown.side) or {}).get("name", roofline["session"])
    said = [part for part in (of_products(shown, look), of_steps(shown, look)) if part]
    nothing = look.say("title.nothing")
    return f"{device}: {'; '.join(said) or nothing}"


def of_products(shown: Shown, look: Look) -> str:
    """How much of their ceilings the lab's products reach."""
    shares = [p["fraction_of_ceiling"] for p in shown.gemms]
    known = [share for share in shares if share is not None]
    if not known:
        return look.say("title.products.unjudged") if shares else ""
    if any(p["above_roof"] for p in shown.gemms) or max(known) > BEYOND:
        return look.say("title.products.above")
    return look.say(f"title.products{'.one' if len(known) == 1 else ''}", fraction=(min(known), max(known)))


def of_steps(shown: Shown, look: Look) -> str:
    """What limits a step: the roof that all steps are at; or that they are below every roof, or at several."""
    if not shown.steps:
        return look.say("title.steps.none") if shown.gemms else ""
    if any(p["above_roof"] for p in shown.steps):
        return look.say("title.steps.above")
    bounds = list(dict.fromkeys(p["bound_by"] for p in shown.steps))
    if None in bounds:
        return look.say("title.steps.unjudged")
    if len(bounds) > 1:
        return look.say("title.steps.several", bounds=[look.say(f"bound.{each}") for each in bounds])
    key = "at" if mostly([bool(p["at_roof"]) for p in shown.steps]) else "below"
    slope = shown.slope
    if bounds[0] in CACHES and slope and bounds[0] not in {c["tier"] for c in shown.memory.values()}:
        return look.say(f"title.steps.beside.{key}", tier=slope["tier"])
    return look.say(f"title.steps.{key}", bound=look.say(f"bound.{bounds[0]}"))


def mostly(answers: list[bool]) -> bool:
    """Whether more than half of the answers are yes: some steps of a launched series fall just short of the roof the others are at."""
    return 2 * sum(answers) > len(answers)


def state(roofline: Record, shown: Shown, look: Look) -> str:
    """Date, driver, CUDA, the clocks inside the bursts and the power limit; only what the records hold."""
    device = roofline["devices"].get(shown.side) or {}
    facts = []
    if device.get("measured_at"):
        facts.append(look.say("state.measured", date=str(device["measured_at"])[:10]))
    if device.get("driver_version") and device.get("cuda_driver_version"):
        facts.append(look.say("state.driver", driver=device["driver_version"], cuda=device["cuda_driver_version"]))
    clocks = [c["clock_hz"] for c in shown.compute if c.get("clock_hz")]
    if clocks:
        facts.append(look.say("state.clock", clock=(min(clocks), max(clocks))))
    if device.get("power_limit_w"):
        facts.append(look.say("state.power", power=device["power_limit_w"]))
    if device.get("cores_physical"):
        facts.append(look.say("state.cores", cores=device["cores_physical"], simd=device.get("simd") or ""))
    return " ".join(facts)

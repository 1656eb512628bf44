"""Paragraph 1: where the matrix products land, what that says about the diagnosis, and how the vendor's peak compares."""

from typing import Any

from rooflab.look.catalogue import texts
from rooflab.look.voice import Voice

Record = dict[str, Any]

NEAR = (0.1, 0.2)  # the lab's question: within 10 or 20 % of the ceiling
HOLDS = 0.95  # of the burst: what is left under load, from where the difference is worth a sentence


def gemm_sentences(roofline: Record, voice: Voice) -> list[str]:
    """Verdict, diagnosis, points, vendor, load; only what the answer holds."""
    answer = roofline["answers"]["gemm"]
    dtypes = {name.replace("_", " "): own for name, own in answer["dtypes"].items()}
    library = "cuBLAS" if answer["side"] == "gpu" else "BLAS"
    if not dtypes:
        return [voice.say("gemm.none", library=library)]
    known = {name: own for name, own in dtypes.items() if own["fraction_of_ceiling"] is not None}
    return [
        *(landing(known, library, voice) if known else []),
        *diagnosis(known, answer, voice),
        *[above(name, own, voice) for name, own in known.items() if own["above_roof"]],
        "; ".join(point(name, own, voice) for name, own in dtypes.items()) + ".",
        *vendor(dtypes, answer, voice),
        *[trials(name, own, answer, voice) for name, own in dtypes.items() if is_short(own, answer)],
        *[instructions(name, own, voice) for name, own in dtypes.items() if own["instructions_flop_per_s"]],
        *load(dtypes, voice),
        *throttled(dtypes, voice),
    ]


def landing(known: Record, library: str, voice: Voice) -> list[str]:
    """Whether the points lie on their ceilings, within 10 or 20 % of them, or which do not."""
    shares = {name: own["fraction_of_ceiling"] for name, own in known.items()}
    low, high = min(shares, key=lambda n: shares[n]), max(shares, key=lambda n: shares[n])
    far = [name for name in shares if shares[name] < 1 - NEAR[-1]]
    if far:
        items = [voice.say("gemm.far_item", name=name, fraction=shares[name]) for name in far]
        return [
            voice.say(
                "gemm.far",
                library=library,
                count=len(shares),
                far_count=len(far),
                far=voice.listed(items),
                distance=NEAR[-1],
            )
        ]
    distance = next((d for d in NEAR if 1 - d <= shares[low] and shares[high] <= 1 + d), None)
    if distance is None:
        return []
    alike = voice.number(shares[low], "percent") == voice.number(shares[high], "percent")
    return [
        voice.say(
            "gemm.near.one" if len(shares) == 1 else "gemm.near.alike" if alike else "gemm.near",
            library=library,
            count=len(shares),
            distance=distance,
            low=shares[low],
            low_name=low,
            high=shares[high],
            high_name=high,
        )
    ]


def diagnosis(known: Record, answer: Record, voice: Voice) -> list[str]:
    """Whether the clock confirms what the roofline says bounds the points; a ceiling that the lab doubts proves nothing."""
    judged = {
        name: own
        for name, own in known.items()
        if own["fraction_of_attainable"] is not None and not is_short(own, answer)
    }
    short = {name: own for name, own in judged.items() if own["fraction_of_attainable"] < 1 - NEAR[-1]}
    reached = {name: own for name, own in judged.items() if name not in short}
    said = []
    if reached and len(reached) == len(known) and all(is_right_of_ridge(own) for own in reached.values()):
        key = "gemm.agrees.one" if len(reached) == 1 else "gemm.agrees"
        return [voice.say(key, intensity=ends(reached, "intensity"),
                               ridge=ends(reached, "ridge_intensity"))]  # fmt: skip
    for key, own in (("gemm.reached", reached), ("gemm.falls_short", short)):
        said += [_diagnosed(key, own, bound, voice) for bound in dict.fromkeys(o["bound_by"] for o in own.values())]
    return said


def _diagnosed(key: str, dtypes: Record, bound: str, voice: Voice) -> str:
    own = {name: each for name, each in dtypes.items() if each["bound_by"] == bound}
    low, high = ends(own, "fraction_of_attainable")
    return voice.say(
        key,
        intensity=ends(own, "intensity"),
        bound=voice.say(f"bound.{bound}"),
        names=voice.listed(list(own)),
        fraction=(low, high),
        high=high,
    )


def is_right_of_ridge(own: Record) -> bool:
    """Whether a product is bound by compute and stands where the roofline has gone flat."""
    ridge = own["ridge_intensity"]
    return own["bound_by"] == "compute" and ridge is not None and own["intensity"] > ridge


def above(name: str, own: Record, voice: Voice) -> str:
    """Says of a point above its roof what follows: that the ceiling is higher than was measured."""
    return voice.say("gemm.above", name=name, fraction=own["fraction_of_ceiling"],
                          achieved=own["achieved_flop_per_s"])  # fmt: skip


def point(name: str, own: Record, voice: Voice) -> str:
    """One dtype's rate beside its ceiling."""
    given = {"name": name, "n": own["n"], "achieved": own["achieved_flop_per_s"]}
    if own["fraction_of_ceiling"] is None:
        return voice.say("gemm.point_alone", **given)
    return voice.say("gemm.point", fraction=own["fraction_of_ceiling"],
                          ceiling=own["ceiling_flop_per_s"], **given)  # fmt: skip


def vendor(dtypes: Record, answer: Record, voice: Voice) -> list[str]:
    """The bursts beside the vendor's dense peaks, and where they lie in the range the lab expects."""
    shares = {name: own["burst_fraction_of_vendor"] for name, own in dtypes.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    low, high = answer["expected_low"], answer["expected_high"]
    said = []
    if known:
        items = [voice.say("gemm.vendor_item", name=name, fraction=share,
                                vendor=dtypes[name]["vendor_flop_per_s"]) for name, share in known.items()]  # fmt: skip
        below, over = sum(s < low for s in known.values()), sum(s > high for s in known.values())
        said.append(voice.say("gemm.vendor", items=voice.listed(items),
                                   expected=(low, high), inside=len(known) - below - over, below=below,
                                   above=over))  # fmt: skip
    unknown = [name for name in dtypes if name not in known]
    if unknown:
        names = voice.listed(unknown)
        said.append(voice.say("gemm.no_vendor", names=names, count=len(unknown)))
    return said


def instructions(name: str, own: Record, voice: Voice) -> str:
    """The product beside what the CUDA cores issue when nothing has to be fetched."""
    return voice.say("gemm.instructions", name=name, fraction=own["burst_fraction_of_instructions"],
                rate=own["instructions_flop_per_s"])  # fmt: skip


def is_short(own: Record, answer: Record) -> bool:
    """Whether the lab asks why this product is slow."""
    share = own["burst_fraction_of_vendor"]
    return share is not None and share < answer["investigate_below"]


def trials(name: str, own: Record, answer: Record, voice: Voice) -> str:
    """What was tried on a product far below the vendor's peak, and whether anything helped."""
    limit, tried = answer["investigate_below"], own["investigations"]
    if not tried:
        return voice.say("gemm.not_investigated", name=name, limit=limit)
    items = [trial(each, voice) for each in tried]
    reached = sum((each["fraction_of_vendor"] or 0) >= limit for each in tried)
    return voice.say("gemm.investigated", name=name, limit=limit, count=len(tried), reached=reached,
                          items="; ".join(items))  # fmt: skip


def trial(tried: Record, voice: Voice) -> str:
    """One thing that was tried, and the rate it reached, or why it could not be."""
    what = voice.say(f"gemm.trial.{tried['name']}", n=tried["n"], implementation=tried["implementation"])
    if tried["flop_per_s"] is None:
        return voice.say("gemm.trial.refused", what=what, reason=voice.reason(tried["refused"]))
    given = {"rate": tried["flop_per_s"], "fraction": tried["fraction_of_vendor"]}
    return voice.say("gemm.trial.reached", what=what, **given)


def load(dtypes: Record, voice: Voice) -> list[str]:
    """How much of the burst seconds of load leave, and what the driver said of it, for dtypes of like fate together."""
    known = {name: own for name, own in dtypes.items() if own["sustained_fraction_of_burst"] is not None}
    holds = {name: own for name, own in known.items() if own["sustained_fraction_of_burst"] >= HOLDS}
    drops = {name: own for name, own in known.items() if name not in holds}
    said = []
    for reasons in dict.fromkeys(_reasons(own, "sustained") for own in drops.values()):
        said.append(_drop({n: own for n, own in drops.items() if _reasons(own, "sustained") == reasons}, reasons,
                          voice))  # fmt: skip
    if holds:
        said.append(voice.say("gemm.holds", names=voice.listed(list(holds)),
                                   low=ends(holds, "sustained_fraction_of_burst")[0]))  # fmt: skip
    return said


def _drop(own: Record, reasons: tuple[str, ...] | None, voice: Voice) -> str:
    why = "silent" if reasons is None else "named" if reasons else "none"
    chips = [each["chip"] for each in own.values()]
    facts = {"power": _range(chips, "sustained", "power_w"), "clock": _range(chips, "sustained", "sm_clock_hz"),
             "burst_clock": _range(chips, "burst", "sm_clock_hz")}  # fmt: skip
    state = "" if None in facts.values() else voice.say("gemm.drops.state", **facts)
    return voice.say(
        "gemm.drops",
        names=voice.listed(list(own)),
        fraction=ends(own, "sustained_fraction_of_burst"),
        state=state,
        why=voice.say(f"gemm.drops.{why}", reasons=named(reasons or (), voice)),
    )


def throttled(dtypes: Record, voice: Voice) -> list[str]:
    """Says so where the driver held the clock down already in the bursts, which are the ceilings."""
    held = {name: own for name, own in dtypes.items() if _reasons(own, "burst")}
    if not held:
        return []
    clock = _range([own["chip"] for own in held.values()], "burst", "sm_clock_hz")
    reasons = tuple(dict.fromkeys(each for own in held.values() for each in _reasons(own, "burst") or ()))
    return [
        voice.say(
            "gemm.throttled",
            names=voice.listed(list(held)),
            reasons=named(reasons, voice),
            state=voice.say("gemm.throttled.state", clock=clock) if clock else "",
            count=len(held),
            total=len(dtypes),
        )
    ]


def named(reasons: tuple[str, ...], voice: Voice) -> str:
    """The driver's throttle reasons in words; one without a word as the driver writes it."""
    keys = {each: f"throttle.{''.join(filter(str.isalnum, each)).lower()}" for each in reasons}
    words = [voice.say(key) if key in texts() else each for each, key in keys.items()]
    return voice.listed(words) if words else ""


def ends(dtypes: Record, field: str) -> tuple[float, float]:
    """The smallest and the largest value of a field."""
    values = [own[field] for own in dtypes.values()]
    return min(values), max(values)


def _reasons(own: Record, kind: str) -> tuple[str, ...] | None:
    reasons = own["chip"][kind]["throttle_reasons"]
    return None if reasons is None else tuple(reasons)


def _range(chips: list[Record], kind: str, field: str) -> tuple[float, float] | None:
    values = [chip[kind][field] for chip in chips]
    return None if None in values else (min(values), max(values))

"""Paragraph 2: what bounds a decode step, its share of the peak beside the textbook's, and what the launch costs."""

from itertools import pairwise
from typing import Any

from rooflab.look.catalogue import texts
from rooflab.look.voice import Voice

Record = dict[str, Any]
Step = tuple[str, str, Record]  # dtype, S, the answer's figures

LADDER_DTYPE = "fp16"  # the textbook's; the first measured one stands in for it
FAST_TIERS = ("L2", "cache")


def decode_sentences(roofline: Record, voice: Voice) -> list[str]:
    """What bounds the points, their figures, the textbook, and what the record adds to it."""
    answer = roofline["answers"]["decode"]
    slopes = {ceiling["id"]: ceiling for ceiling in roofline["ceilings"]}
    steps = [(dtype, s, step) for dtype, own in answer["dtypes"].items() for s, step in own["sequences"].items()]
    said = []
    if steps:
        said += [
            *bounds(steps, slopes, answer["launch_floor_s"], voice),
            figures(steps, voice),
            *peak(answer, voice),
            tiers(steps, voice),
            textbook(steps, answer, voice),
            *over_copy(steps, answer["copy_bytes_per_s"], voice),
            *ladder(answer["dtypes"], voice),
            *falls(answer["dtypes"], voice),
        ]
    said += [large(step, answer, voice) for step in answer["large"].values()]
    return said or [voice.say("decode.none")]


def bounds(steps: list[Step], slopes: Record, floor: float | None, voice: Voice) -> list[str]:
    """On which slope the points lie, or that the launch keeps them off every slope."""
    bound = {bound_of(step) for _, _, step in steps}
    if bound == {"launch"} and floor is not None:
        return [voice.say("decode.all.launch", count=len(steps), floor=floor)]
    if len(bound) == 1 and not bound & {"launch", "beaten", None}:
        return [_alike(steps, slopes, voice)]
    items = [_bounded(each, steps, voice) for each in dict.fromkeys(bound_of(step) for _, _, step in steps)]
    said = [voice.say("decode.mixed", count=len(steps), items=voice.listed(items))]
    if "launch" in bound and floor is not None:
        said.append(voice.say("decode.mixed_floor", floor=floor))
    return said


def _alike(steps: list[Step], slopes: Record, voice: Voice) -> str:
    """All points have one bound that is no launch: how much of it they reach."""
    bound, fraction = steps[0][2]["bound_by"], ends(steps, "fraction_of_attainable")
    slope = slopes.get(steps[0][2]["memory_ceiling"])
    if bound == "compute" or slope is None:
        return voice.say("decode.all.compute", count=len(steps), fraction=fraction)
    key = "decode.all.memory" if slope["tier"] == bound else "decode.all.unmeasured"
    tier = voice.say(f"bound.{bound}")
    return voice.say(key, count=len(steps), fraction=fraction, slope=slope_name(slope, voice), tier=tier)


def bound_of(step: Record) -> str | None:
    """What bounds a step; "beaten" where it is faster than its roof, so that the roof cannot be what bounds it."""
    return "beaten" if step["above_roof"] else step["bound_by"]


def _bounded(bound: str | None, steps: list[Step], voice: Voice) -> str:
    own = [step for step in steps if bound_of(step[2]) == bound]
    if bound == "beaten":
        fraction = ends(own, "fraction_of_attainable")
        return voice.say("decode.mixed_beaten", count=len(own), where=where(own, voice), fraction=fraction)
    if bound is None:
        return voice.say("decode.mixed_unknown", count=len(own), where=where(own, voice))
    named = voice.say(f"bound.{bound}")
    return voice.say("decode.mixed_item", count=len(own), bound=named, where=where(own, voice))


def figures(steps: list[Step], voice: Voice) -> str:
    """Latency, intensity, rate and share of the peak of each dtype over all its S."""
    lengths = voice.listed(list(dict.fromkeys(s for _, s, _ in steps)))
    items = []
    for dtype in dict.fromkeys(dtype for dtype, _, _ in steps):
        own = [step for step in steps if step[0] == dtype]
        known = all(step["fraction_of_peak"] is not None for _, _, step in own)
        given = {
            "dtype": dtype.replace("_", " "),
            "latency": ends(own, "median_s"),
            "intensity": ends(own, "intensity"),
            "rate": ends(own, "achieved_flop_per_s"),
        }
        if known:
            items.append(voice.say("decode.step", share=ends(own, "fraction_of_peak"), **given))
        else:
            items.append(voice.say("decode.step_alone", **given))
    return voice.say("decode.steps", lengths=lengths, items="; ".join(items))


def peak(answer: Record, voice: Voice) -> list[str]:
    """Which measured peak the shares refer to."""
    if answer["peak_flop_per_s"] is None:
        return []
    named = voice.say(f"decode.peak.{answer['side']}")
    return [voice.say("decode.peak", peak=named, rate=answer["peak_flop_per_s"])]


def tiers(steps: list[Step], voice: Voice) -> str:
    """Which memory serves K and V, and how large they are."""
    items = []
    for tier in dict.fromkeys(step["tier"] for _, _, step in steps):
        own = [step for step in steps if step[2]["tier"] == tier]
        named = voice.say(f"bound.{tier}")
        items.append(voice.say("decode.tier", tier=named, size=ends(own, "working_set_bytes")))
    return voice.say("decode.tiers", items=voice.listed(items))


def textbook(steps: list[Step], answer: Record, voice: Voice) -> str:
    """Whether the shares lie below, inside or above the textbook's range, and so whether the data agree with it."""
    expected = (answer["textbook_low"], answer["textbook_high"])
    verdicts = [step["textbook"] for _, _, step in steps]
    if answer["side"] == "cpu":
        return voice.say("decode.textbook.cpu", range=expected)
    if None in verdicts:
        return voice.say("decode.textbook.no_peak", range=expected)
    inside = verdicts.count("inside")
    verdict = "agree" if inside == len(verdicts) else "partly" if inside else "contradict"
    launch = all(bound_of(step) == "launch" for _, _, step in steps) and set(verdicts) == {"below"}
    hbm = sum(step["textbook"] == "inside" and bound_of(step) == "HBM" for _, _, step in steps)
    why = voice.say("decode.textbook.launch") if launch else ""
    if hbm < inside:
        why = voice.say("decode.textbook.not_hbm", inside=inside, hbm=hbm)
    return voice.say(
        "decode.textbook",
        range=expected,
        total=len(verdicts),
        below=verdicts.count("below"),
        inside=inside,
        above=verdicts.count("above"),
        verdict=voice.say(f"decode.textbook.{verdict}"),
        why=why,
    )


def over_copy(steps: list[Step], copy: float | None, voice: Voice) -> list[str]:
    """Points that move more bytes than the copy slope allows, and why that is no contradiction."""
    over = [step for step in steps if (step[2]["fraction_of_copy"] or 0) > 1]
    said = []
    for fast in (True, False):
        own = [step for step in over if (step[2]["tier"] in FAST_TIERS) == fast]
        if own and copy is not None:
            best = max((step for _, _, step in own), key=lambda step: step["achieved_bytes_per_s"])
            tier = voice.say(f"bound.{best['tier']}")
            said.append(
                voice.say(
                    "decode.over_copy",
                    where=where(own, voice),
                    rate=best["achieved_bytes_per_s"],
                    ratio=best["fraction_of_copy"],
                    copy=copy,
                    why=voice.say(f"decode.over_copy.{'fast' if fast else 'main'}", tier=tier),
                )
            )
    return said


def ladder(dtypes: Record, voice: Voice) -> list[str]:
    """The same step taken in the other ways of launching, beside the lab's point."""
    dtype = LADDER_DTYPE if LADDER_DTYPE in dtypes else next(iter(dtypes))
    own = dtypes[dtype]
    if not own["ladder"]:
        return []
    length, lab = list(own["sequences"].items())[-1]
    items = [
        voice.say(
            "decode.rung",
            median=rung["median_s"],
            ratio=rung["time_over_lab"],
            name=rung_name(rung, voice),
        )
        for rung in own["ladder"]
        if rung["cache"] != "cold"  # the tables of the report have all of them
    ]
    return [
        voice.say(
            "decode.ladder",
            length=length,
            dtype=dtype.replace("_", " "),
            lab=lab["median_s"],
            name=implementation_name(lab["implementation"], voice),
            items="; ".join(items),
        )
    ]


def rung_name(rung: Record, voice: Voice) -> str:
    """One way of taking a step, in words: what computes it, who launches it, whether its cache was cold."""
    name = implementation_name(rung["implementation"], voice)
    if rung["launch"] == "graph":
        name = voice.say("rung.graph" if rung["timing"] == "graph" else "rung.graph_each", name=name)
    elif rung["timing"] == "blocks":
        name = voice.say("rung.back_to_back", name=name)
    return voice.say("rung.cold", name=name) if rung["cache"] == "cold" else name


def implementation_name(implementation: str, voice: Voice) -> str:
    """The implementation in words; one without a word by its own name."""
    key = f"rung.{implementation}"
    return voice.say(key) if key in texts() else implementation


def falls(dtypes: Record, voice: Voice) -> list[str]:
    """Where a longer cache took less time, and whether that lies within the noise."""
    said = []
    for noise, kind in ((True, "noise"), (False, "real"), (None, "programs")):
        items = [
            voice.say("decode.fall", dtype=dtype.replace("_", " "), before=before, after=after,
                 shorter=first["median_s"], longer=second["median_s"])
            for dtype, own in dtypes.items()
            for (before, first), (after, second) in pairwise(own["sequences"].items())
            if own["falls_within_spread"] is noise and first["median_s"] >= second["median_s"]
        ]  # fmt: skip
        if items:
            why = voice.say(f"decode.falls.{kind}")
            said.append(voice.say("decode.falls", items="; ".join(items), why=why))
    return said


def large(own: Record, answer: Record, voice: Voice) -> str:
    """A cache sized by a memory tier, taken the fastest way: the point the textbook speaks of."""
    share = ""
    if own["fraction_of_peak"] is not None and answer["side"] == "gpu":
        share = voice.say("decode.large.share", share=own["fraction_of_peak"],
                     verdict=voice.say(f"decode.large.{own['textbook']}"),
                     range=(answer["textbook_low"], answer["textbook_high"]))  # fmt: skip
    return voice.say(
        "decode.large" if own["bound_by"] else "decode.large.unjudged",
        size=own["working_set_bytes"],
        dtype=own["dtype"].replace("_", " "),
        name=rung_name(own, voice),
        tier=voice.say(f"bound.{own['tier']}"),
        median=own["median_s"],
        rate=own["achieved_bytes_per_s"],
        fraction=own["fraction_of_attainable"],
        bound=voice.say(f"bound.{own['bound_by']}") if own["bound_by"] else "",
        share=share,
    )


def where(steps: list[Step], voice: Voice) -> str:
    """Dtypes and S: 'fp16 at S = 512 and 1024'."""
    lengths: dict[str, list[str]] = {}
    for dtype, s, _ in steps:
        lengths.setdefault(dtype, []).append(s)
    items = [voice.say("decode.where", dtype=dtype.replace("_", " "), lengths=voice.listed(own))
             for dtype, own in lengths.items()]  # fmt: skip
    return "; ".join(items)


def slope_name(ceiling: Record, voice: Voice) -> str:
    """A memory slope in words; one of an unknown pattern by its label."""
    key = f"chart.slope.{ceiling['pattern']}"
    return voice.say(key, tier=ceiling["tier"]) if key in texts() else str(ceiling["label"])


def ends(steps: list[Step], field: str) -> tuple[float, float]:
    """The smallest and the largest value of a field."""
    values = [step[field] for _, _, step in steps]
    return min(values), max(values)

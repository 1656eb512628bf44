"""Paragraph 2: what bounds a decode step, its share of the peak beside the textbook's, and what the launch costs."""

from itertools import pairwise
from typing import Any

from rooflab.look.catalogue import listed, text, texts

Record = dict[str, Any]
Step = tuple[str, str, Record]  # dtype, S, the answer's figures

LADDER_DTYPE = "fp16"  # the textbook's; the first measured one stands in for it
FAST_TIERS = ("L2", "cache")


def decode_sentences(roofline: Record, language: str) -> list[str]:
    """What bounds the points, their figures, the textbook, and what the record adds to it."""
    answer = roofline["answers"]["decode"]
    slopes = {ceiling["id"]: ceiling for ceiling in roofline["ceilings"]}
    steps = [(dtype, s, step) for dtype, own in answer["dtypes"].items() for s, step in own["sequences"].items()]
    said = []
    if steps:
        said += [
            *bounds(steps, slopes, answer["launch_floor_s"], language),
            figures(steps, language),
            *peak(answer, language),
            tiers(steps, language),
            textbook(steps, answer, language),
            *over_copy(steps, answer["copy_bytes_per_s"], language),
            *ladder(answer["dtypes"], language),
            *falls(answer["dtypes"], language),
        ]
    said += [large(step, answer, language) for step in answer["large"].values()]
    return said or [text("decode.none", language)]


def bounds(steps: list[Step], slopes: Record, floor: float | None, language: str) -> list[str]:
    """On which slope the points lie, or that the launch keeps them off every slope."""
    bound = {bound_of(step) for _, _, step in steps}
    if bound == {"launch"} and floor is not None:
        return [text("decode.all.launch", language, count=len(steps), floor=floor)]
    if len(bound) == 1 and not bound & {"launch", "beaten", None}:
        return [_alike(steps, slopes, language)]
    items = [_bounded(each, steps, language) for each in dict.fromkeys(bound_of(step) for _, _, step in steps)]
    said = [text("decode.mixed", language, count=len(steps), items=listed(items, language))]
    if "launch" in bound and floor is not None:
        said.append(text("decode.mixed_floor", language, floor=floor))
    return said


def _alike(steps: list[Step], slopes: Record, language: str) -> str:
    """All points have one bound that is no launch: how much of it they reach."""
    bound, fraction = steps[0][2]["bound_by"], ends(steps, "fraction_of_attainable")
    slope = slopes.get(steps[0][2]["memory_ceiling"])
    if bound == "compute" or slope is None:
        return text("decode.all.compute", language, count=len(steps), fraction=fraction)
    key = "decode.all.memory" if slope["tier"] == bound else "decode.all.unmeasured"
    tier = text(f"bound.{bound}", language)
    return text(key, language, count=len(steps), fraction=fraction, slope=slope_name(slope, language), tier=tier)


def bound_of(step: Record) -> str | None:
    """What bounds a step; "beaten" where it is faster than its roof, so that the roof cannot be what bounds it."""
    return "beaten" if step["above_roof"] else step["bound_by"]


def _bounded(bound: str | None, steps: list[Step], language: str) -> str:
    own = [step for step in steps if bound_of(step[2]) == bound]
    if bound == "beaten":
        fraction = ends(own, "fraction_of_attainable")
        return text("decode.mixed_beaten", language, count=len(own), where=where(own, language), fraction=fraction)
    if bound is None:
        return text("decode.mixed_unknown", language, count=len(own), where=where(own, language))
    named = text(f"bound.{bound}", language)
    return text("decode.mixed_item", language, count=len(own), bound=named, where=where(own, language))


def figures(steps: list[Step], language: str) -> str:
    """Latency, intensity, rate and share of the peak of each dtype over all its S."""
    lengths = listed(list(dict.fromkeys(s for _, s, _ in steps)), language)
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
            items.append(text("decode.step", language, share=ends(own, "fraction_of_peak"), **given))
        else:
            items.append(text("decode.step_alone", language, **given))
    return text("decode.steps", language, lengths=lengths, items="; ".join(items))


def peak(answer: Record, language: str) -> list[str]:
    """Which measured peak the shares refer to."""
    if answer["peak_flop_per_s"] is None:
        return []
    named = text(f"decode.peak.{answer['side']}", language)
    return [text("decode.peak", language, peak=named, rate=answer["peak_flop_per_s"])]


def tiers(steps: list[Step], language: str) -> str:
    """Which memory serves K and V, and how large they are."""
    items = []
    for tier in dict.fromkeys(step["tier"] for _, _, step in steps):
        own = [step for step in steps if step[2]["tier"] == tier]
        named = text(f"bound.{tier}", language)
        items.append(text("decode.tier", language, tier=named, size=ends(own, "working_set_bytes")))
    return text("decode.tiers", language, items=listed(items, language))


def textbook(steps: list[Step], answer: Record, language: str) -> str:
    """Whether the shares lie below, inside or above the textbook's range, and so whether the data agree with it."""
    expected = (answer["textbook_low"], answer["textbook_high"])
    verdicts = [step["textbook"] for _, _, step in steps]
    if answer["side"] == "cpu":
        return text("decode.textbook.cpu", language, range=expected)
    if None in verdicts:
        return text("decode.textbook.no_peak", language, range=expected)
    inside = verdicts.count("inside")
    verdict = "agree" if inside == len(verdicts) else "partly" if inside else "contradict"
    launch = all(bound_of(step) == "launch" for _, _, step in steps) and set(verdicts) == {"below"}
    hbm = sum(step["textbook"] == "inside" and bound_of(step) == "HBM" for _, _, step in steps)
    why = text("decode.textbook.launch", language) if launch else ""
    if hbm < inside:
        why = text("decode.textbook.not_hbm", language, inside=inside, hbm=hbm)
    return text(
        "decode.textbook",
        language,
        range=expected,
        total=len(verdicts),
        below=verdicts.count("below"),
        inside=inside,
        above=verdicts.count("above"),
        verdict=text(f"decode.textbook.{verdict}", language),
        why=why,
    )


def over_copy(steps: list[Step], copy: float | None, language: str) -> list[str]:
    """Points that move more bytes than the copy slope allows, and why that is no contradiction."""
    over = [step for step in steps if (step[2]["fraction_of_copy"] or 0) > 1]
    said = []
    for fast in (True, False):
        own = [step for step in over if (step[2]["tier"] in FAST_TIERS) == fast]
        if own and copy is not None:
            best = max((step for _, _, step in own), key=lambda step: step["achieved_bytes_per_s"])
            tier = text(f"bound.{best['tier']}", language)
            said.append(
                text(
                    "decode.over_copy",
                    language,
                    where=where(own, language),
                    rate=best["achieved_bytes_per_s"],
                    ratio=best["fraction_of_copy"],
                    copy=copy,
                    why=text(f"decode.over_copy.{'fast' if fast else 'main'}", language, tier=tier),
                )
            )
    return said


def ladder(dtypes: Record, language: str) -> list[str]:
    """The same step taken in the other ways of launching, beside the lab's point."""
    dtype = LADDER_DTYPE if LADDER_DTYPE in dtypes else next(iter(dtypes))
    own = dtypes[dtype]
    if not own["ladder"]:
        return []
    length, lab = list(own["sequences"].items())[-1]
    items = [
        text(
            "decode.rung",
            language,
            median=rung["median_s"],
            ratio=rung["time_over_lab"],
            name=rung_name(rung, language),
        )
        for rung in own["ladder"]
        if rung["cache"] != "cold"  # the tables of the report have all of them
    ]
    return [
        text(
            "decode.ladder",
            language,
            length=length,
            dtype=dtype.replace("_", " "),
            lab=lab["median_s"],
            name=implementation_name(lab["implementation"], language),
            items="; ".join(items),
        )
    ]


def rung_name(rung: Record, language: str) -> str:
    """One way of taking a step, in words: what computes it, who launches it, whether its cache was cold."""
    name = implementation_name(rung["implementation"], language)
    if rung["launch"] == "graph":
        name = text("rung.graph" if rung["timing"] == "graph" else "rung.graph_each", language, name=name)
    elif rung["timing"] == "blocks":
        name = text("rung.back_to_back", language, name=name)
    return text("rung.cold", language, name=name) if rung["cache"] == "cold" else name


def implementation_name(implementation: str, language: str) -> str:
    """The implementation in words; one without a word by its own name."""
    key = f"rung.{implementation}"
    return text(key, language) if key in texts() else implementation


def falls(dtypes: Record, language: str) -> list[str]:
    """Where a longer cache took less time, and whether that lies within the noise."""
    said = []
    for noise in (True, False):
        items = [
            text("decode.fall", language, dtype=dtype.replace("_", " "), before=before, after=after,
                 shorter=first["median_s"], longer=second["median_s"])
            for dtype, own in dtypes.items()
            for (before, first), (after, second) in pairwise(own["sequences"].items())
            if own["falls_within_spread"] == noise and first["median_s"] >= second["median_s"]
        ]  # fmt: skip
        if items:
            why = text(f"decode.falls.{'noise' if noise else 'real'}", language)
            said.append(text("decode.falls", language, items="; ".join(items), why=why))
    return said


def large(own: Record, answer: Record, language: str) -> str:
    """A cache sized by a memory tier, taken the fastest way: the point the textbook speaks of."""
    share = ""
    if own["fraction_of_peak"] is not None and answer["side"] == "gpu":
        share = text("decode.large.share", language, share=own["fraction_of_peak"],
                     verdict=text(f"decode.large.{own['textbook']}", language),
                     range=(answer["textbook_low"], answer["textbook_high"]))  # fmt: skip
    return text(
        "decode.large" if own["bound_by"] else "decode.large.unjudged",
        language,
        size=own["working_set_bytes"],
        dtype=own["dtype"].replace("_", " "),
        name=rung_name(own, language),
        tier=text(f"bound.{own['tier']}", language),
        median=own["median_s"],
        rate=own["achieved_bytes_per_s"],
        fraction=own["fraction_of_attainable"],
        bound=text(f"bound.{own['bound_by']}", language) if own["bound_by"] else "",
        share=share,
    )


def where(steps: list[Step], language: str) -> str:
    """Dtypes and S: 'fp16 at S = 512 and 1024'."""
    lengths: dict[str, list[str]] = {}
    for dtype, s, _ in steps:
        lengths.setdefault(dtype, []).append(s)
    items = [text("decode.where", language, dtype=dtype.replace("_", " "), lengths=listed(own, language))
             for dtype, own in lengths.items()]  # fmt: skip
    return "; ".join(items)


def slope_name(ceiling: Record, language: str) -> str:
    """A memory slope in words; one of an unknown pattern by its label."""
    key = f"chart.slope.{ceiling['pattern']}"
    return text(key, language, tier=ceiling["tier"]) if key in texts() else str(ceiling["label"])


def ends(steps: list[Step], field: str) -> tuple[float, float]:
    """The smallest and the largest value of a field."""
    values = [step[field] for _, _, step in steps]
    return min(values), max(values)

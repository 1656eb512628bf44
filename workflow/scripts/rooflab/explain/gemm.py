"""Paragraph 1: where the matrix products land, what that says about the diagnosis, and how the vendor's peak compares."""

from typing import Any

from rooflab.look.catalogue import listed, number, text, texts, translated

Record = dict[str, Any]

NEAR = (0.1, 0.2)  # the lab's question: within 10 or 20 % of the ceiling
HOLDS = 0.95  # of the burst: what is left under load, from where the difference is worth a sentence


def gemm_sentences(roofline: Record, language: str) -> list[str]:
    """Verdict, diagnosis, points, vendor, load; only what the answer holds."""
    answer = roofline["answers"]["gemm"]
    dtypes = {name.replace("_", " "): own for name, own in answer["dtypes"].items()}
    library = "cuBLAS" if answer["side"] == "gpu" else "BLAS"
    if not dtypes:
        return [text("gemm.none", language, library=library)]
    known = {name: own for name, own in dtypes.items() if own["fraction_of_ceiling"] is not None}
    return [
        *(landing(known, library, language) if known else []),
        *diagnosis(known, answer, language),
        *[above(name, own, language) for name, own in known.items() if own["above_roof"]],
        "; ".join(point(name, own, language) for name, own in dtypes.items()) + ".",
        *vendor(dtypes, answer, language),
        *[trials(name, own, answer, language) for name, own in dtypes.items() if is_short(own, answer)],
        *[instructions(name, own, language) for name, own in dtypes.items() if own["instructions_flop_per_s"]],
        *load(dtypes, language),
        *throttled(dtypes, language),
    ]


def landing(known: Record, library: str, language: str) -> list[str]:
    """Whether the points lie on their ceilings, within 10 or 20 % of them, or which do not."""
    shares = {name: own["fraction_of_ceiling"] for name, own in known.items()}
    low, high = min(shares, key=lambda n: shares[n]), max(shares, key=lambda n: shares[n])
    far = [name for name in shares if shares[name] < 1 - NEAR[-1]]
    if far:
        items = [text("gemm.far_item", language, name=name, fraction=shares[name]) for name in far]
        return [
            text(
                "gemm.far",
                language,
                library=library,
                count=len(shares),
                far_count=len(far),
                far=listed(items, language),
                distance=NEAR[-1],
            )
        ]
    distance = next((d for d in NEAR if 1 - d <= shares[low] and shares[high] <= 1 + d), None)
    if distance is None:
        return []
    alike = number(shares[low], "percent", language) == number(shares[high], "percent", language)
    return [
        text(
            "gemm.near.one" if len(shares) == 1 else "gemm.near.alike" if alike else "gemm.near",
            language,
            library=library,
            count=len(shares),
            distance=distance,
            low=shares[low],
            low_name=low,
            high=shares[high],
            high_name=high,
        )
    ]


def diagnosis(known: Record, answer: Record, language: str) -> list[str]:
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
        return [text(key, language, intensity=ends(reached, "intensity"),
                               ridge=ends(reached, "ridge_intensity"))]  # fmt: skip
    for key, own in (("gemm.reached", reached), ("gemm.falls_short", short)):
        said += [_diagnosed(key, own, bound, language) for bound in dict.fromkeys(o["bound_by"] for o in own.values())]
    return said


def _diagnosed(key: str, dtypes: Record, bound: str, language: str) -> str:
    own = {name: each for name, each in dtypes.items() if each["bound_by"] == bound}
    low, high = ends(own, "fraction_of_attainable")
    return text(
        key,
        language,
        intensity=ends(own, "intensity"),
        bound=text(f"bound.{bound}", language),
        names=listed(list(own), language),
        fraction=(low, high),
        high=high,
    )


def is_right_of_ridge(own: Record) -> bool:
    """Whether a product is bound by compute and stands where the roofline has gone flat."""
    ridge = own["ridge_intensity"]
    return own["bound_by"] == "compute" and ridge is not None and own["intensity"] > ridge


def above(name: str, own: Record, language: str) -> str:
    """Says of a point above its roof what follows: that the ceiling is higher than was measured."""
    return text("gemm.above", language, name=name, fraction=own["fraction_of_ceiling"],
                          achieved=own["achieved_flop_per_s"])  # fmt: skip


def point(name: str, own: Record, language: str) -> str:
    """One dtype's rate beside its ceiling."""
    given = {"name": name, "n": own["n"], "achieved": own["achieved_flop_per_s"]}
    if own["fraction_of_ceiling"] is None:
        return text("gemm.point_alone", language, **given)
    return text("gemm.point", language, fraction=own["fraction_of_ceiling"],
                          ceiling=own["ceiling_flop_per_s"], **given)  # fmt: skip


def vendor(dtypes: Record, answer: Record, language: str) -> list[str]:
    """The bursts beside the vendor's dense peaks, and where they lie in the range the lab expects."""
    shares = {name: own["burst_fraction_of_vendor"] for name, own in dtypes.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    low, high = answer["expected_low"], answer["expected_high"]
    said = []
    if known:
        items = [text("gemm.vendor_item", language, name=name, fraction=share,
                                vendor=dtypes[name]["vendor_flop_per_s"]) for name, share in known.items()]  # fmt: skip
        below, over = sum(s < low for s in known.values()), sum(s > high for s in known.values())
        said.append(text("gemm.vendor", language, items=listed(items, language),
                                   expected=(low, high), inside=len(known) - below - over, below=below,
                                   above=over))  # fmt: skip
    unknown = [name for name in dtypes if name not in known]
    if unknown:
        names = listed(unknown, language)
        said.append(text("gemm.no_vendor", language, names=names, count=len(unknown)))
    return said


def instructions(name: str, own: Record, language: str) -> str:
    """The product beside what the CUDA cores issue when nothing has to be fetched."""
    return text("gemm.instructions", language, name=name, fraction=own["burst_fraction_of_instructions"],
                rate=own["instructions_flop_per_s"])  # fmt: skip


def is_short(own: Record, answer: Record) -> bool:
    """Whether the lab asks why this product is slow."""
    share = own["burst_fraction_of_vendor"]
    return share is not None and share < answer["investigate_below"]


def trials(name: str, own: Record, answer: Record, language: str) -> str:
    """What was tried on a product far below the vendor's peak, and whether anything helped."""
    limit, tried = answer["investigate_below"], own["investigations"]
    if not tried:
        return text("gemm.not_investigated", language, name=name, limit=limit)
    items = [trial(each, language) for each in tried]
    reached = sum((each["fraction_of_vendor"] or 0) >= limit for each in tried)
    return text("gemm.investigated", language, name=name, limit=limit, count=len(tried), reached=reached,
                          items="; ".join(items))  # fmt: skip


def trial(tried: Record, language: str) -> str:
    """One thing that was tried, and the rate it reached, or why it could not be."""
    what = text(f"gemm.trial.{tried['name']}", language, n=tried["n"], implementation=tried["implementation"])
    if tried["flop_per_s"] is None:
        return text("gemm.trial.refused", language, what=what, reason=translated(tried["refused"], language))
    given = {"rate": tried["flop_per_s"], "fraction": tried["fraction_of_vendor"]}
    return text("gemm.trial.reached", language, what=what, **given)


def load(dtypes: Record, language: str) -> list[str]:
    """How much of the burst seconds of load leave, and what the driver said of it, for dtypes of like fate together."""
    known = {name: own for name, own in dtypes.items() if own["sustained_fraction_of_burst"] is not None}
    holds = {name: own for name, own in known.items() if own["sustained_fraction_of_burst"] >= HOLDS}
    drops = {name: own for name, own in known.items() if name not in holds}
    said = []
    for reasons in dict.fromkeys(_reasons(own, "sustained") for own in drops.values()):
        said.append(_drop({n: own for n, own in drops.items() if _reasons(own, "sustained") == reasons}, reasons,
                          language))  # fmt: skip
    if holds:
        said.append(text("gemm.holds", language, names=listed(list(holds), language),
                                   low=ends(holds, "sustained_fraction_of_burst")[0]))  # fmt: skip
    return said


def _drop(own: Record, reasons: tuple[str, ...] | None, language: str) -> str:
    why = "silent" if reasons is None else "named" if reasons else "none"
    chips = [each["chip"] for each in own.values()]
    facts = {"power": _range(chips, "sustained", "power_w"), "clock": _range(chips, "sustained", "sm_clock_hz"),
             "burst_clock": _range(chips, "burst", "sm_clock_hz")}  # fmt: skip
    state = "" if None in facts.values() else text("gemm.drops.state", language, **facts)
    return text(
        "gemm.drops",
        language,
        names=listed(list(own), language),
        fraction=ends(own, "sustained_fraction_of_burst"),
        state=state,
        why=text(f"gemm.drops.{why}", language, reasons=named(reasons or (), language)),
    )


def throttled(dtypes: Record, language: str) -> list[str]:
    """Says so where the driver held the clock down already in the bursts, which are the ceilings."""
    held = {name: own for name, own in dtypes.items() if _reasons(own, "burst")}
    if not held:
        return []
    clock = _range([own["chip"] for own in held.values()], "burst", "sm_clock_hz")
    reasons = tuple(dict.fromkeys(each for own in held.values() for each in _reasons(own, "burst") or ()))
    return [
        text(
            "gemm.throttled",
            language,
            names=listed(list(held), language),
            reasons=named(reasons, language),
            state=text("gemm.throttled.state", language, clock=clock) if clock else "",
            count=len(held),
            total=len(dtypes),
        )
    ]


def named(reasons: tuple[str, ...], language: str) -> str:
    """The driver's throttle reasons in words; one without a word as the driver writes it."""
    keys = {each: f"throttle.{''.join(filter(str.isalnum, each)).lower()}" for each in reasons}
    words = [text(key, language) if key in texts() else each for each, key in keys.items()]
    return listed(words, language) if words else ""


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

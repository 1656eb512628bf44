"""Paragraph 1: where the matrix products land, whether that confirms the diagnosis, and what the gap to the data sheet is."""

from rooflab.explain.compose import FILL, MUST, Sentence
from rooflab.explain.figures import Book, Ends, Figure, Quoting
from rooflab.explain.holes import missing
from rooflab.look.catalogue import texts
from rooflab.look.style import Record, named_format

BEYOND = 1.05  # of a ceiling: from here on the ceiling is too low, though its own spread may explain it
ON, NEAR = 0.9, 0.8  # of a ceiling: the lab's question is whether products come within 10 or 20 % of it
HOLDS = 0.95  # of the burst: what is left under load, from where the difference is worth a sentence
LAB_FORMATS = ("fp8_e4m3", "bf16", "fp16", "fp32")  # those that the sentences count up, where they were measured
SPLIT_FORMATS = (
    "bf16",
    "fp16",
    "fp8_e4m3",
    "fp32",
)  # whose gap to the data sheet is taken apart: the first with a clock
POWER_CAP = "throttle.swpowercap"  # what the driver names where the power limit holds the clock down
ROOT = ("answers", "gemm", "dtypes")


def gemm_sentences(book: Book, voice: Quoting) -> list[Sentence]:
    """Verdict, rates, diagnosis, data sheet, clock and use, load; only what the records hold."""
    answer = book.roofline["answers"]["gemm"]
    dtypes = chosen(answer["dtypes"], answer["side"])
    library = "cuBLAS" if answer["side"] == "gpu" else "BLAS"
    lacking = missing(book, voice, "gemm")
    if not dtypes:
        fills = [voice.say(f"gemm.fill.{key}") for key in ("none", "ceiling", "vendor")]
        return [
            Sentence(voice.say("gemm.verdict.none", library=library), MUST),
            *lacking,
            *(Sentence(text, FILL) for text in fills),
        ]
    known = {name: own for name, own in dtypes.items() if own["fraction_of_ceiling"] is not None}
    said = [
        Sentence(verdict(known, voice), MUST),
        Sentence(reach(book, voice, dtypes, known, library), MUST),
        *[Sentence(text, 2) for text in diagnosis(book, voice, known, answer)],
        *[Sentence(text, 1) for text in vendor(book, voice, dtypes, answer)],
        *[Sentence(text, 1) for text in short(book, voice, dtypes, answer)],
        *[Sentence(text, 1) for text in split(book, voice, dtypes)],
        *lacking,
        *[Sentence(text, 3) for text in throttled(voice, dtypes)],
        *[Sentence(text, 4) for text in load(book, voice, dtypes)],
    ]
    wanting = [*("ceiling", "vendor"), *(["none"] if len(known) < len(dtypes) else [])]
    return said + [Sentence(voice.say(f"gemm.fill.{key}"), FILL) for key in wanting]


def chosen(dtypes: Record, side: str) -> Record:
    """A GPU's formats that the lab asks for, where they were measured; else all of them."""
    lab = {name: dtypes[name] for name in LAB_FORMATS if name in dtypes} if side == "gpu" else {}
    return lab or dtypes


def names(voice: Quoting, formats: list[str]) -> str:
    """Formats in words, as a list."""
    return voice.listed([named_format(voice, name) for name in formats])


def figure(book: Book, name: str, field: str) -> Figure:
    """A figure of one format's answer."""
    return book.need(*ROOT, name, field)


def ends(book: Book, formats: list[str], field: str) -> Ends | None:
    """The smallest and the largest of a field over formats."""
    return book.ends((*ROOT, name, field) for name in formats)


def verdict(known: Record, voice: Quoting) -> str:
    """Whether the products lie on their ceilings; a point above one means that a measurement is wrong."""
    if not known:
        return voice.say("gemm.verdict.unjudged")
    if any(own["above_roof"] for own in known.values()):
        return voice.say("gemm.verdict.above")
    shares = [own["fraction_of_ceiling"] for own in known.values()]
    if max(shares) > BEYOND:
        return voice.say("gemm.verdict.beyond")
    low = min(shares)
    key = "on" if low >= ON else "near" if low >= NEAR else "far"
    return voice.say(f"gemm.verdict.{key}{'.one' if len(known) == 1 else ''}")


def reach(book: Book, voice: Quoting, dtypes: Record, known: Record, library: str) -> str:
    """How much of its ceiling each product reaches, with both rates."""
    judged = list(known)
    size = ends(book, judged or list(dtypes), "n")
    if not known:
        items = [
            voice.say("gemm.rate", rate=figure(book, n, "achieved_flop_per_s"), name=named_format(voice, n))
            for n in dtypes
        ]
        return voice.say("gemm.rates", n=size, library=library, items=voice.listed(items))
    pairs = {n: (figure(book, n, "achieved_flop_per_s"), figure(book, n, "ceiling_flop_per_s")) for n in judged}
    items = [voice.say("gemm.item", rate=voice.beside(*pairs[n], "flop_per_s"), ceiling=pairs[n][1], name=named_format(voice, n))
             for n in judged]  # fmt: skip
    share = {name: known[name]["fraction_of_ceiling"] for name in judged}
    low, high = min(judged, key=lambda n: share[n]), max(judged, key=lambda n: share[n])
    given = {"n": size, "library": library, "items": voice.listed(items), "low": figure(book, low, "fraction_of_ceiling"),
             "high": figure(book, high, "fraction_of_ceiling"), "low_name": named_format(voice, low),
             "high_name": named_format(voice, high)}  # fmt: skip
    alike = voice.alike(share[low], share[high], "percent")
    return voice.say("gemm.reach.alike" if alike else "gemm.reach", **given)


def diagnosis(book: Book, voice: Quoting, known: Record, answer: Record) -> list[str]:
    """Whether the clock confirms what the roofline says limits the products; where the lab doubts a ceiling, nothing."""
    judged = [n for n, own in known.items() if own["fraction_of_attainable"] is not None and not is_short(own, answer)]
    if not judged or any(
        known[name]["above_roof"] or known[name]["fraction_of_attainable"] > BEYOND for name in judged
    ):
        return []
    reached = [name for name in judged if known[name]["fraction_of_attainable"] >= NEAR]
    right = all(known[n]["bound_by"] == "compute" and known[n]["ridge_intensity"] is not None
                and known[n]["intensity"] > known[n]["ridge_intensity"] for n in judged)  # fmt: skip
    if len(reached) == len(known) and right:
        key = "gemm.confirmed.one" if len(reached) == 1 else "gemm.confirmed"
        return [
            voice.say(key, intensity=ends(book, reached, "intensity"), ridge=ends(book, reached, "ridge_intensity"))
        ]
    far = [name for name in judged if name not in reached]
    if not far:
        return []
    bounds = [voice.say(f"bound.{each}") for each in dict.fromkeys(known[name]["bound_by"] for name in far)]
    return [voice.say("gemm.unconfirmed", names=names(voice, far), bounds=voice.listed(bounds),
                      share=ends(book, far, "fraction_of_attainable"))]  # fmt: skip


def vendor(book: Book, voice: Quoting, dtypes: Record, answer: Record) -> list[str]:
    """The ceilings beside the vendor's dense figures, and which lie outside the range that is expected."""
    ceilings = {c["id"]: c for c in book.roofline["ceilings"]}
    share = {n: (ceilings.get(own["ceiling"]) or {}).get("fraction_of_vendor") for n, own in dtypes.items()}
    known = [name for name in dtypes if share[name] is not None]
    low, high = answer["expected_low"], answer["expected_high"]
    said = []
    if known:
        outside = [name for name in known if not low <= share[name] <= high]
        where = ".all" if len(outside) == len(known) else ".outside" if outside else ".one" if len(known) == 1 else ""
        key = f"gemm.vendor{where}"
        said.append(voice.say(key, share=book.ends(("ceilings", dtypes[n]["ceiling"], "fraction_of_vendor") for n in known),
                              expected=(book.need("answers", "gemm", "expected_low"), book.need("answers", "gemm", "expected_high")),
                              names=names(voice, outside) if outside else ""))  # fmt: skip
    unknown = [name for name, own in dtypes.items() if name not in known and own["vendor_flop_per_s"] is None]
    return said + ([voice.say("gemm.vendor.unknown", names=names(voice, unknown))] if unknown else [])


def split(book: Book, voice: Quoting, dtypes: Record) -> list[str]:
    """The gap to the data sheet in two factors, for one format whose clock inside the burst was measured."""
    ceilings = {c["id"]: c for c in book.roofline["ceilings"]}
    for name in (n for n in SPLIT_FORMATS if n in dtypes and dtypes[n]["ceiling"]):
        ceiling = ceilings[dtypes[name]["ceiling"]]
        clock, use = ceiling.get("clock") or {}, ceiling.get("use") or {}
        if clock.get("factor") is not None and use.get("of_issue_rate") is not None:
            at = ("ceilings", ceiling["id"])
            capped = POWER_CAP in map(word_of, reasons_of(dtypes[name], "burst")) and clock["factor"] < 1
            key = "gemm.split.capped" if capped else "gemm.split"
            return [voice.say(key, name=named_format(voice, name), clock=book.need(*at, "clock", "measured_hz"),
                              vendor=book.need(*at, "clock", "vendor_hz"), use=book.need(*at, "use", "of_issue_rate"))]  # fmt: skip
    return []


def is_short(own: Record, answer: Record) -> bool:
    """Whether the lab asks why this product is slow."""
    share = own["burst_fraction_of_vendor"]
    return share is not None and share < answer["investigate_below"]


def short(book: Book, voice: Quoting, dtypes: Record, answer: Record) -> list[str]:
    """What was tried on a product far below the vendor's figure, and what rate it gave."""
    said = []
    limit = book.need("answers", "gemm", "investigate_below")
    for name in (n for n, own in dtypes.items() if is_short(own, answer)):
        tried = dtypes[name]["investigations"]
        items = [trial(book, voice, name, index, each) for index, each in enumerate(tried)]
        given = {"name": named_format(voice, name), "limit": limit}
        said.append(
            voice.say("gemm.short", items="; ".join(items), **given)
            if items
            else voice.say("gemm.short.untried", **given)
        )
    return said


def trial(book: Book, voice: Quoting, name: str, index: int, tried: Record) -> str:
    """One thing that was tried: the rate it gave, or that it could not be tried."""
    what = voice.say(f"gemm.trial.{tried['name']}")
    rate = book.at(*ROOT, name, "investigations", str(index), "flop_per_s")
    return (
        voice.say("gemm.trial.refused", what=what)
        if rate is None
        else voice.say("gemm.trial.reached", what=what, rate=rate)
    )


def load(book: Book, voice: Quoting, dtypes: Record) -> list[str]:
    """How much of the burst seconds of load leave, with the reasons that the driver named under that load."""
    known = {n: own for n, own in dtypes.items() if own["sustained_fraction_of_burst"] is not None}
    drops = [n for n, own in known.items() if own["sustained_fraction_of_burst"] < HOLDS]
    if not drops:
        return [voice.say("gemm.holds", share=ends(book, list(known), "sustained_fraction_of_burst"))] if known else []
    given = {"names": names(voice, drops), "share": ends(book, drops, "sustained_fraction_of_burst")}
    reasons = [reasons_of(dtypes[n], "sustained") for n in drops]
    if all(reasons):
        return [voice.say("gemm.drops.named", reasons=in_words(voice, [r for each in reasons for r in each]), **given)]
    return [voice.say("gemm.drops", **given)]


def throttled(voice: Quoting, dtypes: Record) -> list[str]:
    """Says so where the driver held the clock down already in the bursts."""
    found = {n: reasons_of(own, "burst") for n, own in dtypes.items()}
    held, reasons = [n for n in found if found[n]], [each for own in found.values() for each in own]
    return [voice.say("gemm.throttled", names=names(voice, held), reasons=in_words(voice, reasons))] if held else []


def reasons_of(own: Record, kind: str) -> list[str]:
    """The driver's throttle reasons under one load; none where it is silent."""
    return list(own["chip"][kind]["throttle_reasons"] or ())


def in_words(voice: Quoting, reasons: list[str]) -> str:
    """The driver's throttle reasons in words; one without a word as the driver writes it."""
    keys = {each: word_of(each) for each in reasons}
    return voice.listed([voice.say(key) if key in texts() else each for each, key in keys.items()])


def word_of(reason: str) -> str:
    """Under which key the word for a throttle reason of the driver stands."""
    return f"throttle.{''.join(filter(str.isalnum, reason)).lower()}"

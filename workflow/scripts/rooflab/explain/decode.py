"""Paragraph 2: what limits a single-token step, how fast it is, and what the textbook's share of the peak says of it."""

from rooflab.explain.compose import FILL, MUST, Sentence
from rooflab.explain.figures import Book, Ends, Quoting
from rooflab.explain.holes import missing
from rooflab.look.style import Record, named_format

LEADING = ("fp16", "bf16", "fp32")  # the format that stands for the others where one has to
ROOT = ("answers", "decode", "dtypes")
MEMORY = ("HBM", "L2", "DRAM", "cache")
Step = tuple[str, str, Record]  # dtype, S, the answer's figures


def decode_sentences(book: Book, voice: Quoting) -> list[Sentence]:
    """Verdict, time and rate, the textbook, memory's size, the graph; only what the records hold."""
    answer = book.roofline["answers"]["decode"]
    steps = [(dtype, s, each) for dtype, own in answer["dtypes"].items() for s, each in own["sequences"].items()]
    lacking = missing(book, voice, "decode")
    large = [Sentence(memory_sized(book, voice, name, answer), 1) for name in list(answer["large"])[:1]]
    if not steps:
        fills = [voice.say(f"decode.fill.{key}") for key in ("none", "what", "textbook")]
        return [
            Sentence(voice.say("decode.verdict.none"), MUST),
            *large,
            *lacking,
            *(Sentence(text, FILL) for text in fills),
        ]
    return [
        Sentence(verdict(book, voice, steps), MUST),
        Sentence(time(book, voice, steps, answer), MUST),
        Sentence(rate(book, voice, steps, answer), MUST),
        *[Sentence(text, 1) for text in slowest(book, voice, steps)],
        *[Sentence(text, 1) for text in regimes(book, voice, steps)],
        *[Sentence(text, 2) for text in textbook(book, voice, steps, answer)],
        *large,
        *[Sentence(text, 3) for text in graph(book, voice, answer["dtypes"])],
        *[Sentence(text, 4) for text in tiers(book, voice, steps)],
        *lacking,
        *[Sentence(voice.say(f"decode.fill.{key}"), FILL) for key in ("what", "launch", "textbook")],
    ]  # fmt: skip


def bound_of(step: Record) -> str | None:
    """What limits a step; "beaten" where it is faster than its roof, so that the roof cannot be what limits it."""
    return "beaten" if step["above_roof"] else step["bound_by"]


def verdict(book: Book, voice: Quoting, steps: list[Step]) -> str:
    """What limits the steps, where that is one thing; and whether they are at that roof or only nearest to it."""
    bounds = {bound_of(step) for _, _, step in steps}
    if "beaten" in bounds:
        return voice.say("decode.verdict.beaten")
    if None in bounds:
        return voice.say("decode.verdict.unjudged")
    if len(bounds) > 1:
        return voice.say("decode.verdict.several")
    bound = str(next(iter(bounds)))
    where = "at" if mostly([bool(step["at_roof"]) for _, _, step in steps]) else "below"
    if bound not in MEMORY:
        return voice.say(f"decode.verdict.{bound}.{where}")
    slope = {c["id"]: c["tier"] for c in book.roofline["ceilings"]}.get(steps[0][2]["memory_ceiling"], bound)
    kind = "memory" if slope == bound else "beside"  # a cache whose own slope was not measured
    return voice.say(f"decode.verdict.{kind}.{where}", bound=voice.say(f"bound.{bound}"), tier=slope)


def mostly(answers: list[bool]) -> bool:
    """Whether more than half of the answers are yes."""
    return 2 * sum(answers) > len(answers)


def slowest(book: Book, voice: Quoting, steps: list[Step]) -> list[str]:
    """Where most steps are at one roof and some fall short of it: how far."""
    at = [bool(step["at_roof"]) for _, _, step in steps]
    share = ends(book, steps, "fraction_of_attainable")
    alike = len({bound_of(step) for _, _, step in steps}) == 1
    return [voice.say("decode.slowest", share=share[0])] if alike and share and mostly(at) and not all(at) else []


def key(step: Step, field: str) -> tuple[str, ...]:
    """Where a field of a step stands."""
    return (*ROOT, step[0], "sequences", step[1], field)


def ends(book: Book, steps: list[Step], field: str) -> Ends | None:
    """The smallest and the largest of a field over steps."""
    return book.ends(key(step, field) for step in steps)


def lengths(book: Book, steps: list[Step]) -> Ends | None:
    """The smallest and the largest S, by the points themselves."""
    return book.ends(("points", step["id"], "sequence") for _, _, step in steps)


def names(voice: Quoting, steps: list[Step]) -> str:
    """The formats of some steps in words."""
    return voice.listed([named_format(voice, name) for name in dict.fromkeys(dtype for dtype, _, _ in steps)])


def host(steps: list[Step]) -> str:
    """Whether the figures of some steps hang on the host, so that they carry two digits."""
    return "host" if any(step["host_bound"] for _, _, step in steps) else "device"


def time(book: Book, voice: Quoting, steps: list[Step], answer: Record) -> str:
    """How long a step takes over its S, beside an empty launch as its programs found it."""
    kind = host(steps)
    over = voice.say("decode.at" if len({s for _, s, _ in steps}) == 1 else "decode.over", lengths=lengths(book, steps))
    given = {"over": over, "names": names(voice, steps), "time": ends(book, steps, "median_s")}
    floors = book.ends(("points", step["id"], "launch_floor_s") for _, _, step in steps)
    said = voice.say(f"decode.time.{kind}", **given)
    return said + (voice.say(f"decode.floor.{answer['side']}", floor=floors) if floors else "") + "."


def rate(book: Book, voice: Quoting, steps: list[Step], answer: Record) -> str:
    """What that is in FLOP/s, and as a share of the measured peak."""
    kind, share = host(steps), ends(book, steps, "fraction_of_peak")
    given = {"rate": ends(book, steps, "achieved_flop_per_s"), "intensity": ends(book, steps, "intensity")}
    if share is None:
        return voice.say(f"decode.rate.{kind}", **given)
    return voice.say(f"decode.rate.share.{kind}", share=share, peak=voice.say(f"decode.peak.{answer['side']}"),
                     peak_rate=book.need("answers", "decode", "peak_flop_per_s"), **given)  # fmt: skip


def expected(book: Book) -> Ends:
    """The textbook's range."""
    return book.need("answers", "decode", "textbook_low"), book.need("answers", "decode", "textbook_high")


def textbook(book: Book, voice: Quoting, steps: list[Step], answer: Record) -> list[str]:
    """Whether the shares lie below, inside or above the textbook's range, which speaks of a step that memory limits."""
    verdicts = {step["textbook"] for _, _, step in steps}
    if answer["side"] == "cpu":
        return [voice.say("decode.textbook.cpu", range=expected(book))]
    if None in verdicts:
        return [voice.say("decode.textbook.no_peak", range=expected(book))]
    where = next(iter(verdicts)) if len(verdicts) == 1 else "across"
    launch = all(bound_of(step) == "launch" for _, _, step in steps) and where == "below"
    return [voice.say(f"decode.textbook.{'launch' if launch else where}", range=expected(book))]


def regimes(book: Book, voice: Quoting, steps: list[Step]) -> list[str]:
    """Which steps are limited by what, where it is not one thing; and how far some beat their roof."""
    bounds = list(dict.fromkeys(bound_of(step) for _, _, step in steps))
    said = []
    if len(bounds) > 1:
        items = [voice.say("decode.regime", bound=voice.say(f"bound.{each}"), names=names(voice, own), lengths=lengths(book, own))
                 for each in bounds if each not in ("beaten", None)
                 for own in [[step for step in steps if bound_of(step[2]) == each]]]  # fmt: skip
        said += [voice.say("decode.regimes", items="; ".join(items))] if items else []
    beaten = [step for step in steps if bound_of(step[2]) == "beaten"]
    if beaten:
        said.append(voice.say("decode.beaten", names=names(voice, beaten), lengths=lengths(book, beaten),
                              fraction=ends(book, beaten, "fraction_of_attainable")))  # fmt: skip
    return said


def memory_sized(book: Book, voice: Quoting, name: str, answer: Record) -> str:
    """A cache sized by a memory tier, taken the fastest way: the step the textbook speaks of."""
    own, at = answer["large"][name], ("answers", "decode", "large", name)
    given = {"size": book.need(*at, "working_set_bytes"), "dtype": named_format(voice, own["dtype"]), "tier": own["tier"],
             "time": book.need(*at, "median_s"), "rate": book.need(*at, "achieved_bytes_per_s")}  # fmt: skip
    said = voice.say("decode.large", **given)
    if own["bound_by"] == own["tier"] and own["fraction_of_attainable"] is not None:
        said += voice.say("decode.large.slope", tier=own["tier"], fraction=book.need(*at, "fraction_of_attainable"))
    if own["fraction_of_peak"] is not None and answer["side"] == "gpu":
        said += voice.say(f"decode.large.{own['textbook']}", share=book.need(*at, "fraction_of_peak"))
    return said + "."


def graph(book: Book, voice: Quoting, dtypes: Record) -> list[str]:
    """The longest step replayed in a CUDA graph, beside the same step from Python."""
    dtype = next((name for name in LEADING if name in dtypes), next(iter(dtypes)))
    length, lab = list(dtypes[dtype]["sequences"].items())[-1]
    rungs = [
        r
        for r in dtypes[dtype]["ladder"]
        if (r["launch"], r["timing"], r["cache"]) == ("graph", "graph", "warm")
        and r["implementation"] == lab["implementation"]
    ]
    if not rungs or lab["launch"] != "python" or bound_of(lab) != "launch":
        return []
    return [voice.say("decode.graph", length=book.need("points", lab["id"], "sequence"), dtype=named_format(voice, dtype),
                      graph=book.need("points", rungs[0]["id"], "median_s"),
                      python=book.need(*ROOT, dtype, "sequences", length, "median_s"))]  # fmt: skip


def tiers(book: Book, voice: Quoting, steps: list[Step]) -> list[str]:
    """Which memory serves K and V, and how large they are."""
    if len({step["tier"] for _, _, step in steps}) > 1 or steps[0][2]["tier"] is None:
        return []
    return [
        voice.say(
            "decode.tier", tier=voice.say(f"bound.{steps[0][2]['tier']}"), size=ends(book, steps, "working_set_bytes")
        )
    ]

"""Paragraph 3: the GPU over the CPU on the same operator, beside the ratio of their memory bandwidths, and why."""

from collections.abc import Mapping

from rooflab.explain.compose import FILL, MUST, Sentence
from rooflab.explain.figures import Book, Figure, Quoting
from rooflab.look.style import Record, ceiling_name

MEMORY = {"HBM", "DRAM"}
ROOT = ("answers", "cpu", "sequences")
# what the derivation may find, the one that says most first
CAUSES = (
    "gpu_launch_bound",
    "gpu_reads_from_l2",
    "gpu_below_its_roof",
    "cpu_below_its_roof",
    "cpu_launch_bound",
    "cpu_reads_from_cache",
)


def cpu_sentences(book: Book, voice: Quoting) -> list[Sentence]:
    """The ratio, both rates, the memories' ratio and what the records say of the difference; without a pair, why."""
    answer = book.roofline["answers"]["cpu"]
    if not answer["sequences"]:
        return alone(book, voice, answer)
    said = [Sentence(verdict(book, voice, answer), MUST), Sentence(rates(book, voice, answer), MUST)]
    if answer["agreement"] is None:
        said.append(Sentence(voice.say("cpu.no_bandwidth"), 1))
    else:
        said += [
            Sentence(memories(book, voice, answer), MUST),
            *[Sentence(text, 2) for text in why(book, voice, answer)],
        ]
    return [*said, *[Sentence(text, 3) for text in own_roof(book, voice, answer)],
            *[Sentence(voice.say(f"cpu.fill.{key}"), FILL) for key in ("digits", "operator", "memory")]]  # fmt: skip


def alone(book: Book, voice: Quoting, answer: Record) -> list[Sentence]:
    """That there is no pair, why, and the slopes that this session did measure."""
    reason = answer["reason"]
    code = reason["code"] if isinstance(reason, Mapping) and book.roofline["points"] else "other"
    own = [c for c in book.roofline["ceilings"] if (c["kind"], c["side"]) == ("memory", book.roofline["main_side"])]
    items = [
        voice.say("cpu.slope", label=ceiling_name(voice, c), rate=book.need("ceilings", c["id"], "burst")) for c in own
    ]
    said = [Sentence(voice.say("cpu.verdict.none"), MUST), Sentence(voice.say(f"cpu.none.{code}"), MUST)]
    said += [Sentence(voice.say("cpu.slopes", items=voice.listed(items)), 1)] if items else []
    textbook = book.need("answers", "cpu", "textbook_ratio")
    fills = [voice.say("cpu.fill.pair"), voice.say("cpu.fill.expected", textbook=textbook)]
    return said + [
        Sentence(text, FILL) for text in (*fills, voice.say("cpu.fill.operator"), voice.say("cpu.fill.memory"))
    ]


def pair(book: Book, length: str, field: str) -> Figure:
    """A figure of the two steps at one S."""
    return book.need(*ROOT, length, field)


def verdict(book: Book, voice: Quoting, answer: Record) -> str:
    """Which side is faster, by how much, at the ends of S."""
    lengths = list(answer["sequences"])
    first, last = lengths[0], lengths[-1]
    given = {"last": pair(book, last, "ratio"), "longest": sequence(book, answer, last), "first": pair(book, first, "ratio"),
             "shortest": sequence(book, answer, first)}  # fmt: skip
    faster = [answer["sequences"][s]["ratio"] >= 1 for s in lengths]
    if len(lengths) == 1:
        return voice.say("cpu.verdict.one", **given)
    key = (
        "all"
        if all(faster)
        else "none_faster"
        if not any(faster)
        else "crossed"
        if faster[-1] and not faster[0]
        else "mixed"
    )
    return voice.say(f"cpu.verdict.{key}", **given)


def sequence(book: Book, answer: Record, length: str) -> Figure:
    """The S of a pair as a figure of its GPU point."""
    return book.need("points", answer["sequences"][length]["gpu"], "sequence")


def rates(book: Book, voice: Quoting, answer: Record) -> str:
    """What both achieve at the longest S."""
    longest = list(answer["sequences"])[-1]
    cores = book.at("devices", "cpu", "cores_physical")
    given = {"dtype": answer["dtype"], "gpu": pair(book, longest, "gpu_achieved_flop_per_s"),
             "cpu": pair(book, longest, "cpu_achieved_flop_per_s"), "longest": sequence(book, answer, longest)}  # fmt: skip
    return voice.say("cpu.rates.cores", cores=cores, **given) if cores else voice.say("cpu.rates", **given)


def memories(book: Book, voice: Quoting, answer: Record) -> str:
    """The ratio of the read bandwidths beside the operator's, and of copy over triad as the lab takes it."""
    slopes = {c["side"]: c["id"] for c in book.roofline["ceilings"] if c["pattern"] == "read" and c["kind"] == "memory"}
    relation = answer["agreement"].removeprefix("far ")
    given = {side: book.need("ceilings", slopes[side], "burst") for side in ("gpu", "cpu")}
    said = voice.say(f"cpu.memories.{relation}", ratio=book.need("answers", "cpu", "bandwidth_ratio_read"), **given)
    copy = book.at("answers", "cpu", "bandwidth_ratio_copy")
    textbook = book.need("answers", "cpu", "textbook_ratio")
    return said + (voice.say("cpu.memories.copy", copy=copy, textbook=textbook) if copy else "") + "."


def why(book: Book, voice: Quoting, answer: Record) -> list[str]:
    """The cause of the difference, as far as the derivation finds it in the numbers of the two points at the longest S."""
    longest = answer["sequences"][list(answer["sequences"])[-1]]
    if answer["agreement"] == "near":
        both = longest["gpu_at_roof"] and longest["cpu_at_roof"]
        slopes = both and {longest["gpu_bound_by"], longest["cpu_bound_by"]} == MEMORY
        return [voice.say("cpu.why.slopes" if slopes else "cpu.why.chance")]
    found = [code for code in CAUSES if code in answer["likely_reasons"]]
    return [voice.say(f"cpu.why.{found[0]}" if found else "cpu.why.none")]


def own_roof(book: Book, voice: Quoting, answer: Record) -> list[str]:
    """How much of its own memory slope the CPU's step moves: a slow reference flatters the GPU."""
    longest = list(answer["sequences"])[-1]
    share = book.at(*ROOT, longest, "cpu_fraction_of_main_memory")
    if share is None or share.value > 1:
        return []
    return [voice.say(f"cpu.own.{'at' if answer['sequences'][longest]['cpu_at_roof'] else 'below'}", share=share)]

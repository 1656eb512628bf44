"""Paragraph 3: the GPU over the CPU on the same operator, beside the ratio of their memory bandwidths, and why."""

from typing import Any

from rooflab.explain.decode import slope_name
from rooflab.look.catalogue import listed, text, translated

Record = dict[str, Any]

MEMORY = {"HBM", "DRAM"}


def cpu_sentences(roofline: Record, language: str) -> list[str]:
    """The two ratios and what the record says of their difference; without a pair, why there is none."""
    answer = roofline["answers"]["cpu"]
    if not answer["available"]:
        reason = translated(answer["reason"], language)
        return [text("cpu.none", language, reason=reason), *slopes(roofline, language)]
    said = [ratio(answer, language), *faster_cpu(answer, language)]
    if answer["agreement"] is None:
        return [*said, text("cpu.no_bandwidth", language)]
    return [*said, bandwidth(answer, language), agreement(answer, language), text("cpu.pcie", language)]


def ratio(answer: Record, language: str) -> str:
    """GPU over CPU in achieved FLOP/s, over all S and at the longest."""
    pairs = list(answer["sequences"].items())
    longest, last = pairs[-1]
    return text(
        "cpu.ratio.one" if len(pairs) == 1 else "cpu.ratio",
        language,
        dtype=answer["dtype"],
        ratio=(answer["ratio_low"], answer["ratio_high"]),
        lengths=listed([s for s, _ in pairs], language),
        longest=longest,
        last=last["ratio"],
        gpu=last["gpu_achieved_flop_per_s"],
        cpu=last["cpu_achieved_flop_per_s"],
    )


def faster_cpu(answer: Record, language: str) -> list[str]:
    """Where the CPU wins, and whether the GPU's launch is the reason."""
    won = {s: pair for s, pair in answer["sequences"].items() if pair["ratio"] < 1}
    if not won:
        return []
    items = [text("cpu.faster_item", language, cpu=p["cpu_median_s"], gpu=p["gpu_median_s"]) for p in won.values()]
    launch, floor = all(pair["gpu_bound_by"] == "launch" for pair in won.values()), answer["launch_floor_s"]
    why = text("cpu.faster.launch", language, floor=floor) if launch and floor is not None else ""
    return [text("cpu.faster", language, lengths=listed(list(won), language), items=listed(items, language), why=why)]


def bandwidth(answer: Record, language: str) -> str:
    """The ratio of the read bandwidths, and of copy over triad as the lab takes it."""
    copy = answer["bandwidth_ratio_copy"]
    aside = "" if copy is None else text("cpu.bandwidth.copy", language, copy=copy, textbook=answer["textbook_ratio"])
    return text("cpu.bandwidth", language, read=answer["bandwidth_ratio_read"], copy=aside)


def agreement(answer: Record, language: str) -> str:
    """How the operator's ratio stands to the bandwidths', with the causes that the two points' tags support."""
    longest = list(answer["sequences"])[-1]
    return text(
        f"cpu.agreement.{answer['agreement']}",
        language,
        longest=longest,
        relative=answer["ratio_over_bandwidth_ratio"],
        why=_near(answer["sequences"][longest], language) if answer["agreement"] == "near" else _why(answer, language),
    )


def _near(pair: Record, language: str) -> str:
    """Near because both sides ride their slopes, or near by chance."""
    gpu, cpu = pair["gpu_bound_by"], pair["cpu_bound_by"]
    if None in (gpu, cpu):
        return text("cpu.why.none", language)
    key = "cpu.why.slopes" if {gpu, cpu} == MEMORY else "cpu.why.chance"
    return text(key, language, gpu=text(f"bound.{gpu}", language), cpu=text(f"bound.{cpu}", language))


def _why(answer: Record, language: str) -> str:
    reasons = [
        text(f"cpu.why.{code}", language, **({"floor": answer["launch_floor_s"]} if code == "gpu_launch_bound" else {}))
        for code in answer["likely_reasons"]
    ]
    return "; ".join(reasons) if reasons else text("cpu.why.none", language)


def slopes(roofline: Record, language: str) -> list[str]:
    """The memory slopes that this session did measure."""
    own = [c for c in roofline["ceilings"] if (c["kind"], c["side"]) == ("memory", roofline["main_side"])]
    items = [text("cpu.slope", language, label=slope_name(c, language), rate=c["burst"]) for c in own]
    return [text("cpu.slopes", language, items="; ".join(items))] if items else []

"""Paragraph 3: the GPU over the CPU on the same operator, beside the ratio of their memory bandwidths, and why."""

from typing import Any

from rooflab.explain.decode import slope_name
from rooflab.look.voice import Voice

Record = dict[str, Any]

MEMORY = {"HBM", "DRAM"}


def cpu_sentences(roofline: Record, voice: Voice) -> list[str]:
    """The two ratios and what the record says of their difference; without a pair, why there is none."""
    answer = roofline["answers"]["cpu"]
    if not answer["available"]:
        reason = voice.reason(answer["reason"])
        return [voice.say("cpu.none", reason=reason), *slopes(roofline, voice)]
    said = [ratio(answer, voice), *faster_cpu(answer, voice)]
    if answer["agreement"] is None:
        return [*said, voice.say("cpu.no_bandwidth")]
    return [*said, bandwidth(answer, voice), agreement(answer, voice), voice.say("cpu.pcie")]


def ratio(answer: Record, voice: Voice) -> str:
    """GPU over CPU in achieved FLOP/s, over all S and at the longest."""
    pairs = list(answer["sequences"].items())
    longest, last = pairs[-1]
    return voice.say(
        "cpu.ratio.one" if len(pairs) == 1 else "cpu.ratio",
        dtype=answer["dtype"],
        ratio=(answer["ratio_low"], answer["ratio_high"]),
        lengths=voice.listed([s for s, _ in pairs]),
        longest=longest,
        last=last["ratio"],
        gpu=last["gpu_achieved_flop_per_s"],
        cpu=last["cpu_achieved_flop_per_s"],
    )


def faster_cpu(answer: Record, voice: Voice) -> list[str]:
    """Where the CPU wins, and whether the GPU's launch is the reason."""
    won = {s: pair for s, pair in answer["sequences"].items() if pair["ratio"] < 1}
    if not won:
        return []
    items = [voice.say("cpu.faster_item", cpu=p["cpu_median_s"], gpu=p["gpu_median_s"]) for p in won.values()]
    launch, floor = all(pair["gpu_bound_by"] == "launch" for pair in won.values()), answer["launch_floor_s"]
    why = voice.say("cpu.faster.launch", floor=floor) if launch and floor is not None else ""
    return [voice.say("cpu.faster", lengths=voice.listed(list(won)), items=voice.listed(items), why=why)]


def bandwidth(answer: Record, voice: Voice) -> str:
    """The ratio of the read bandwidths, and of copy over triad as the lab takes it."""
    copy = answer["bandwidth_ratio_copy"]
    aside = "" if copy is None else voice.say("cpu.bandwidth.copy", copy=copy, textbook=answer["textbook_ratio"])
    return voice.say("cpu.bandwidth", read=answer["bandwidth_ratio_read"], copy=aside)


def agreement(answer: Record, voice: Voice) -> str:
    """How the operator's ratio stands to the bandwidths', with the causes that the two points' tags support."""
    longest = list(answer["sequences"])[-1]
    return voice.say(
        f"cpu.agreement.{answer['agreement']}",
        longest=longest,
        relative=answer["ratio_over_bandwidth_ratio"],
        why=_near(answer["sequences"][longest], voice) if answer["agreement"] == "near" else _why(answer, voice),
    )


def _near(pair: Record, voice: Voice) -> str:
    """Near because both sides ride their slopes, or near by chance."""
    gpu, cpu = pair["gpu_bound_by"], pair["cpu_bound_by"]
    if None in (gpu, cpu):
        return voice.say("cpu.why.none")
    key = "cpu.why.slopes" if {gpu, cpu} == MEMORY else "cpu.why.chance"
    return voice.say(key, gpu=voice.say(f"bound.{gpu}"), cpu=voice.say(f"bound.{cpu}"))


def _why(answer: Record, voice: Voice) -> str:
    reasons = [
        voice.say(f"cpu.why.{code}", **({"floor": answer["launch_floor_s"]} if code == "gpu_launch_bound" else {}))
        for code in answer["likely_reasons"]
    ]
    return "; ".join(reasons) if reasons else voice.say("cpu.why.none")


def slopes(roofline: Record, voice: Voice) -> list[str]:
    """The memory slopes that this session did measure."""
    own = [c for c in roofline["ceilings"] if (c["kind"], c["side"]) == ("memory", roofline["main_side"])]
    items = [voice.say("cpu.slope", label=slope_name(c, voice), rate=c["burst"]) for c in own]
    return [voice.say("cpu.slopes", items="; ".join(items))] if items else []

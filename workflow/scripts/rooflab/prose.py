"""The sentences of the interpretation: each holds a figure, and a cause only where the record names one."""

from typing import Any

from rooflab import words

Record = dict[str, Any]

NEAR = (0.8, 0.9)  # the lab's question: within 20 % or 10 % of the ceiling
REASONS = {
    "gpu_launch_bound": "the GPU's step is bound by its launch, not by memory",
    "gpu_reads_from_l2": "the GPU reads the cache from L2, not from HBM",
    "cpu_reads_from_cache": "the CPU reads from its own cache, not from DRAM",
    "cpu_launch_bound": "the CPU's step is bound by the cost of its calls",
}


def gemm_paragraph(roofline: Record) -> str:
    """Paragraph 1: the matrix products against their own ceilings and the vendor's peak."""
    answer = roofline["answers"]["gemm"]
    dtypes = answer.get("dtypes", {})
    library = "cuBLAS" if roofline["main_side"] == "gpu" else "BLAS"
    if not dtypes:
        return f"No {library} product was measured (0 points)." + shortfalls(roofline, "gemm")
    sentences = [gemm_sentence(name, own) for name, own in dtypes.items()]
    shares = {name: own["fraction_of_ceiling"] for name, own in dtypes.items()}
    known = {name: share for name, share in shares.items() if share is not None}
    if known:
        sentences.append(gemm_verdict(known, dtypes, library))
    return " ".join(sentences) + shortfalls(roofline, "gemm")


def gemm_sentence(name: str, own: Record) -> str:
    """One dtype: rate, fraction of its ceiling, and of the vendor's peak in burst and sustained."""
    text = f"{name.replace('_', ' ')} at n = {own['n']} achieves {words.flop_per_s(own['achieved_flop_per_s'])}, "
    if own["fraction_of_ceiling"] is None:
        return text + "with no measured ceiling to compare it with."
    text += f"{words.percent(own['fraction_of_ceiling'])} of its measured ceiling of "
    text += words.flop_per_s(own["ceiling_flop_per_s"])
    if own["burst_fraction_of_vendor"] is None:
        return text + "; the record holds no vendor peak for it."
    text += f"; in bursts it reaches {words.percent(own['burst_fraction_of_vendor'])} of the vendor's dense peak"
    if own["sustained_fraction_of_vendor"] is not None:
        text += f", under sustained load {words.percent(own['sustained_fraction_of_vendor'])}"
    return text + (", with the power cap active." if own["power_capped"] else ".")


def gemm_verdict(known: dict[str, float], dtypes: Record, library: str) -> str:
    """What the distances say: on the ceiling is compute-bound, below it something else took the time."""
    low = min(known, key=lambda name: known[name])
    near = next((f"within {words.percent(1 - limit)}" for limit in NEAR[::-1] if known[low] >= limit), None)
    bounds = words.listed(sorted({dtypes[name]["bound_by"] for name in known}))
    if near:
        return (f"So every {library} point lies {near} of its ceiling, the lowest at {words.percent(known[low])} "
                f"({low}); that agrees with the diagnosis of the roofline at their intensity: bound by {bounds}.")  # fmt: skip
    far = [f"{name} ({words.percent(share)})" for name, share in known.items() if share < NEAR[0]]
    return (f"So {words.listed(far)} lie{'s' if len(far) == 1 else ''} more than 20 % below the ceiling: the roofline "
            f"calls the points bound by {bounds}, but these do not reach that bound.")  # fmt: skip


def decode_paragraph(roofline: Record) -> str:
    """Paragraph 2: decode attention, what bounds it, and its share of the peak against the textbook's."""
    answer = roofline["answers"]["decode"]
    dtypes = answer.get("dtypes", {})
    if not dtypes:
        return "No decode attention was measured (0 points)." + shortfalls(roofline, "decode")
    peak = "fp16 Tensor Core" if answer["side"] == "gpu" else "CPU fp32"
    sentences = [decode_sentence(name, list(own["sequences"].items()), peak) for name, own in dtypes.items()]
    sentences.append(textbook_sentence(answer, peak))
    steps = [step for own in dtypes.values() for step in own["sequences"].values()]
    if answer["launch_floor_s"] is not None and any(step["bound_by"] == "launch" for step in steps):
        sentences.append(f"An empty launch between two synchronisations already takes "
                         f"{words.seconds(answer['launch_floor_s'])}: where the bound is the launch, neither memory slope "
                         "sets the latency.")  # fmt: skip
    sentences += [unsteady(name, own["sequences"]) for name, own in dtypes.items()
                  if not own["latency_rises_with_sequence"] and len(own["sequences"]) > 1]  # fmt: skip
    return " ".join(sentences) + shortfalls(roofline, "decode")


def decode_sentence(name: str, steps: list[tuple[str, Record]], peak: str) -> str:
    """One dtype: latencies, bound, tier and share of the peak from the shortest to the longest cache."""
    (short, first), (long, last) = steps[0], steps[-1]
    text = f"Decode attention in {name} at {words.intensity(first['intensity'])} takes "
    text += words.span(words.seconds(first["median_s"]), words.seconds(last["median_s"]))
    text += f" a step for S = {short}" + (f" to {long}" if short != long else "")
    slow, fast = (words.flop_per_s(step["achieved_flop_per_s"]) for step in (first, last))
    text += f" and achieves {words.span(slow, fast)}"
    if first["fraction_of_peak"] is not None and last["fraction_of_peak"] is not None:
        text += f", {words.span(words.percent(first['fraction_of_peak']), words.percent(last['fraction_of_peak']))}"
        text += f" of the measured {peak} peak"
    bounds = words.listed([f"{b} (S = {', '.join(s for s, step in steps if step['bound_by'] == b)})"
                           for b in dict.fromkeys(step["bound_by"] for _, step in steps)])  # fmt: skip
    tiers = words.listed(list(dict.fromkeys(str(step["tier"] or "an unknown tier") for _, step in steps)))
    return f"{text}; its K and V lie in {tiers}, and it is bound by {bounds}."


def textbook_sentence(answer: Record, peak: str) -> str:
    """Whether the shares lie below, inside or above the textbook's range."""
    verdicts = [step["textbook"] for own in answer["dtypes"].values() for step in own["sequences"].values()]
    low, high = words.percent(answer["textbook_low"]), words.percent(answer["textbook_high"])
    if answer["side"] == "cpu":
        return f"The textbook's {words.span(low, high)} speaks of a GPU's fp16 Tensor Core peak, which a CPU does not have."
    counts = [
        f"{verdicts.count(verdict)} lie {verdict}" for verdict in ("below", "inside", "above") if verdict in verdicts
    ]
    if not counts:
        return f"The textbook's {words.span(low, high)} cannot be judged: the {peak} peak was not measured."
    some, every = "inside" in verdicts, set(verdicts) == {"inside"}
    agree = "agree with" if every else "partly agree with" if some else "contradict"
    return (
        f"Of {len(verdicts)} points {words.listed(counts)} the textbook's {words.span(low, high)}: the data {agree} it."
    )


def unsteady(name: str, sequences: Record) -> str:
    """Says that a longer cache did not always take longer."""
    steps = ", ".join(f"S = {s}: {words.seconds(step['median_s'])}" for s, step in sequences.items())
    return f"In {name} the latency does not rise at every step of S ({steps})."


def cpu_paragraph(roofline: Record) -> str:
    """Paragraph 3: the GPU over the CPU on the same operator, beside the ratio of their memory bandwidths."""
    answer = roofline["answers"]["cpu"]
    if not answer.get("available"):
        count = len(answer.get("gpu_sessions", []))
        reason = answer.get("reason") or "nothing was measured on both sides"
        sentence = f"There is no ratio of GPU to CPU here ({count} GPU sessions to compare with): {reason}."
        return sentence + cpu_slopes(roofline) + shortfalls(roofline, None)
    pairs = list(answer["sequences"].items())
    ratios = words.span(f"{words.significant(answer['ratio_low'])} ×", f"{words.significant(answer['ratio_high'])} ×")
    text = f"On the same {answer['dtype']} decode attention the GPU achieves {ratios.replace(' ', '')} the CPU's rate "
    text += f"(S = {pairs[0][0]} to {pairs[-1][0]}; at S = {pairs[-1][0]} "
    text += f"{words.flop_per_s(pairs[-1][1]['gpu_achieved_flop_per_s'])} against "
    text += f"{words.flop_per_s(pairs[-1][1]['cpu_achieved_flop_per_s'])})."
    return text + bandwidth_sentence(answer, pairs[-1][0]) + shortfalls(roofline, None)


def bandwidth_sentence(answer: Record, longest: str) -> str:
    """The ratio of the bandwidths, which of the two is larger, and the causes that the record supports."""
    if answer["bandwidth_ratio_read"] is None:
        return " The read bandwidth was not measured on both sides (0 ratios), so the two ratios cannot be compared."
    text = f" Their read bandwidths stand at {words.times(answer['bandwidth_ratio_read'])}"
    if answer["bandwidth_ratio_copy"] is not None:
        text += f" (copy over triad {words.times(answer['bandwidth_ratio_copy'])})"
    larger = "larger" if answer["larger"] == "operator" else "smaller"
    text += f"; at S = {longest} the operator's ratio is the {larger} one"
    reasons = [REASONS[code] for code in answer["likely_reasons"] if code in REASONS]
    if not reasons:
        return text + ", and the record names no cause."
    text += f", and at that S the record shows that {words.listed(reasons)}"
    if "gpu_launch_bound" in answer["likely_reasons"] and answer["launch_floor_s"] is not None:
        text += f" (launch floor {words.seconds(answer['launch_floor_s'])})"
    return text + "."


def cpu_slopes(roofline: Record) -> str:
    """The memory slopes that this session did measure."""
    slopes = [f"{c['label']} {words.bytes_per_s(c['burst'])}" for c in roofline["ceilings"]
              if c["kind"] == "memory" and c["side"] == roofline["main_side"]]  # fmt: skip
    return f" The memory slopes of this session are {words.listed(slopes)}." if slopes else ""


def shortfalls(roofline: Record, stage: str | None) -> str:
    """The holes of one stage; for the last paragraph (None) those of the other stages, and the failed checks."""
    rest = stage is None
    holes = [h for h in roofline["holes"] if h["stage"] == stage or (rest and h["stage"] not in ("gemm", "decode"))]
    said = [f"{h['side']} {h['stage']} {h['name']} ({h['status']}: {h['reason'] or 'no record'})" for h in holes]
    text = f" Not measured ({len(said)}): {'; '.join(said)}." if said else ""
    failed = [c for c in roofline["checks"] if c["status"] == "fail"] if stage is None else []
    for check in failed:
        text += f" Failed: {check['title']} (value {check['value']}, limit {check['limit']}"
        text += f"; {check['reason']})." if check["reason"] else ")."
    return text

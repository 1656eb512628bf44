"""What a measurement will take: its protocol's own plan with theory for the calls in it, scaled by what the most similar
records of the session took. Arithmetic on specs and seconds: measures nothing.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from rooflab.cost.rates import Machine, Rates, machine
from rooflab.plan.points import Point, Spec
from rooflab.record import ledger
from rooflab.theory import protocol, work
from rooflab.theory.parts import Match, match

# From the end of one job to the first second of the next one's measuring: Snakemake's turn, a fresh Python with NumPy,
# and on a GPU CuPy, the context and the library handles. Medians of sessions on an NVIDIA H200 and its host.
START_UP_S = {"gpu": 1.4, "cpu": 0.3}
# Snakemake's own start and plan, to the first job. The same session.
PLANNING_S = 4.0

# What a stage does beside its timed calls (operands, compiling, checking against float64). The same session.
SET_UP_S = {
    "gpu": {"bandwidth": 1.2, "gemm": 0.5, "fma": 0.5, "decode": 1.5, "attention": 0.5, "launch_floor": 0.5},
    "cpu": {"bandwidth": 0.5, "gemm": 0.2, "decode": 0.3},
}
PIECE_S = 0.3  # the same of one product or kernel of a model's step
STEP_PIECES = 8  # products and kernels that a step has, those of one shape counted once
KERNELS_OF_ATTENTION = 3  # launch configurations tried for each that the config asks for: two more on Tensor Cores
CONFIGURATION_S = 0.2  # compiling one launch configuration of the decode kernel and checking it
ANOTHER_ALGORITHM = 0.3  # how often the search finds a faster algorithm, which then gets a burst of its own
# One step of decode in every way it is launched: on a GPU the chain of kernels and the fused one, synchronised each and
# back to back, cache warm and cold; on a CPU NumPy's calls.
STEP_S = {"gpu": 700e-6, "cpu": 60e-6}
STEP_READS = 10  # how often such a step reads its cache


def work_s(spec: Spec, machine: Machine, bursts: float | None = None) -> float:
    """Seconds of one measurement by its protocol and theory, without its program's start-up; 0 for what cannot be done.

    `bursts` is how many a GEMM took, where a record tells it. Raises KeyError for parameters of another version.
    """
    side, stage = spec["side"], spec["stage"]
    device = machine.gpu if side == "gpu" else machine.cpu
    if device.lacks(spec.get("dtype", "")):
        return 0.0
    if stage == "gemm":
        timed = _gemm_s(spec, device, bursts or 1 + (ANOTHER_ALGORITHM if spec.get("algorithms") else 0))
    else:
        timed = TIMED.get(stage, _serving_s)(spec, device)
    return SET_UP_S[side].get(stage, 0.0) + timed


def _gemm_s(spec: Spec, device: Rates, bursts: float) -> float:
    call_s = work.square_product(spec["n"]) / device.flop(spec["dtype"])
    tried_s = protocol.GEMM_SEARCH_GAP_S + _tried_s(call_s)
    search_s = (1 + spec["algorithms"]) * tried_s if spec.get("algorithms") else 0.0
    # beside the lab's: warm-ups and block estimates of burst and sustained, and the load under which states are read
    calls = 2 * spec["warmups"] + spec["iterations"] + 7 + (30 if spec["side"] == "gpu" else 3)
    return calls * call_s + bursts * _burst_s(spec, call_s) + search_s + spec["sustained_s"]


def _burst_s(spec: Spec, call_s: float) -> float:
    return float(spec["burst_blocks"] * (max(spec["burst_block_s"], call_s) + spec["burst_gap_s"]))


def _tried_s(call_s: float) -> float:
    """A candidate's quick timing: a call to wake up, three to size the block, three blocks."""
    return (4 + 3 * math.ceil(protocol.SEARCH_BLOCK_S / call_s)) * call_s


def _fma_s(spec: Spec, device: Rates) -> float:
    return _burst_s(spec, spec["launch_s"]) + float(spec["sustained_s"])


def _decode_s(spec: Spec, device: Rates) -> float:
    geometry = spec["geometry"]
    cached = 8 * geometry["kv_heads"] * geometry["head_dim"] * spec["sequence"] * spec.get("batch", 1)
    read_s = spec.get("kv_bytes", cached) / device.bytes_per_s
    nodes, configurations = spec.get("graph_nodes", 0), spec.get("configurations", 8 if spec["side"] == "gpu" else 0)
    from_python_s = (spec["iterations"] + spec["warmups"]) * (STEP_S[spec["side"]] + STEP_READS * read_s)
    graphs_s = nodes * read_s * (2 * spec.get("graph_samples", 0) + 4 * configurations)
    return configurations * CONFIGURATION_S + from_python_s + graphs_s


def _bandwidth_s(spec: Spec, device: Rates) -> float:
    sizes = len(spec.get("sizes_bytes", [0]))
    call_s = protocol.L2_LAUNCH_S if "sizes_bytes" in spec else 3 * (spec["buffer_bytes"] or 2**28) / device.bytes_per_s
    if spec["side"] == "cpu":  # filled and checked in about the time of ten calls
        return float((spec["samples"] + spec["warmups"] + 10) * call_s)
    tried = len(protocol.MEMORY_LAUNCHES[spec["pattern"]]) or 1  # cudaMemcpyAsync has none to choose
    search_s = tried * (protocol.BANDWIDTH_SEARCH_GAP_S + _tried_s(call_s))
    return sizes * (search_s + spec["samples"] * (protocol.BANDWIDTH_BLOCK_S + spec.get("gap_s", 0.0)))


def _floor_s(spec: Spec, device: Rates) -> float:
    return float(spec["iterations"] + spec["warmups"]) * 20e-6


def _nothing_s(spec: Spec, device: Rates) -> float:
    return 0.0


def _serving_s(spec: Spec, device: Rates) -> float:
    """A further model's attention, or the products of its step, in graphs that read their operands anew."""
    geometry, batches = spec.get("geometry", {}), spec.get("batches", [1])
    weights = 2 * (spec.get("n") or geometry.get("width", 4096)) * (spec.get("k") or geometry.get("width", 4096))
    cached = 4 * geometry.get("kv_heads", 8) * geometry.get("head_dim", 128) * spec.get("sequence", 0)
    read_s = max(weights, cached * spec.get("batch", 1)) / device.bytes_per_s
    pieces = STEP_PIECES if spec["stage"] == "step" else len(batches)
    tried = spec["configurations"] * (KERNELS_OF_ATTENTION if spec["stage"] == "attention" else 1)
    replays = 4 * tried + spec["graph_samples"] + spec["warmups"]
    return pieces * (PIECE_S + replays * spec["graph_nodes"] * read_s)


TIMED = {
    "device": _nothing_s,
    "launch_floor": _floor_s,
    "bandwidth": _bandwidth_s,
    "fma": _fma_s,
    "decode": _decode_s,
}


KEYS = {"stage", "side", "name", "spec", "status", "reason", "seconds", "series"}


@dataclass
class Past:
    """What a session already knows: the records that lie there, as they are, and its ledger's runs and jobs."""

    machine: Machine
    records: list[dict[str, Any]]
    runs: list[ledger.Stay]
    jobs: list[ledger.Stay]

    @cached_property
    def ratios(self) -> dict[tuple[str, str], list[tuple[Spec, float]]]:
        """Per stage and side: the spec of each measured record, and its seconds over what its plan said."""
        found: dict[tuple[str, str], list[tuple[Spec, float]]] = {}
        for record in (each for each in self.records if each["status"] == "measured"):
            bursts = sum("burst" in series["name"] for series in record["series"])
            try:
                by_plan = work_s(record["spec"], self.machine, bursts)
            except KeyError:  # another version's parameters
                continue
            if by_plan > 0:
                same_stage = found.setdefault((record["stage"], record["side"]), [])
                same_stage.append((record["spec"], record["seconds"] / by_plan))
        return found

    @cached_property
    def start_up_s(self) -> dict[str, float]:
        """Per side: the median from one job's end to the next one's first measured second, else the shipped figure."""
        return {side: _median(list(_gaps(side, self.jobs)), shipped) for side, shipped in START_UP_S.items()}

    @cached_property
    def around_s(self) -> float:
        """Seconds of a run before its first job: Snakemake's start and plan. What follows the last one is not counted as paid."""
        firsts = (
            (run, min((job.begin for job in self.jobs if run.begin <= job.begin <= run.last), default=None))
            for run in self.runs
        )
        return _median(
            [first - run.begin for run, first in firsts if run.name and first is not None], PLANNING_S, least=1
        )


def past(session_dir: Path, device: str) -> Past:
    """Reads a session of a device, named as its session would be. A record that cannot be read says nothing here; judging it
    is not this room's."""
    found = (_json(path) for side in ("gpu", "cpu") for path in sorted((session_dir / side).rglob("*.json")))
    records = [each for each in found if isinstance(each, dict) and each.keys() >= KEYS]
    stays = ledger.stays(ledger.read(session_dir / "ledger.jsonl"))
    return Past(machine(device, _card(records)), records, *stays)


def _card(records: list[dict[str, Any]]) -> Match | None:
    """The vendor's part that the session's own device record speaks of; None without one."""
    for each in records:
        if (each["stage"], each["side"], each["status"]) == ("device", "gpu", "measured"):
            known = each.get("device") or {}
            sizes = {key: known.get(key) for key in ("sm_count", "memory_bytes", "compute_capability", "mig")}
            return match(str(known.get("name")), **sizes)
    return None


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _median(values: list[float], shipped: float, least: int = 3) -> float:
    return median(values) if len(values) >= least else shipped


def seconds_of(planned: Point, known: Past) -> float:
    """Seconds from the end of the job before to the end of this one."""
    return known.start_up_s[planned.side] + work_s(planned.spec, known.machine) * _ratio(planned, known)


def _ratio(planned: Point, known: Past) -> float:
    """What the most similar measured records took, over what their plan said: their median. The plan counts as two of them,
    so that one record alone, which may have compiled what the others only load, decides nothing."""
    alike: dict[int, list[float]] = {}
    for spec, ratio in known.ratios.get((planned.stage, planned.side), []):
        agreeing = sum(planned.spec.get(key) == value for key, value in spec.items())
        alike.setdefault(agreeing, []).append(ratio)
    return median([1.0, 1.0, *alike[max(alike)]]) if alike else 1.0


def _gaps(side: str, jobs: list[ledger.Stay]) -> Iterator[float]:
    for before, job in zip(jobs, jobs[1:], strict=False):
        if before.ended and job.stage.startswith(f"{side}/") and 0 <= job.working - before.last < ledger.APART_S:
            yield job.working - before.last

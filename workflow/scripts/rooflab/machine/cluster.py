"""The nodes of a Slurm cluster: which one a session is measured on, what its jobs ask for, and what a dead run left queued.

A session is pinned to the node that the config names, and each of its jobs takes that node whole: Slurm itself then runs
them one at a time, on one card, with nobody beside them. Only the process the user started asks Slurm; the jobs are handed
the answer in their environment.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rooflab.record import handover
from rooflab.record.identity import WrongMachine

ANSWER_S = 60.0  # how long Slurm may take for an answer
POLL_S = 3.0
SUBMITTED = Path(".snakemake/slurm_logs")  # there once a run of this folder has submitted a job

Places = dict[str, tuple[str, int]]


class ClusterError(Exception):
    """Slurm does not answer, or does not have what the config names: what was seen and what to do."""


def _ask(*command: str) -> str:
    """What a Slurm command prints. Raises ClusterError where it cannot answer."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except FileNotFoundError as error:
        raise ClusterError(
            f"{command[0]} is not here: run this on a host of the cluster that can submit jobs"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"{command[0]} has not answered in {ANSWER_S:.0f} s: run again when Slurm does") from error
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or [f"status {error.returncode}"])[-1]
        raise ClusterError(f"{command[0]} does not answer ({said}): run again when Slurm does") from error
    return done.stdout


def check_run(local: bool, executor: str, device: str, nodes: Mapping[str, str] | None) -> None:
    """Raises ClusterError where the place that this run's jobs go to and the config do not agree."""
    if local and nodes is not None:
        raise ClusterError(
            f"nodes: {', '.join(sorted(set(nodes.values())))} are named, and this run measures the machine it is typed on. To "
            "submit it: snakemake --profile profiles/slurm. To measure here: set nodes to null"
        )
    if executor == "slurm" and nodes is None:
        raise ClusterError(
            "which node is measured? Name it by its session in config.yaml, for example nodes: {nvidia-h200: gpu01}; "
            "sinfo -N lists them"
        )
    if not local and device == "auto":
        raise ClusterError(
            "the jobs of this run find another machine than this one: say which, for example device: nvidia-h200"
        )


def check_storage(provider: str | None) -> None:
    """Raises ClusterError if Snakemake was told to keep every file in a storage: plan, price and report read the folder."""
    if provider:
        raise ClusterError(
            f"--default-storage-provider {provider}: results/ must be a folder here. Run without it, then copy results/ there "
            "(workflow/fleet.md)"
        )


def places(nodes: Mapping[str, str], ask: Callable[..., str] = _ask) -> Places:
    """Each session's node and that node's CPUs, as Slurm knows them. Raises ClusterError for a node it does not have."""
    known = {}
    for line in ask("sinfo", "--noheader", "--Node", "--format", "%N %c").splitlines():
        name, cpus = line.split()
        known[name] = int(cpus)
    strange = sorted(set(nodes.values()) - set(known))
    if strange:
        raise ClusterError(f"nodes: {', '.join(strange)}: not in this cluster; sinfo -N lists {', '.join(known)}")
    return {session: (node, known[node]) for session, node in nodes.items()}


def hand_over(found: Places) -> None:
    """Leaves the answer to the jobs of this run."""
    handover.leave(handover.NODES, found)


def handed() -> Places:
    """The nodes of this run by session; empty where it measures on no cluster."""
    return {session: (node, cpus) for session, (node, cpus) in handover.mapping(handover.NODES).items()}


def request(session: str) -> str:
    """What a job of the session asks sbatch for: its node, and that whole. Without that, two jobs of a session would share
    the host and land on two cards of it."""
    found = handed().get(session)
    return f"--nodelist={found[0]} --exclusive" if found else ""


def cpus(session: str) -> int:
    """The CPUs of the session's node: a job step would otherwise be held to one, and the host's own roofline with it."""
    found = handed().get(session)
    return found[1] if found else 1


def check(session: str) -> None:
    """Raises WrongMachine if this process is not on the session's node."""
    found, here = handed().get(session), os.environ.get("SLURMD_NODENAME")
    if found and found[0] != here:
        raise WrongMachine(f"the session {session} is measured on {found[0]}, and this is {here or 'outside Slurm'}")


def queued(folder: Path, ask: Callable[..., str] = _ask) -> list[str]:
    """The Slurm jobs that runs in `folder` have in the queue, waiting or at work. Raises ClusterError if it cannot be told."""
    if shutil.which("squeue") is None:
        return []
    try:
        told = ask("squeue", "--noheader", f"--user={os.getuid()}", "--format", "%i\t%k\t%Z")
    except ClusterError:
        if (folder / SUBMITTED).is_dir():
            raise
        return []  # Slurm's programs without its service, and nothing was ever submitted from here
    jobs = [line.split("\t") for line in told.splitlines()]
    return [number for number, comment, place in jobs if comment.startswith("rule_") and _same(Path(place), folder)]


def _same(place: Path, folder: Path) -> bool:
    return place.exists() and place.samefile(folder)


def wait_for_queue(folder: Path) -> None:
    """Waits until no job of an earlier run of this folder is left. Raises ClusterError if it cannot be told."""
    left = queued(folder)
    if left:
        print(
            f"{len(left)} job(s) of an interrupted run are still in Slurm's queue: waiting for them, to adopt what they "
            f"measure. To measure it anew instead: scancel {' '.join(left)}",
            file=sys.stderr,
            flush=True,
        )
    while left:
        time.sleep(POLL_S)
        left = queued(folder)

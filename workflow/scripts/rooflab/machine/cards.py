"""Which physical cards a run measures: one session per card, and each measuring program shown its own card alone.

A card is its UUID, the one name that NVML and CUDA agree on: NVML numbers cards by PCI bus (as nvidia-smi does), CUDA
by its own rules. The process the user started chooses, and its jobs are handed the answer in their environment; a program
that was handed none chooses by the same rule.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rooflab.machine import locks, nvml
from rooflab.machine.detect import DetectionError, gpu_slug
from rooflab.machine.second_bill import strangers
from rooflab.machine.visible import in_cuda_order, pin, visible
from rooflab.record import handover
from rooflab.record.identity import WrongMachine
from rooflab.record.publish import write_text
from rooflab.record.records import RecordError, read_record

SLOTS = 16  # cards of one host that can be measured at the same time, one resource each

Gpu = Mapping[str, Any]
Wanted = str | Sequence[int | str]


def chosen(
    gpus: Wanted, device: str, results: Path, ask: Callable[[], Sequence[Gpu]] = nvml.list_gpus
) -> dict[str, str]:
    """The UUID of each wanted card by its session's name, in the order wanted (`all`: NVML's order).

    `gpus` is `all`, a UUID (its beginning will do), or a list of UUIDs and of nvidia-smi's numbers. With `device`
    naming the model and UUIDs alone, no driver is asked. Raises DetectionError.
    """
    given = [gpus] if isinstance(gpus, str) else list(gpus)
    entries = [int(each) if isinstance(each, str) and each.isdecimal() else each for each in given]  # --config: text
    if device != "auto" and all(isinstance(each, str) and each != "all" for each in entries):
        return _distinct([(device, str(each)) for each in entries])
    try:
        seen = _seen(ask())
    except nvml.NvmlError as error:
        raise DetectionError(
            f"gpus: {gpus} asks for GPUs, and the driver of this machine does not list any: {error}"
        ) from error
    cards = [gpu for each in entries for gpu in _matching(each, seen)]
    others = sorted({gpu_slug(gpu) for gpu in cards} - {device})
    if device != "auto" and others:
        raise DetectionError(
            f"device={device} was asked for, and gpus: {gpus} gives {', '.join(others)}: drop one of them"
        )
    _refuse_second_bill({gpu_slug(gpu) for gpu in cards}, results)
    return _distinct([(gpu_slug(gpu), str(gpu["uuid"])) for gpu in cards])


def session_name(model: str, uuid: str) -> str:
    """`nvidia-h200` and `GPU-5ccde6f2-12e4-...` -> `nvidia-h200-5ccde6f2`. Raises DetectionError without eight digits."""
    digits = re.search(r"[0-9a-f]{8}", uuid.lower())
    if digits is None:
        raise DetectionError(f"{uuid} is not the UUID of a card: nvidia-smi -L lists them")
    return f"{model}-{digits[0]}"


def model_of(session: str) -> str:
    """The model's own name in that of a card's session."""
    return re.sub(r"-[0-9a-f]{8}$", "", session)


def hand_over(cards: Mapping[str, str], at_once: bool) -> None:
    """Leaves the answer to the jobs of this run."""
    handover.leave(handover.CARDS, cards)
    handover.leave(handover.CARDS_AT_ONCE, str(len(cards)) if at_once and len(cards) > 1 else "")


def handed() -> dict[str, str]:
    """The cards of this run, by session; empty where the config names none."""
    return dict(handover.mapping(handover.CARDS))


def at_once() -> int:
    """How many cards this run measures at the same time."""
    return int(handover.text(handover.CARDS_AT_ONCE) or 1)


def slot(session: str) -> int:
    """The place of the session's card among this run's, 0 where it names none."""
    return list(handed()).index(session) if session in handed() else 0


def interference(count: int) -> str:
    """What the reader must know of cards measured together."""
    return (
        f"parallel_gpus: {count} cards are measured at the same time (with --cores {count} or more). They share the power "
        "supply, the cooling, PCIe and the host's cores: each may be slower than alone, and every record says so"
    )


def company() -> dict[str, int]:
    """What a record says of it."""
    return {"cards_at_once": at_once()} if at_once() > 1 else {}


@contextmanager
def turn(uuid: str | None) -> Iterator[None]:
    """Holds what a measuring program needs to be alone: this host; where cards are measured together, its card."""
    together = uuid is not None and at_once() > 1
    own_card = [locks.host_lock(f"turn-{uuid}")] if together else []
    folder = locks.held(
        locks.MEASURING, shared=True
    )  # tells that somebody measures; several hosts may share the folder
    with folder, locks.held(locks.host_lock("host"), shared=together), locks.held(*own_card):
        yield


def measured(device: str) -> Gpu | None:
    """The card that is measured here: the first of the model `device` that CUDA would open, of any where it is empty; where
    none is of that model the first of all, which is then refused by name. Raises NvmlError."""
    shown = [gpu for gpu in in_cuda_order(nvml.list_gpus(), os.environ) if gpu["uuid"]]
    return next((gpu for gpu in shown if gpu_slug(gpu) == device), shown[0] if shown else None)


def aim(session: str) -> str | None:
    """Shows this process the session's card alone, before CUDA is loaded. Its UUID; None where the driver lists none."""
    uuid = handed().get(session) or _chosen_here()
    if uuid is not None:
        pin(uuid)
    return uuid


def _chosen_here() -> str | None:
    try:
        card = measured(handover.text(handover.DEVICE))
    except nvml.NvmlError:  # opening the device says what is wrong
        return None
    return str(card["uuid"]) if card else None


def check(uuid: str | None, live: Mapping[str, Any], ask: Callable[[], Sequence[Gpu]] = nvml.list_gpus) -> None:
    """Raises WrongMachine if another card of this machine was opened than the one aimed at.

    A slice goes by its card's UUID in some drivers, and a virtual GPU by another in CUDA than in NVML.
    """
    seen = live.get("uuid")
    if uuid is None or seen is None or live.get("mig") or str(seen).startswith(uuid):
        return
    if seen in {gpu["uuid"] for gpu in ask()}:
        raise WrongMachine(
            f"the card {uuid} was to be measured and CUDA opened {seen}: something loaded CUDA before this program chose its "
            "card; unset CUDA_INJECTION64_PATH and LD_PRELOAD and run again"
        )


def adopt_host_record(out: Path, session_dir: Path, live: Mapping[str, Any]) -> str | None:
    """Publishes a sibling session's record of this same host as `out`; the sibling's name, None where it has none.

    The cards of one run share the host: its own roofline is measured once, not once per card.
    """
    for sibling in handed() if session_dir.name in handed() else ():
        twin = session_dir.parent / sibling / out.relative_to(session_dir)
        if sibling == session_dir.name or not twin.exists():
            continue
        try:
            record = read_record(twin)
        except RecordError:
            continue
        if record["status"] != "failed" and record["device"] == live:
            write_text(out, twin.read_text(encoding="utf-8"))
            return sibling
    return None


def _seen(gpus: Sequence[Gpu]) -> list[Gpu]:
    """What this process may use: everything, slices included, or what CUDA_VISIBLE_DEVICES leaves."""
    hidden_to = os.environ.get("CUDA_VISIBLE_DEVICES")
    known = [dict(gpu) for gpu in gpus if gpu["uuid"]]
    return list(known if hidden_to is None else visible(known, hidden_to))


def _matching(entry: int | str, seen: Sequence[Gpu]) -> list[Gpu]:
    """A number means the whole card: every slice of it where it is divided."""
    if entry == "all":
        found = list(seen)
    elif isinstance(entry, int):
        found = [gpu for gpu in seen if gpu["index"] == entry]
    else:
        found = [gpu for gpu in seen if str(gpu["uuid"]).startswith(entry)]
    if found and (entry == "all" or isinstance(entry, int) or len(found) == 1):
        return found
    here = "; ".join(f"{gpu['index']} = {gpu['name']} {gpu['uuid']}" for gpu in seen) or "none"
    raise DetectionError(f"gpus: {entry} names {len(found)} of the GPUs this process may use ({here})")


def _distinct(found: Sequence[tuple[str, str]]) -> dict[str, str]:
    cards: dict[str, str] = {}
    for model, uuid in found:
        name = session_name(model, uuid)
        if cards.get(name, uuid) != uuid:
            raise DetectionError(
                f"gpus: {cards[name]} and {uuid} would both be the session {name}: measure one at a time"
            )
        cards[name] = uuid
    return cards


def _refuse_second_bill(models: set[str], results: Path) -> None:
    for name in strangers(models, results):
        raise DetectionError(
            f"results/{name} is an unfinished session of another GPU than these ({', '.join(sorted(models))}). To "
            "draw what exists of it: snakemake --cores 1 report. To measure here, move it out of results/ first"
        )

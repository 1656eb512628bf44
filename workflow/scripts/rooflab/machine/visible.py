"""Which of a machine's GPUs CUDA would show, which of them it would open first, and how a process is held to one.

NVML lists every card by PCI bus; CUDA numbers what its two variables leave, the fastest first unless told otherwise. A
card is its UUID, the one name that both know.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

SHOWN, ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
BY_BUS = "PCI_BUS_ID"
ANSWER_S = 60.0  # how long the driver may take to open; without persistence mode it loads firmware first

Gpu = dict[str, Any]


def visible(gpus: Sequence[Gpu], cuda_visible_devices: str | None) -> list[Gpu]:
    """Those of `gpus` that CUDA shows under this value of CUDA_VISIBLE_DEVICES (None: not set), numbers taken by PCI bus.

    By number, by the beginning of a UUID, or by MIG UUID; the first entry that names no GPU hides itself and the rest,
    and a GPU named twice hides all (NVIDIA, CUDA programming guide, "CUDA environment variables"). CUDA shows one slice.
    """
    if cuda_visible_devices is None:
        chosen = list(gpus)
    else:
        chosen = []
        for token in (part.strip() for part in cuda_visible_devices.split(",")):
            match = _named(gpus, token)
            if match is None:
                break
            chosen.append(match)
    if len({gpu["uuid"] for gpu in chosen}) < len(chosen):
        return []
    return chosen[:1] if chosen and chosen[0]["mig"] else [gpu for gpu in chosen if not gpu["mig"]]


def _named(gpus: Sequence[Gpu], token: str) -> Gpu | None:
    if token.isdecimal():
        matches = [gpu for gpu in gpus if gpu["index"] == int(token)][:1]
    elif token.startswith(("GPU-", "MIG-")):
        matches = [gpu for gpu in gpus if gpu["uuid"] and gpu["uuid"].startswith(token)]
    else:
        matches = []
    return matches[0] if len(matches) == 1 else None


def ask_cuda() -> list[str] | None:
    """The UUIDs of the cards that CUDA shows under this environment, in its order; None where it does not say."""
    program = [sys.executable, str(Path(__file__).with_name("cuda_order.py"))]
    try:
        told = subprocess.run(program, capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout
        return [str(each) for each in json.loads(told)]
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def in_cuda_order(
    gpus: Sequence[Gpu], environment: Mapping[str, str], ask: Callable[[], list[str] | None] = ask_cuda
) -> list[Gpu]:
    """What CUDA shows of `gpus`, the card it would open first in front.

    The driver is asked where its order can matter: cards of several models, and not numbered by PCI bus. Where it does
    not answer, the order is that of the bus.
    """
    shown = visible(gpus, environment.get(SHOWN))
    tokens = environment.get(SHOWN, "0").split(",")
    numbered = any(token.strip().isdecimal() for token in tokens)
    if len({gpu["name"] for gpu in gpus}) < 2 or environment.get(ORDER) == BY_BUS or not numbered:
        return shown
    by_uuid = {str(gpu["uuid"]).partition("-")[2].lower(): gpu for gpu in gpus if gpu["uuid"]}
    ordered = [by_uuid[uuid] for uuid in ask() or () if uuid in by_uuid]
    return ordered or shown


def pin(uuid: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Shows this process, and those it starts, one card alone. To be called before CUDA is loaded."""
    environment[SHOWN], environment[ORDER] = uuid, BY_BUS

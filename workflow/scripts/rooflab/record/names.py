"""The grammar of the project's file names, in one place.

    results/<session>/<side>/[<stage>/]<name>.<key>[.<attempt>].json

A name says what was measured: `fp16-n4096`, `minigpt-fp16-S128`, `llama-3-1-8b-bf16-S1024-B16`.
"""

import re
from pathlib import PurePath

SESSION = r"[a-z0-9][a-z0-9.-]*"
MODEL = r"[a-z0-9-]+"
KEY = r"[0-9a-f]{8}"
KEY_AND_ATTEMPT = rf"{KEY}(\.\d+)?"
SIDES = ("gpu", "cpu")
SERVED = ("attention", "step")  # the stages of a served model
UNFOLDED = ("device", "launch_floor")  # one record a side, which lies in no folder of its own
MINIGPT = "minigpt"
MEMORY_SIZED = "hbm"  # ends the name of a decode step whose cache is sized by the memory

_LAB_STEP = re.compile(rf"{MINIGPT}-([a-z0-9_]+)-S\d+")
_OF_A_MODEL = re.compile(rf"/(?:attention|step)/({MODEL})-[a-z0-9_]+-(?:S\d+-)?B\d+\.")


def measurement(side: str, stage: str, name: str, key: str, attempt: int = 1) -> str:
    """The file of a measurement, under its session's folder; attempts after a failed one carry their number."""
    folder = "" if stage in UNFOLDED else f"{stage}/"
    return f"{side}/{folder}{file_name(name, key, attempt)}"


def file_name(name: str, key: str, attempt: int = 1) -> str:
    """The last part of a measurement's path."""
    return f"{name}.{key}.{attempt}.json" if attempt > 1 else f"{name}.{key}.json"


def name_of(file: str | PurePath) -> str:
    """What was measured, by the file's name: `fp16-n4096` of `gpu/gemm/fp16-n4096.0123abcd.2.json`."""
    return PurePath(file).name.split(".")[0]


def attempt_of(file: str | PurePath) -> int:
    """Which attempt a file is: `name.key.2.json` is the second."""
    parts = PurePath(file).name.split(".")
    return int(parts[2]) if len(parts) == 4 else 1


def series_of(file: str) -> str:
    """The file without its attempt number and ending: `gpu/gemm/fp16-n4096.0123abcd`."""
    folder, _, name = file.rpartition("/")
    return f"{folder}/{'.'.join(name.split('.')[:2])}"


def first_attempt(file: str) -> str:
    """The file of a measurement's first attempt; a key may be all digits. Any other path is left as it is."""
    return re.sub(rf"(\.{KEY})\.\d+\.json$", r"\1.json", file)


def is_paid(path: str | PurePath) -> bool:
    """Whether a path under results/ is a measurement's: results/<session>/<side>/…"""
    parts = PurePath(path).parts
    return any(side in parts[2:-1] for side in SIDES)


def product(dtype: str, size: int) -> str:
    """A square matrix product."""
    return f"{dtype}-n{size}"


def sweep(dtype: str, n: int, k: int) -> str:
    """A product over many batches."""
    return f"{dtype}-n{n}-k{k}"


def lab_step(dtype: str, sequence: int | None) -> str:
    """The MiniGPT's decode attention at a cached length; None: at the length that fills the memory."""
    return f"{MINIGPT}-{dtype}-{MEMORY_SIZED if sequence is None else f'S{sequence}'}"


def format_of_lab_step(name: str) -> str | None:
    """The format of a decode step of the lab, at one of its lengths; None for any other measurement."""
    found = _LAB_STEP.fullmatch(name)
    return found[1] if found else None


def memory_sized(name: str) -> bool:
    """Whether the cache of this decode step of the lab is sized by the memory."""
    return name.endswith(f"-{MEMORY_SIZED}")


def format_of(name: str) -> str:
    """The format, or its variant, of a product or a decode step of the lab: `fp8_e4m3_full` of
    fp8_e4m3_full-n8192, `bf16` of minigpt-bf16-hbm."""
    first, *others = name.split("-")
    return others[0] if first == MINIGPT else first


def attention(model: str, dtype: str, sequence: int, batch: int) -> str:
    """A served model's attention."""
    return f"{model}-{dtype}-S{sequence}-B{batch}"


def step(model: str, dtype: str, batch: int) -> str:
    """The rest of a served model's step."""
    return f"{model}-{dtype}-B{batch}"


def model_of(file: str) -> str | None:
    """The served model that a measurement's file speaks of; None for any other."""
    found = _OF_A_MODEL.search(file)
    return found[1] if found else None

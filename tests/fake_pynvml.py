"""A pynvml that lists the cards of a JSON file named by FAKE_CARDS: what a machine with several GPUs would say."""

import json
import os
from typing import Any

NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0


class _Value:
    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def _cards() -> list[dict[str, Any]]:
    with open(os.environ["FAKE_CARDS"], encoding="utf-8") as file:
        return list(json.load(file))


def nvmlInit() -> None:
    with open(os.environ["FAKE_CARDS"] + ".asked", "a", encoding="utf-8") as file:
        file.write("x")


def nvmlDeviceGetCount() -> int:
    return len(_cards())


def nvmlDeviceGetHandleByIndex(index: int) -> dict[str, Any]:
    return _cards()[index]


def nvmlDeviceGetName(card: dict[str, Any]) -> str:
    return str(card["name"])


def nvmlDeviceGetUUID(card: dict[str, Any]) -> str:
    return str(card["uuid"])


def nvmlDeviceGetPciInfo(card: dict[str, Any]) -> _Value:
    return _Value(busId=card["pci_bus_id"])


def nvmlDeviceGetMemoryInfo(card: dict[str, Any]) -> _Value:
    return _Value(total=150_000_000_000, free=149_000_000_000)


def nvmlDeviceGetMigMode(card: dict[str, Any]) -> tuple[int, int]:
    return (0, 0)

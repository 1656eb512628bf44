"""One card, chosen once, by its UUID: NVML, CUDA and the session's name speak of the same one, however each numbers them."""

import os
from ctypes import Array, c_int
from pathlib import Path
from typing import Any

import pytest
from free import doctor
from rooflab.machine import cards, cuda_order, detect, nvml, visible
from rooflab.measure.cuda import preflight as cuda_preflight
from rooflab.measure.cuda import station
from rooflab.record import handover
from rooflab.record.identity import WrongMachine

SMALL_UUID = "GPU-1111aaaa-1111-2222-3333-444444444444"
LARGE_UUID = "GPU-4090aaaa-1111-2222-3333-444444444444"


def gpu(index: int, name: str, uuid: str) -> dict[str, Any]:
    return {"index": index, "name": name, "uuid": uuid, "pci_bus_id": f"0:{index}", "memory_bytes": 1, "mig": None}


SMALL = gpu(0, "NVIDIA T1000", SMALL_UUID)  # first on the bus, second in CUDA
LARGE = gpu(1, "NVIDIA GeForce RTX 4090", LARGE_UUID)


def body(card: dict[str, Any]) -> str:
    return str(card["uuid"]).removeprefix("GPU-")


@pytest.fixture(autouse=True)
def workstation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """CUDA shows the faster card first, or what its variable leaves of that order."""

    def ask() -> list[str]:
        fastest_first = [LARGE, SMALL]
        shown = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1")
        return [body(fastest_first[int(each)]) for each in shown.split(",")]

    for name in (handover.CARDS, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROOFLAB_DEVICE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nvml, "list_gpus", lambda: [SMALL, LARGE])
    monkeypatch.setattr(visible.in_cuda_order, "__defaults__", (ask,))
    return monkeypatch


CASES = [
    ({}, LARGE),
    ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, SMALL),
    ({"CUDA_VISIBLE_DEVICES": "0"}, LARGE),
    ({"CUDA_VISIBLE_DEVICES": "1"}, SMALL),
    ({"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, LARGE),
    ({"CUDA_VISIBLE_DEVICES": "1,0"}, SMALL),
    ({"CUDA_VISIBLE_DEVICES": SMALL_UUID}, SMALL),
    ({"CUDA_VISIBLE_DEVICES": "GPU-4090"}, LARGE),
]


@pytest.mark.parametrize(("variables", "card"), CASES)
def test_the_session_is_named_after_the_card_that_its_programs_are_shown(
    workstation: pytest.MonkeyPatch, variables: dict[str, str], card: dict[str, Any]
) -> None:
    for name, value in variables.items():
        workstation.setenv(name, value)
    machine = detect.chosen("auto", Path("results"))
    assert (machine.slug, machine.uuid) == (detect.gpu_slug(card), card["uuid"])
    cards.hand_over({machine.slug: card["uuid"]}, at_once=False)
    assert cards.aim(machine.slug) == card["uuid"]
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CUDA_DEVICE_ORDER"]) == (card["uuid"], "PCI_BUS_ID")
    assert visible.in_cuda_order(nvml.list_gpus(), os.environ) == [card]


@pytest.mark.parametrize(("variables", "card"), CASES)
def test_a_program_that_was_handed_no_card_chooses_the_same(
    workstation: pytest.MonkeyPatch, variables: dict[str, str], card: dict[str, Any]
) -> None:
    for name, value in variables.items():
        workstation.setenv(name, value)
    assert cards.aim("any") == card["uuid"]


@pytest.mark.parametrize("card", [SMALL, LARGE])
def test_a_named_device_is_found_among_several(workstation: pytest.MonkeyPatch, card: dict[str, Any]) -> None:
    workstation.setenv("ROOFLAB_DEVICE", detect.gpu_slug(card))
    assert cards.aim("my-session") == card["uuid"]


def test_other_processes_are_asked_of_the_card_that_is_measured(workstation: pytest.MonkeyPatch) -> None:
    asked = []

    class Chip:
        def __init__(self, key: str) -> None:
            asked.append(key)

        def processes(self) -> dict[str, Any]:
            return {"count": 0, "memory_bytes": 0, "pids": []}

    workstation.setattr(nvml, "Nvml", Chip)
    cards.aim("nvidia-geforce-rtx-4090")
    station.other_processes()
    assert asked == [LARGE_UUID]


def test_the_doctor_examines_the_card_that_a_run_would_measure(workstation: pytest.MonkeyPatch) -> None:
    opened = []
    workstation.setattr(cuda_preflight, "examine", lambda: opened.append(os.environ["CUDA_VISIBLE_DEVICES"]) or [])
    told = [each.text for each in doctor.gpu("auto")]
    assert told == [
        f"NVIDIA T1000, {SMALL_UUID}",
        f"NVIDIA GeForce RTX 4090, {LARGE_UUID}: the one that is measured",
    ]
    assert opened == [LARGE_UUID]


def test_a_driver_that_does_not_answer_leaves_the_order_of_the_bus() -> None:
    assert visible.in_cuda_order([SMALL, LARGE], {}, lambda: None) == [SMALL, LARGE]


def test_cards_of_one_model_ask_nobody() -> None:
    alike = [SMALL, SMALL | {"index": 1, "uuid": "GPU-2"}]
    assert visible.in_cuda_order(alike, {}, lambda: pytest.fail("asked")) == alike


def test_another_card_than_the_chosen_one_is_the_wrong_machine_and_a_virtual_gpu_s_own_uuid_is_not() -> None:
    with pytest.raises(WrongMachine, match="was to be measured and CUDA opened"):
        cards.check(LARGE_UUID, {"uuid": SMALL_UUID}, nvml.list_gpus)
    cards.check(LARGE_UUID, {"uuid": "GPU-known-to-cuda-alone"}, nvml.list_gpus)


class Driver:
    """libcuda with two cards."""

    uuids = (bytes(range(16)), bytes(range(16, 32)))

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:
        count._obj.value = len(self.uuids)
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        device._obj.value = ordinal
        return 0

    def cuDeviceGetUuid(self, raw: "Array[Any]", device: c_int) -> int:
        raw[:] = list(self.uuids[device.value])
        return 0


def test_the_driver_is_asked_for_uuids_in_its_own_order() -> None:
    first, second = cuda_order.uuids(Driver())
    assert (first, second) == ("00010203-0405-0607-0809-0a0b0c0d0e0f", "10111213-1415-1617-1819-1a1b1c1d1e1f")


def test_a_driver_that_refuses_is_an_error_not_an_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Driver, "cuInit", lambda self, flags: 802)
    with pytest.raises(OSError, match="802"):
        cuda_order.uuids(Driver())

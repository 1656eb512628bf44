"""Several cards: which sessions they are, that each program sees its own card alone, and what a fleet's plan costs."""

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import lab
import pytest
import synthetic
import yaml
from fleet_sessions import name_of, uuid_of, write_finished
from rooflab.derive.evidence import notes
from rooflab.fleet.sessions import paid_together
from rooflab.machine import cards, nvml
from rooflab.machine.detect import DetectionError
from rooflab.machine.second_bill import strangers
from rooflab.machine.visible import visible
from rooflab.plan import config as configuration
from rooflab.plan import measurements
from rooflab.record import handover, ledger
from rooflab.record.identity import WrongMachine
from rooflab.run.targets import FREE

ONE = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
TWO = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
FIRST, SECOND = "nvidia-h200-aaaaaaaa", "nvidia-h200-bbbbbbbb"


def gpu(index: int, uuid: str, name: str = "NVIDIA H200", mig: str | None = None) -> dict[str, Any]:
    return {"index": index, "name": name, "uuid": uuid, "pci_bus_id": f"0:{index}", "memory_bytes": 1, "mig": mig}


TWO_CARDS = [gpu(0, ONE), gpu(1, TWO)]


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (handover.CARDS, handover.CARDS_AT_ONCE, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def chosen(gpus: Any, seen: list[dict[str, Any]] = TWO_CARDS, device: str = "auto") -> dict[str, str]:
    return cards.chosen(gpus, device, Path("nowhere"), lambda: seen)


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ("all", {FIRST: ONE, SECOND: TWO}),
        ([1], {SECOND: TWO}),
        ([1, 0], {SECOND: TWO, FIRST: ONE}),
        (TWO, {SECOND: TWO}),
        ("GPU-bbbbbbbb", {SECOND: TWO}),
        ([0, TWO], {FIRST: ONE, SECOND: TWO}),
        ([0, ONE], {FIRST: ONE}),
        (["1"], {SECOND: TWO}),
    ],
)
def test_each_card_has_its_session(gpus: Any, expected: dict[str, str]) -> None:
    found = chosen(gpus)
    assert found == expected and list(found) == list(expected)


def test_numbers_are_nvidia_smis_whatever_order_cuda_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", f"{TWO},{ONE}")
    assert chosen([0]) == {FIRST: ONE}
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    assert chosen([1]) == {SECOND: TWO}


def test_all_are_those_this_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert chosen("all") == {SECOND: TWO}
    with pytest.raises(DetectionError, match="gpus: 0 names 0 of the GPUs"):
        chosen([0])


def test_a_divided_card_is_a_session_per_slice() -> None:
    slices = [gpu(0, f"MIG-{digit * 8}-1111-2222-3333-444444444444", mig="1g.18gb") for digit in "cd"]
    names = {f"nvidia-h200-mig-1g.18gb-{digit * 8}" for digit in "cd"}
    assert set(chosen("all", [*slices, gpu(1, TWO)])) == names | {SECOND}
    assert set(chosen([0], [*slices, gpu(1, TWO)])) == names
    assert chosen(slices[1]["uuid"], slices) == {"nvidia-h200-mig-1g.18gb-dddddddd": slices[1]["uuid"]}


def test_a_named_model_and_uuids_need_no_driver() -> None:
    def no_driver() -> list[Any]:
        raise nvml.NvmlError("no driver")

    assert cards.chosen([TWO, ONE], "nvidia-h200", Path("nowhere"), no_driver) == {SECOND: TWO, FIRST: ONE}
    with pytest.raises(DetectionError, match="no driver"):
        cards.chosen([0], "nvidia-h200", Path("nowhere"), no_driver)


@pytest.mark.parametrize(
    ("gpus", "device", "told"),
    [
        ([7], "auto", "gpus: 7 names 0 of the GPUs this process may use .0 = NVIDIA H200 GPU-aaaa"),
        ("GPU-00000000", "auto", "names 0 of"),
        ("all", "nvidia-l4", "device=nvidia-l4 was asked for, and gpus: all gives nvidia-h200"),
    ],
)
def test_what_is_not_there_is_one_clear_error(gpus: Any, device: str, told: str) -> None:
    with pytest.raises(DetectionError, match=told):
        chosen(gpus, device=device)


def test_two_cards_never_share_a_session() -> None:
    twin = "GPU-aaaaaaaa-9999-2222-3333-444444444444"
    with pytest.raises(DetectionError, match="would both be the session nvidia-h200-aaaaaaaa"):
        chosen("all", [gpu(0, ONE), gpu(1, twin)])


def test_an_unfinished_session_of_another_model_stops_a_fleet(tmp_path: Path) -> None:
    (tmp_path / "nvidia-h200-cccccccc" / "gpu").mkdir(parents=True)
    assert cards.chosen("all", "auto", tmp_path, lambda: TWO_CARDS)
    (tmp_path / "nvidia-l4" / "gpu").mkdir(parents=True)
    with pytest.raises(DetectionError, match="nvidia-l4 is an unfinished session of another GPU"):
        cards.chosen("all", "auto", tmp_path, lambda: TWO_CARDS)


@pytest.mark.parametrize(
    ("holes", "expected"), [("[]", []), ('[{"status": "missing"}]', ["nvidia-l4"]), ("[", ["nvidia-l4"])]
)
def test_one_judgement_says_which_sessions_are_unfinished(holes: str, expected: list[str], tmp_path: Path) -> None:
    """Two copies of it once disagreed: with a manifest that names holes, one stopped and the other measured."""
    for name in ("nvidia-l4", "nvidia-h200-cccccccc"):
        (tmp_path / name / "gpu").mkdir(parents=True)
        (tmp_path / name / "manifest.json").write_text(f'{{"holes": {holes}}}')
    assert strangers({"nvidia-h200"}, tmp_path) == expected


def test_a_program_sees_its_sessions_card_alone() -> None:
    cards.hand_over({FIRST: ONE, SECOND: TWO}, at_once=False)
    assert cards.aim(SECOND) == TWO and os.environ["CUDA_VISIBLE_DEVICES"] == TWO
    assert visible(TWO_CARDS, os.environ["CUDA_VISIBLE_DEVICES"]) == [TWO_CARDS[1]]


def test_another_card_than_the_one_aimed_at_is_the_wrong_machine() -> None:
    def ask() -> list[dict[str, Any]]:
        return TWO_CARDS

    cards.check(ONE, {"uuid": ONE, "mig": None}, ask)
    cards.check("GPU-aaaaaaaa", {"uuid": ONE, "mig": None}, ask)
    cards.check(None, {"uuid": TWO, "mig": None}, ask)
    cards.check("MIG-cccccccc", {"uuid": ONE, "mig": "1g.18gb"}, ask)
    with pytest.raises(WrongMachine, match="CUDA opened GPU-bbbbbbbb"):
        cards.check(ONE, {"uuid": TWO, "mig": None}, ask)


def enters(uuid: str | None) -> bool:
    """Whether another program gets its turn now."""
    inside = threading.Event()

    def enter() -> None:
        with cards.turn(uuid):
            inside.set()

    threading.Thread(target=enter, daemon=True).start()
    return inside.wait(0.3)


@pytest.mark.parametrize(
    ("at_once", "holder", "other", "free"),
    [
        (False, ONE, TWO, False),
        (True, ONE, TWO, True),
        (True, ONE, ONE, False),
        (True, ONE, None, False),
        (True, None, ONE, False),
    ],
    ids=["one after the other", "two cards", "one card", "the host beside a card", "a card beside the host"],
)
def test_who_may_measure_beside_whom(
    at_once: bool, holder: str | None, other: str | None, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cards.hand_over({FIRST: ONE, SECOND: TWO}, at_once)
    with cards.turn(holder):
        assert enters(other) is free
    assert enters(other)


def test_cards_measured_together_say_so() -> None:
    cards.hand_over({FIRST: ONE, SECOND: TWO}, at_once=True)
    assert cards.company() == {"cards_at_once": 2} and (cards.slot(FIRST), cards.slot(SECOND)) == (0, 1)
    record = synthetic.gpu_records()[0]
    record["environment"] = record["environment"] | cards.company()
    assert {"code": "together", "values": {"count": 1}} in notes({"gpu/device.json": record}, [])
    cards.hand_over({FIRST: ONE}, at_once=True)
    assert cards.company() == {} and cards.at_once() == 1


def test_the_host_is_measured_once_for_all_its_cards(tmp_path: Path) -> None:
    cards.hand_over({FIRST: ONE, SECOND: TWO}, at_once=False)
    [record] = [r for r in synthetic.cpu_records() if r["name"] == "read"]
    [path] = synthetic.write_session(tmp_path / FIRST, [record])
    out = tmp_path / SECOND / path.relative_to(tmp_path / FIRST)
    assert cards.adopt_host_record(out, tmp_path / SECOND, {"name": "another CPU"}) is None and not out.exists()
    assert cards.adopt_host_record(out, tmp_path / SECOND, record["device"]) == FIRST
    assert out.read_bytes() == path.read_bytes()
    alone = tmp_path / "nvidia-h200" / path.relative_to(tmp_path / FIRST)
    assert cards.adopt_host_record(alone, tmp_path / "nvidia-h200", record["device"]) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": "all", "session": "mine"},
        {"gpus": "all", "device": "cpu"},
        {"parallel_gpus": True},
        {"gpus": "0"},
        {"gpus": []},
    ],
)
def test_a_config_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    config = yaml.safe_load((lab.ROOT / "config.yaml").read_text())
    with pytest.raises(configuration.ConfigError, match="gpus"):
        configuration.checked(config | changes)


def test_switches_and_numbers_given_on_the_command_line_arrive_as_text_and_are_taken() -> None:
    config = yaml.safe_load((lab.ROOT / "config.yaml").read_text())
    given = {"gpus": ["0", "1"], "parallel_gpus": "true", "allow_shared_gpu": "false"}
    made = configuration.checked(config | given)
    assert (made["parallel_gpus"], made["allow_shared_gpu"]) == (True, False)
    with pytest.raises(configuration.ConfigError, match="expected null, all, a GPU's UUID"):
        configuration.checked(config | {"gpus": "first"})


def test_a_run_over_several_cards_is_paid_once(tmp_path: Path) -> None:
    for name in (FIRST, SECOND):
        book = tmp_path / name / "ledger.jsonl"
        book.parent.mkdir()
        lines = [("run start", 1000.0), ("start", 1010.0), ("end", 4600.0)]
        of_all = {"run": "1-1000", "job": "x", "stage": "gpu/gemm", "price_usd_per_hour": 2.0}
        events = [{"event": event, "time": at} | of_all for event, at in lines]
        book.write_text("".join(json.dumps(each) + "\n" for each in events))
        assert ledger.summary(book)["paid_s"] == 3600
    made = paid_together([tmp_path / FIRST, tmp_path / SECOND])
    assert made == {"seconds": 3600.0, "usd": 2.0, "runs_without_price": 0}


@pytest.fixture
def two_card_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout on a machine whose driver lists two cards."""
    folder = lab.copy_code(tmp_path / "lab")
    shutil.copy(Path(__file__).with_name("fake_pynvml.py"), folder / "pynvml.py")
    known = [{"name": g["name"], "uuid": g["uuid"], "pci_bus_id": g["pci_bus_id"]} for g in TWO_CARDS]
    (folder / "cards.json").write_text(json.dumps(known))
    monkeypatch.setenv("FAKE_CARDS", str(folder / "cards.json"))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    configure(folder, device="auto", gpus="all", price_usd_per_hour={FIRST: 3.0, SECOND: 4.0})
    return folder


def configure(folder: Path, **changes: Any) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | changes))


def test_a_dry_run_of_two_cards_bills_each_and_their_sum(two_card_lab: Path) -> None:
    told = lab.run(two_card_lab, "-n")
    assert told.index(f"{FIRST} at $3/h") < told.index(f"{SECOND} at $4/h") < told.index("In all 2 sessions")
    assert not (two_card_lab / "results").exists()


STAND_IN = """
import argparse, json, os, time
from pathlib import Path
from rooflab.measure import program
from rooflab.measure.outcome import Measurement
from rooflab.measure.bench import Bench
from rooflab.measure.station import Station

def opener():
    card = {"name": "NVIDIA H200", "uuid": os.environ.get("CUDA_VISIBLE_DEVICES")}
    return Station(Bench(), card if given.spec["side"] == "gpu" else {"name": "CPU"})

def measure(spec, bench):
    with open("turns.jsonl", "a") as file:
        begin = time.monotonic()
        time.sleep(0.2)
        turn = {"side": spec["side"], "card": os.environ.get("CUDA_VISIBLE_DEVICES"), "begin": begin}
        file.write(json.dumps(turn | {"end": time.monotonic()}) + "\\n")
    return Measurement()

parser = argparse.ArgumentParser()
parser.add_argument("--spec", type=json.loads)
parser.add_argument("--out", type=Path)
parser.add_argument("--log")
parser.add_argument("--beside")
given = parser.parse_args()
program.run(measure, given.spec["side"], program.Job(given.spec, given.out), opener)
"""


@pytest.mark.parametrize("together", [False, True], ids=["one after the other", "at the same time"])
def test_a_run_over_two_cards(two_card_lab: Path, together: bool) -> None:
    """The real workflow, with stand-ins for the programs that would need the cards."""
    for program in (two_card_lab / "workflow" / "scripts" / "paid").glob("*.py"):
        program.write_text(STAND_IN)
    config = yaml.safe_load((two_card_lab / "config.yaml").read_text())
    for section in (config["decode"], config["cpu"]["decode"]):
        section |= {"dtypes": ["fp32"], "sequence_lengths": [16]}
    for section in (config["bandwidth"], config["cpu"]["bandwidth"]):
        section |= {"patterns": ["read"]}
    config["gemm"] |= {"dtypes": ["fp16"], "sizes": [4096]}
    config["cpu"]["gemm"] |= {"dtypes": ["fp32"], "sizes": [64]}
    configure(two_card_lab, **(config | {"parallel_gpus": together}))
    told = lab.run(two_card_lab, "--cores", "3", "measurements")
    turns = [json.loads(line) for line in (two_card_lab / "turns.jsonl").read_text().splitlines()]
    beside = [(a, b) for a in turns for b in turns if a is not b and a["begin"] <= b["begin"] < a["end"]]
    assert {(a["side"], b["side"]) for a, b in beside} == ({("gpu", "gpu")} if together else set())
    assert all(a["card"] != b["card"] for a, b in beside)
    assert ("They share the power supply" in told) is together
    for session, uuid in ((FIRST, ONE), (SECOND, TWO)):
        records = [
            json.loads(path.read_text()) for path in (two_card_lab / "results" / session / "gpu").rglob("*.json")
        ]
        assert {record["device"]["uuid"] for record in records} == {uuid}
        assert {record["environment"].get("cards_at_once") for record in records} == {2 if together else None}
    once = len([turn for turn in turns if turn["side"] == "cpu"])
    hosts = [len(list((two_card_lab / "results" / each / "cpu").rglob("*.json"))) for each in (FIRST, SECOND)]
    assert hosts == [once, once]
    assert "Nothing is left to measure." in lab.run(two_card_lab, "-n", "measurements")


def test_unset_it_is_the_machines_session_as_before(two_card_lab: Path) -> None:
    configure(two_card_lab, gpus=None)
    told = lab.run(two_card_lab, "-n")
    assert "nvidia-h200 " in told and FIRST not in told and "In all" not in told


def test_free_targets_ask_no_driver(two_card_lab: Path) -> None:
    lab.run(two_card_lab, "plot", "-n")
    lab.run(two_card_lab, "compare", "-n")
    assert not (two_card_lab / "cards.json.asked").exists()


def test_the_planned_sessions_of_a_hundred_cards_take_seconds(tmp_path: Path) -> None:
    """A hundred cards named in the config: all to be measured, then nothing."""
    folder = lab.copy_code(tmp_path / "lab")
    shutil.copy(lab.ROOT / "config.yaml", folder / "config.yaml")
    configure(folder, device="nvidia-h200", gpus=[uuid_of(number) for number in range(100)])
    told = within_limits(folder)
    assert name_of(99) in told and "In all 100 sessions" in told
    config = configuration.checked(yaml.safe_load((folder / "config.yaml").read_text()))
    names = [name_of(number) for number in range(100)]
    write_finished(folder / "results", names, measurements.session_points(config, with_gpu=True), FREE)
    assert "Nothing is left to measure." in within_limits(folder)


def within_limits(folder: Path) -> str:
    """The output of a dry-run within 1 GiB and 20 s, on a machine with other work to do half as much again."""
    used_s, peak_kib, told = lab_cost(folder, "-n", "--quiet", "rules")
    assert used_s < 30 and peak_kib < 2**20
    return told


def lab_cost(folder: Path, *arguments: str) -> tuple[float, int, str]:
    """Processor seconds, peak memory (KiB) and output of a Snakemake command."""
    out = folder.parent / "told.txt"
    with open(out, "wb") as file:
        process = lab.subprocess.Popen(
            lab.command(*arguments), cwd=folder, env=lab.environment(folder), stdout=file, stderr=file
        )
        _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, out.read_text()
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, out.read_text()

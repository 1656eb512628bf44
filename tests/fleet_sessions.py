"""Fleets that nobody has to rent: sessions of many cards, written as a run would have written them."""

import json
import os
from pathlib import Path
from typing import Any

import synthetic
from rooflab.derive.document import roofline
from rooflab.record.records import seal

Record = dict[str, Any]

RATES = ("burst", "sustained", "achieved_flop_per_s", "achieved_bytes_per_s")
TIMES = ("median_s", "p10_s", "p90_s", "min_s")


def uuid_of(number: int) -> str:
    return f"GPU-{number:08x}-1111-2222-3333-444444444444"


def name_of(number: int) -> str:
    return f"nvidia-h200-{number:08x}"


def changed(record: Record, speed: float = 1.0, **changes: Any) -> Record:
    """A record of a card that runs at `speed` times the rate of the synthetic one.

    `changes`: uuid, power_limit_w, driver, other_processes, cards_at_once, ecc_enabled, started_at; temperature_c and reasons
    (throttle reasons), both under load; sm_hz (the clock inside the timed blocks).
    """
    made = json.loads(json.dumps(record))
    for series in made["series"]:
        series["samples_s"] = [sample / speed for sample in series["samples_s"]]
        if "sm_hz" in changes:
            inside = dict.fromkeys(("sm_hz", "sm_hz_low", "sm_hz_high"), changes["sm_hz"])
            series["clock"] = inside | {"pairs": len(series["samples_s"]), "where": "inside", "reason": None}
        if series["chip"]["during"] and "temperature_c" in changes:
            series["chip"]["during"]["temperature_c"] = changes["temperature_c"]
        if series["chip"]["during"] and "reasons" in changes:
            series["chip"]["during"]["throttle_reasons"] = list(changes["reasons"])
    places = {"uuid": "device", "power_limit_w": "device", "driver": "environment", "other_processes": "environment"}
    places |= {"cards_at_once": "environment", "ecc_enabled": "details"}
    for key, value in changes.items():
        if key in places and (made["side"] == "gpu" or places[key] == "environment"):
            made[places[key]][key] = value
    made["started_at"] = changes.get("started_at", made["started_at"])
    if made["stage"] == "device":
        made["details"] |= {key: changes[key] for key in ("uuid", "power_limit_w") if key in changes}
    return seal(made)


def gpu_card(**changes: Any) -> list[Record]:
    """The records of a small session of one card."""
    kept = ("device", "read", "d2d", "write", "fp32-n4096", "fp16-n4096", "minigpt-fp32-S1024", "minigpt-fp16-S1024")
    return [changed(r, **changes) for r in synthetic.gpu_records() if r["name"] in kept]


def cpu_machine(**changes: Any) -> list[Record]:
    return [changed(r, **changes) for r in synthetic.cpu_records()]


def write(folder: Path, records: list[Record]) -> Path:
    """A finished session: its records and their roofline."""
    synthetic.write_session(folder, records)
    model = roofline(folder.name, synthetic.with_files(records), synthetic.planned(records))
    (folder / "roofline.json").write_text(json.dumps(model), encoding="utf-8")
    return folder


def write_fleet(results: Path, count: int, records: list[Record], slow: dict[int, dict[str, Any]]) -> None:
    """`count` cards of one model, alike within 1 %, but for the `slow` ones, whose records are `changed` so.

    The healthy ones share the files of the first: their rooflines differ, and a record's samples are read as fractions
    of their median.
    """
    first = write(results / name_of(0), [changed(r, uuid=uuid_of(0)) for r in records])
    text = (first / "roofline.json").read_text(encoding="utf-8")
    files = [path.relative_to(first) for path in first.rglob("*.json") if path.name != "roofline.json"]
    for number in range(1, count):
        folder = results / name_of(number)
        if number in slow:
            write(folder, [changed(r, uuid=uuid_of(number), **slow[number]) for r in records])
            continue
        for parent in {file.parent for file in files}:
            (folder / parent).mkdir(parents=True, exist_ok=True)
        for file in files:
            os.link(first / file, folder / file)
        made = _like(json.loads(text), 1 + 0.01 * ((number * 7919 % 1000) / 1000 - 0.5))
        made["devices"]["gpu"]["uuid"] = uuid_of(number)
        (folder / "roofline.json").write_text(json.dumps(made), encoding="utf-8")


def _like(model: Record, factor: float) -> Record:
    """The same model at `factor` times the speed."""
    for each in [*model["ceilings"], *model["points"]]:
        each |= {key: each[key] * factor for key in RATES if each.get(key)}
        each |= {key: each[key] / factor for key in TIMES if each.get(key)}
        if "burst_spread" in each:
            each["burst_spread"] = [value * factor for value in each["burst_spread"]]
    return model


def write_finished(results: Path, names: list[str], points: list[Any], free: list[str]) -> None:
    """Sessions in which nothing is left to do: a record of real size for every planned point, and the free files.

    All share the files of the first.
    """
    first = results / names[0]
    samples = [1e-5 * (1 + 0.01 * (number % 7)) + 1e-9 * number for number in range(1000)]
    for point in points:
        series = [synthetic.series(f"way {way}", "fused", 1e-5, samples_s=samples) for way in range(4)]
        spread = {"series": series} if point.stage == "decode" else {}
        made = synthetic.record(point.stage, point.side, point.name, spec=point.spec, **spread)
        path = first / point.file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(made), encoding="utf-8")
    for name in free:
        (first / name).write_text("{}", encoding="utf-8")
    files = [path.relative_to(first) for path in first.rglob("*") if path.is_file()]
    for folder in (results / name for name in names[1:]):
        for file in files:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            os.link(first / file, folder / file)

"""Every derived number of every committed session, computed anew from the raw samples, without the product's own code."""

import ast
import hashlib
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import expected
import pytest
import served
import timed
from timed import ROOT, Json, Session
from tops import ceilings, ridge_points, share

SESSIONS = sorted(path.parent for path in (ROOT / "results").glob("*/roofline.json"))
PRODUCT = {"rooflab", "free", "paid", "roofline", "synthetic", "lab"}

each_session = pytest.mark.parametrize("session", [Session(folder) for folder in SESSIONS], ids=lambda s: s.folder.name)


def same(said: Any, found: Any) -> bool:
    """Equal, numbers to nine digits."""
    if isinstance(said, bool) or isinstance(found, bool) or said is None or found is None or isinstance(found, str):
        return bool(said == found)
    if isinstance(found, dict):
        return all(same(said.get(key), value) for key, value in found.items())
    if isinstance(found, list):
        return len(said) == len(found) and all(map(same, said, found))
    return math.isclose(said, found, rel_tol=1e-9, abs_tol=0.0)


def differences(where: str, said: Json, found: Json) -> list[str]:
    """One line for each field of `found` that the product says otherwise or does not say."""
    return [
        f"{where}.{name}: {said.get(name, 'absent')!r} said, {value!r} found"
        for name, value in found.items()
        if name not in said or not same(said[name], value)
    ]


def compared(said: Iterable[tuple[Any, Json]], found: dict[Any, Json]) -> list[str]:
    """The differences of two collections, their keys included."""
    known = dict(said)
    lines = [f"{key}: only the product has it" for key in known.keys() - found.keys()]
    lines += [f"{key}: the product has none" for key in found.keys() - known.keys()]
    both = known.keys() & found.keys()
    return lines + [line for key in both for line in differences(str(key), known[key], found[key])]


def test_the_audit_uses_none_of_the_products_code() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not {name.split(".")[0] for name in names} & PRODUCT, path.name


def test_a_figure_that_is_off_in_the_sixth_digit_is_seen() -> None:
    found = {"id": {"burst": 8.15690682838713e14, "n": 4096, "tier": "L2", "spread": [1.0, 2.0]}}
    assert compared([("id", dict(found["id"]))], found) == []
    for wrong in ({"burst": 8.156907e14}, {"n": 4097}, {"tier": "HBM"}, {"spread": [1.0]}, {"burst": None}):
        assert len(compared([("id", found["id"] | wrong)], found)) == 1
    assert len(compared([("id", found["id"]), ("another", {})], found)) == len(compared([], found)) == 1


@pytest.mark.parametrize(
    ("cell", "value"), [("2.33", 2.33e-3), ("573 ns", 5.725e-7), ("79.9 %", 0.79904), ("3 GiB", 3 * 2**30)]
)
def test_a_cell_is_held_to_the_digits_it_shows(cell: str, value: float) -> None:
    scale = 1e-3 if cell == "2.33" else 1.0
    assert shows(cell, value, scale)
    assert not shows(cell, value * 1.01, scale)


def test_there_are_sessions_to_audit() -> None:
    assert {"nvidia-h200", "cpu-example"} <= {folder.name for folder in SESSIONS}


@each_session
def test_every_record_carries_the_hash_of_its_content_and_the_model_names_it(session: Session) -> None:
    for each in session.roofline["generated_from"]:
        record = json.loads((session.folder / each["file"]).read_text(encoding="utf-8"))
        assert timed.sealed(record) == record["sha256"] == each["sha256"], each["file"]


@each_session
def test_the_ceilings(session: Session) -> None:
    said = ((ceiling["id"], ceiling) for ceiling in session.roofline["ceilings"])
    assert compared(said, ceilings(session)) == []


@each_session
def test_the_ridge_points(session: Session) -> None:
    said = (((ridge["ceiling"], ridge["slope"]), ridge) for ridge in session.roofline["ridge_points"])
    assert compared(said, ridge_points(ceilings(session))) == []


@each_session
def test_the_launch_floors(session: Session) -> None:
    said = (((floor["side"], floor["launch"], floor["timing"]), floor) for floor in session.roofline["floors"])
    assert compared(said, expected.floors(session)) == []


@each_session
def test_the_points(session: Session) -> None:
    said = ((point["id"], point) for point in session.roofline["points"])
    assert compared(said, expected.points(session, ceilings(session))) == []


@each_session
def test_the_models_parts_steps_and_contexts(session: Session) -> None:
    found = served.models(session, ceilings(session))
    said = {(m["name"], m["dtype"], m["kv_dtype"]): m for m in session.roofline["models"]}
    assert said.keys() == found.keys()
    for key, model in found.items():
        own = said[key]
        lines = differences(str(key), own, {name: model[name] for name in ("weight_bytes", "compute_bound_batch")})
        lines += compared((((o["part"], o["batch"], o["length"]), o) for o in own["operators"]), model["parts"])
        lines += compared((((s["sequence"], s["batch"]), s) for s in own["steps"]), model["steps"])
        lines += compared(((c["sequence"], c) for c in own["contexts"]), model["contexts"])
        assert lines == []


@each_session
def test_the_sweeps(session: Session) -> None:
    found = served.sweeps(session, ceilings(session))
    said = {sweep["file"]: sweep for sweep in session.roofline["sweeps"]}
    assert said.keys() == found.keys()
    for file, points in found.items():
        assert compared(((point["batch"], point) for point in said[file]["points"]), points) == []
        low = min(points, key=lambda batch: float(points[batch]["fraction_of_attainable"]))
        gap = {"batch": low} | {key: points[low][key] for key in ("intensity", "fraction_of_attainable")}
        assert differences(file, said[file]["largest_gap"], gap) == []


@each_session
def test_the_rates_of_peak_flops(session: Session) -> None:
    said = json.loads((session.folder / "peak_flops.json").read_text(encoding="utf-8"))
    tops = ceilings(session)
    found = {}
    for name, (file, record) in expected.lab_gemm(session, said["side"]).items():
        vendor = session.vendor_flop_per_s(said["side"], name)
        ceiling = tops.get(f"{said['side']}-compute-{name}", {})
        rates = {series["name"]: timed.gemm_rate(record, series) for series in record["series"]}
        found[name] = {
            "file": file,
            "n": record["shape"]["n"],
            "vendor_flop_per_s": vendor,
            "lab_flop_per_s": rates.get("lab"),
            "burst_flop_per_s": rates.get("burst"),
            "burst_fraction_of_vendor": share(rates.get("burst"), vendor),
            "sustained_flop_per_s": ceiling.get("sustained"),
            "sustained_fraction_of_vendor": share(ceiling.get("sustained"), vendor),
        }
        for key in ("flop_per_s", "fraction_of_vendor", "n", "series"):
            found[name][f"fastest_burst_{key}"] = ceiling.get("burst" if key == "flop_per_s" else key)
    measured = ((name, dtype) for name, dtype in said["dtypes"].items() if dtype["status"] == "measured")
    assert compared(measured, found) == []


@each_session
def test_the_figures_of_the_first_check_and_of_paragraph_1(session: Session) -> None:
    side, tops = session.roofline["main_side"], ceilings(session)
    answers = session.roofline["answers"]["gemm"]["dtypes"]
    bursts = {}
    for name, said in answers.items():
        _, record = expected.lab_gemm(session, side)[name]
        rates = {each["name"]: timed.gemm_rate(record, each) for each in record["series"]}
        vendor, top = session.vendor_flop_per_s(side, name), tops[f"{side}-compute-{name}"]["burst"]
        ceiling = tops[f"{side}-compute-{name}"]
        long = ceiling["sustained"]
        registers = tops.get(f"{side}-compute-{name}_fma", {}).get("burst")
        found = {
            "achieved_flop_per_s": rates["lab"],
            "ceiling_flop_per_s": top,
            "fraction_of_ceiling": rates["lab"] / top,
            "ridge_intensity": top / tops[f"{side}-memory-read"]["burst"],
            "burst_flop_per_s": top,
            "sustained_flop_per_s": long,
            "burst_fraction_of_vendor": share(top, vendor),
            "sustained_fraction_of_vendor": share(long, vendor),
            "sustained_fraction_of_burst": share(long, top),
            "burst_fraction_of_instructions": share(top, registers),
            "clock_factor": ceiling["clock"]["factor"],
            "use_of_issue_rate": ceiling["use"]["of_issue_rate"],
        }
        assert differences(name, said, found) == []
        if name in expected.LAB and vendor:
            bursts[name] = rates["burst"] / vendor
    check = next(each for each in session.roofline["checks"] if each["name"] == "gemm_within_30_percent")
    assert check["value"] is None or differences("check", check["value"], bursts) == []


@each_session
def test_the_figures_of_paragraphs_2_and_3(session: Session) -> None:
    answers, side = session.roofline["answers"], session.roofline["main_side"]
    tops = ceilings(session)
    points = expected.points(session, tops)
    peak = tops.get("gpu-compute-fp16" if side == "gpu" else "cpu-compute-fp32", {}).get("burst")
    copy = tops.get("gpu-memory-d2d" if side == "gpu" else "cpu-memory-triad", {}).get("burst")
    steps = [step for own in answers["decode"]["dtypes"].values() for step in own["sequences"].values()]
    for said in [*steps, *answers["decode"]["large"].values()]:
        own = points[said["id"]]
        found = {
            "median_s": own["median_s"],
            "fraction_of_attainable": own["fraction_of_attainable"],
            "fraction_of_peak": share(own["achieved_flop_per_s"], peak),
            "fraction_of_copy": share(own["achieved_bytes_per_s"], copy),
        }
        assert differences(said["id"], said, found) == []
    for own in answers["decode"]["dtypes"].values():
        longest = list(own["sequences"].values())[-1]["id"]
        for rung in own["ladder"]:
            ratio = points[rung["id"]]["median_s"] / points[longest]["median_s"]
            assert differences(rung["id"], rung, {"time_over_lab": ratio}) == []
    lab = [points[step["id"]] for step in steps]
    used = [point["launch_floor_s"] for point in lab if point["launch_floor_s"] is not None]
    floors_used = {"launch_floor_low_s": min(used, default=None), "launch_floor_high_s": max(used, default=None)}
    assert differences("floors", answers["decode"], floors_used) == []
    for said in answers["cpu"]["sequences"].values():
        ratio = points[said["gpu"]]["achieved_flop_per_s"] / points[said["cpu"]]["achieved_flop_per_s"]
        of_main = {
            f"{each}_fraction_of_main_memory": points[said[each]]["achieved_bytes_per_s"]
            / tops[f"{each}-memory-read"]["burst"]
            for each in ("gpu", "cpu")
        }
        assert differences(said["gpu"], said, of_main | {"ratio": ratio}) == []
    slopes = {name: tops.get(name, {}).get("burst") for name in tops if "-memory-" in name}
    read = share(slopes.get("gpu-memory-read"), slopes.get("cpu-memory-read"))
    both = share(slopes.get("gpu-memory-d2d"), slopes.get("cpu-memory-triad"))
    assert differences("cpu", answers["cpu"], {"bandwidth_ratio_read": read, "bandwidth_ratio_copy": both}) == []


@each_session
def test_the_checks_count_what_lies_beyond_a_roof_or_a_physical_limit(session: Session) -> None:
    found = ceilings(session)
    placed = [*found.values(), *expected.points(session, found).values()]
    for model in served.models(session, found).values():
        placed += model["parts"].values()
    for points in served.sweeps(session, found).values():
        placed += points.values()
    check = next(each for each in session.roofline["checks"] if each["name"] == "physically_possible")
    assert check["value"] == sum(each["impossible"] for each in placed)


# The tables of the models' pages: a cell is compared at the digits it shows

SCALE = {
    "ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "%": 0.01, "": 1.0, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
    "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15, "MFLOP/s": 1e6,
}  # fmt: skip
CELL = re.compile(r"^(?P<number>[\d,.]+(?:e[-+]?\d+)?)(?: (?P<unit>\S+))?$")


def shows(cell: str, value: float | None, scale: float = 1.0) -> bool:
    """Whether a cell is `value` rounded to the digits it shows."""
    found = CELL.match(cell)
    if value is None or found is None or (found["unit"] or "") not in SCALE:
        return value is None and cell in ("–", "")
    text = found["number"].replace(",", "")
    digits = max(3, len(text.split("e")[0].replace(".", "").strip("0")))
    shown = float(text) * SCALE[found["unit"] or ""] * scale
    return math.isclose(shown, value, rel_tol=0.51 * 10 ** (1 - digits))


def tables(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """(header, rows) of every table of a Markdown page."""
    made = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        header, _, *rows = [[cell.strip() for cell in line.strip("|\n ").split(" | ")] for line in block.splitlines()]
        made.append((header, rows))
    return made


Cells = list[tuple[str, float | None, float]]  # a cell, its value, the scale of its unit


@each_session
def test_every_cell_of_the_models_tables(session: Session) -> None:
    tops, count = ceilings(session), 0
    swept = served.sweeps(session, tops)
    for (name, _, _), model in served.models(session, tops).items():
        page = (session.folder / f"model_{name}.md").read_text(encoding="utf-8")
        for header, rows in tables(page):
            for row in rows:
                checks = _cells(header, row, model, swept)
                wrong = [f"{cell} is not {value}" for cell, value, scale in checks if not shows(cell, value, scale)]
                assert (name, row, wrong) == (name, row, [])
                count += len(checks)
    assert count > 900 or not session.roofline["models"]


def _cells(header: list[str], row: list[str], model: Json, swept: dict[str, dict[int, Json]]) -> Cells:
    """The numbers of one row: of contexts, steps, parts or sweeps."""
    if "cache per sequence" in header:
        own = model["contexts"][int(row[0])]
        turn = "" if row[3] == "at no batch" else row[3].removeprefix("from batch ")
        plain = ("cache_bytes_per_sequence", "sequences_that_fit", "compute_bound_batch")
        return [(cell, own[key], 1.0) for cell, key in zip((*row[1:3], turn), plain, strict=True)]
    if "ms/token" in header:
        own = model["steps"][int(row[0]), int(row[1])]
        keys = ("measured_s", "attainable_s", "tokens_per_s", "attainable_tokens_per_s", "fraction_of_attainable")
        scales = (1e-3, 1e-3, 1.0, 1.0, 1.0)
        made = [(cell, own[key], scale) for cell, key, scale in zip(row[2:7], keys, scales, strict=True)]
        return [*made, (row[8], own["attention_share"], 1.0)]
    if header[0] == "part":
        own = model["parts"][row[0], int(row[1]), None if row[2] == "–" else int(row[2])]
        keys = ("median_s", "attainable_s", "fraction_of_attainable", "intensity")
        made = [(cell, own[key], 1.0) for cell, key in zip(row[4:8], keys, strict=True)]
        return [*made, (row[9], own["achieved_flop_per_s"], 1.0)]
    product = row[1].replace(" × ", "-k")
    own = next(points for file, points in swept.items() if file.startswith(f"gpu/sweep/{row[0]}-n{product}."))
    low = min(own, key=lambda batch: float(own[batch]["fraction_of_attainable"]))
    found = (low, own[low]["intensity"], own[low]["fraction_of_attainable"])
    return [(cell, value, 1.0) for cell, value in zip(row[3:], found, strict=True)]


# Hashes


@each_session
def test_the_sums_are_those_of_every_file_but_themselves_and_the_ledger(session: Session) -> None:
    text = (session.folder / "SHA256SUMS").read_text(encoding="utf-8")
    listed = dict(reversed(line.split(maxsplit=1)) for line in text.splitlines())
    files = {path.relative_to(session.folder).as_posix() for path in session.folder.rglob("*") if path.is_file()}
    assert files - listed.keys() == {"SHA256SUMS", "ledger.jsonl"} & files
    assert [file for file, sha256 in listed.items() if hashed(session.folder / file) != sha256] == []


@each_session
def test_the_manifest_hashes_what_lies_there_and_the_ledger_as_far_as_it_went(session: Session) -> None:
    said = json.loads((session.folder / "manifest.json").read_text(encoding="utf-8"))
    first = {each["file"]: each.get("bytes") for each in said["results"]}
    if first.get("ledger.jsonl", 0) is None:
        pytest.skip("a manifest that does not say how much of the ledger it hashed")
    wrong = [
        each["file"]
        for each in said["results"]
        if hashed(session.folder / each["file"], each.get("bytes")) != each["sha256"]
    ]
    assert wrong == []
    assert said["paid"]["paid_s"] == pytest.approx(timed.paid_s(session.folder / "ledger.jsonl"), rel=1e-9)


def hashed(path: Path, first_bytes: int | None = None) -> str:
    """SHA-256 of a file, or of its first bytes."""
    return hashlib.sha256(path.read_bytes()[:first_bytes]).hexdigest()

"""Which records speak for a session: one per measurement, the holes where there is none, and what to warn about."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rooflab.derive.told import told
from rooflab.record.document_types import Hole
from rooflab.record.names import series_of
from rooflab.record.records import key_of
from rooflab.record.types import Json, Planned, Reason, Record, Records, Told
from rooflab.theory.quantiles import spread

NOISE_LIMIT = 0.10  # samples further apart than this are named in the notes
# what of a record's environment may differ between two records without touching a number
NOT_A_VERSION = ("command", "git", "kernel", "program", "warnings")


# which record of a slot speaks, the first of these: an attempt that failed does not hide what was measured before it
ORDER = ((True, "measured"), (True, "unsupported"), (False, "measured"), (True, "failed"))


def select(records: Records, plan: Iterable[Planned]) -> dict[str, Record]:
    """One record for each (side, stage, name): planned before stale and measured before not, but a stale one that was measured
    before a planned one that failed; then the newest."""
    wanted = _wanted(plan)

    def rank(file: str) -> tuple[int, str, int]:
        record = records[file]
        kind = (_is_wanted(file, record, wanted), record["status"])
        return -ORDER.index(kind) if kind in ORDER else -len(ORDER), record["started_at"], record["attempt"]

    best: dict[tuple[str, str, str], str] = {}
    for file in sorted(records):
        slot = _slot(records[file])
        if slot not in best or rank(file) > rank(best[slot]):
            best[slot] = file
    return {file: records[file] for file in sorted(best.values())}


def outlived(records: Records, used: Records) -> list[Told]:
    """One for each record that is drawn although an attempt after it failed."""
    drawn = {_slot(record): record for record in used.values() if record["status"] == "measured"}
    return [
        told(
            "later_attempt_failed",
            where=f"{record['side']}/{record['stage']}",
            name=record["name"],
            drawn_at=shown["started_at"],
            failed_at=record["started_at"],
            reason=record["reason"],
        )
        for _, record in sorted(records.items())
        if record["status"] == "failed"
        and (shown := drawn.get(_slot(record)))
        and record["started_at"] > shown["started_at"]
    ]


def _wanted(plan: Iterable[Planned]) -> set[str]:
    """The planned files without their attempts, and their keys, under which a record of another name may lie."""
    return {each for item in plan for each in (series_of(item["file"]), _key(item["file"]))}


def _is_wanted(file: str, record: Record, wanted: set[str]) -> bool:
    return series_of(file) in wanted or key_of(record["spec"]) in wanted


def _key(file: str) -> str:
    return series_of(file).rpartition(".")[2]


def measured(records: Records, side: str, stage: str) -> dict[str, Record]:
    """The successful records of one stage on one side."""
    return {
        file: record
        for file, record in records.items()
        if (record["side"], record["stage"], record["status"]) == (side, stage, "measured")
    }


def description(records: Records, side: str) -> Json | None:
    """What the device record of `side` says, as it says it: description and identity; None without a record."""
    for record in measured(records, side, "device").values():
        return {**record["details"], **record["device"]}
    return None


def facts(records: Records, side: str) -> Json | None:
    """The description with what CUDA and NVML said side by side (CUDA first), and null for what the driver refused."""
    raw = description(records, side)
    if raw is None:
        return None
    merged = {**raw.get("nvml", {}), **raw.get("cuda", {}), **raw}
    return {
        name: None if isinstance(value, dict) and "unavailable" in value else value for name, value in merged.items()
    }


def main_side(records: Records, plan: Iterable[Planned]) -> str:
    """The side the session is about: gpu where it holds or plans anything of a GPU, else cpu."""
    sides = [record["side"] for record in records.values()] + [item["side"] for item in plan]
    return "gpu" if "gpu" in sides else "cpu"


def holes(records: Records, plan: Iterable[Planned]) -> list[Hole]:
    """What the session does not know: planned without a record ("missing"), failed, unsupported; by file."""
    present = {_slot(record) for record in records.values()}
    keys = {key_of(record["spec"]) for record in records.values()}
    found = [
        _hole(item["file"], item, "missing", told("not_measured_yet"), "snakemake --cores 1")
        for item in plan
        if _slot(item) not in present and _key(item["file"]) not in keys
    ]
    for file, record in records.items():
        if record["status"] != "measured":
            found.append(_hole(file, record, record["status"], record["reason"], record["remedy"]))
    return sorted(found, key=lambda hole: hole["file"])


def notes(records: Records, plan: Iterable[Planned]) -> list[Told]:
    """What a reader must know before trusting a comparison inside this session."""
    return [
        *_mixed_devices(records),
        *_together(records),
        *_mixed_versions(records),
        *_stale(records, plan),
        *_noisy(records),
        *_warned(records),
    ]


def environments(records: Iterable[Record]) -> dict[str, list[Any]]:
    """Every distinct value of each entry of the records' environments, by dotted name; nulls left out."""
    seen: dict[str, list[Any]] = {}
    for record in records:
        for name, value in _flat(record["environment"], ""):
            if value is not None and value not in seen.setdefault(name, []):
                seen[name].append(value)
    return {name: sorted(values, key=str) for name, values in sorted(seen.items()) if values}


def _flat(entries: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _slot(item: Planned | Record) -> tuple[str, str, str]:
    return item["side"], item["stage"], item["name"]


def _hole(file: str, item: Planned | Record, status: str, reason: Reason | None, remedy: str | None) -> Hole:
    return {
        "file": file,
        "stage": item["stage"],
        "name": item["name"],
        "side": item["side"],
        "status": status,
        "reason": reason,
        "remedy": remedy,
    }


def _mixed_devices(records: Records) -> list[Told]:
    made = []
    for side in ("gpu", "cpu"):
        known = {str(r["device"].get("uuid") or r["device"].get("name")) for r in records.values() if r["side"] == side}
        if len(known) > 1:
            made.append(told("several_devices", side=side, count=len(known), devices=sorted(known)))
    return made


def _together(records: Records) -> list[Told]:
    counts = sorted({count for r in records.values() if (count := r["environment"].get("cards_at_once"))})
    return [told("together", count=count - 1) for count in counts]


def _mixed_versions(records: Records) -> list[Told]:
    made = []
    for side in ("gpu", "cpu"):
        known = environments([record for record in records.values() if record["side"] == side])
        versions = {name: values for name, values in known.items() if name.split(".")[0] not in NOT_A_VERSION}
        made += [
            told("several_versions", side=side, what=name, values=values)
            for name, values in versions.items()
            if len(values) > 1
        ]
    return made


def _stale(records: Records, plan: Iterable[Planned]) -> list[Told]:
    """One a side and stage: how many of its records the configuration no longer asks for."""
    items = list(plan)
    slots, wanted = {_slot(item) for item in items}, _wanted(items)
    old = (r for file, r in records.items() if _slot(r) in slots and not _is_wanted(file, r, wanted))
    counts = Counter(f"{record['side']}/{record['stage']}" for record in old)
    return [told("other_parameters", where=where, count=count) for where, count in sorted(counts.items())]


def _noisy(records: Records) -> list[Told]:
    """One a side, stage and series: how many of its runs scatter, and how much."""
    found: dict[tuple[str, str], list[float]] = {}
    for record in records.values():
        for series in record["series"]:
            if (share := spread(series["samples_s"])) > NOISE_LIMIT:
                found.setdefault((f"{record['side']}/{record['stage']}", series["name"]), []).append(share)
    return [
        told("spread", where=where, series=series, share=max(shares), count=len(shares))
        for (where, series), shares in sorted(found.items(), key=lambda item: ": ".join(item[0]))
    ]


def _warned(records: Records) -> list[Told]:
    """What preflight warned of before measuring, once a side, with the number of measurements it holds for."""
    heard = Counter(
        (record["side"], text) for record in records.values() for text in record["environment"].get("warnings", [])
    )
    return [
        told("warned", side=side, text_of_it=text, count=count) if count > 1
        else told("warned_once", side=side, text_of_it=text, count=count)
        for (side, text), count in sorted(heard.items())
    ]  # fmt: skip

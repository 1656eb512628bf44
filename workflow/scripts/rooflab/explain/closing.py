"""The closing lines of a run: the Checks, what was paid, and the reminder that the instance is still running."""

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rooflab.explain import model_line, terminal, text_roofline
from rooflab.look import words
from rooflab.look.voice import Voice
from rooflab.record import sums
from rooflab.record.say import say

ENGLISH = Voice("en")
MARK = {"pass": "pass", "fail": "FAIL", "not applicable": "n/a "}


REMINDER = (
    "The instance is still running: terminate it when you are done. Then, on any machine with results/: "
    "snakemake --cores 1 terminated"
)


def show(session_dirs: list[Path], rented: bool, measured: Collection[str] = ()) -> None:
    """Prints the summary of each session that has a manifest, those that this run `measured` whatever else lies there; a
    session of its own with a small roofline."""
    made = {folder: _read(path) for folder in session_dirs if (path := folder / "manifest.json").exists()}
    own = [folder.name in measured for folder in made]
    full = [lines(folder, manifest) + model_line.of_session(folder) for folder, manifest in made.items()]
    short = [brief(folder, manifest) for folder, manifest in made.items()]
    alone = [folder for folder, mine in zip(made, own, strict=True) if mine or len(made) == 1]
    drawing = (
        text_roofline.lines(_read(alone[0] / "roofline.json"), getattr(sys.stdout, "encoding", None))
        if len(alone) == 1
        else []
    )
    told = terminal.fitted(full, short, drawing, ["", REMINDER] if rented else [], own)
    if told:
        say("\n".join(told))


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def brief(folder: Path, manifest: dict[str, Any]) -> str:
    """One line where there are too many sessions: how many Checks pass, and what was paid."""
    states = [check["status"] for check in manifest["checks"]]
    return (
        f"{folder.name}: {states.count('pass')} of {len(states)} Checks pass, {paid_lines(manifest['paid'])[0].strip()}"
    )


def lines(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """The session's Checks one by one, then paid seconds and dollars, in all and per stage."""
    files = f"{folder}/report.html, roofline.png, interpretation.md, manifest.json"
    told = ["", f"{folder.name}: {files}", *map(_check, manifest["checks"]), *sums_lines(folder)]
    told += paid_lines(manifest["paid"])
    return told + ([f"  {closing_line(closing)}"] if (closing := manifest.get("terminated")) else [])


def sums_lines(folder: Path) -> list[str]:
    """Whether every file of the session is as it was written."""
    if not (folder / sums.NAME).exists():
        return []
    differing = sums.differences(folder)
    if not differing:
        return [f"  pass  every file is as {sums.NAME} says"]
    more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    return [
        f"  FAIL  {folder}/{sums.NAME}: {differing[0]}{more} since it was written; to see all: sha256sum -c {sums.NAME} there"
    ]


def paid_lines(paid: dict[str, Any]) -> list[str]:
    """Paid wall seconds and dollars; beneath, what the stages took of it, the rest being start-ups' gaps and free rules."""
    cost = "no price given" if paid["usd"] is None else f"${paid['usd']:.4f}"
    rest = paid["paid_s"] - sum(paid["stages"].values())
    stages = [f"{stage} {seconds:.1f}" for stage, seconds in paid["stages"].items()]
    return [f"  paid {paid['paid_s']:.1f} s, {cost}", f"    {', '.join([*stages, f'around them {rest:.1f}'])}"]


def closing_line(record: dict[str, Any]) -> str:
    """The lab's last item: the instance is terminated, and its total cost."""
    usd = record["total_usd"]
    cost = "total cost unknown: no price was given" if usd is None else f"total cost ${usd:.2f}"
    return f"instance terminated at {record['terminated_at']}, {cost}"


def _check(check: dict[str, Any]) -> str:
    told = ENGLISH.reason(check["reason"]) if check["status"] == "not applicable" else _value(check)
    advice = f"; {ENGLISH.reason(check['advice'])}" if check["advice"] else ""
    title = ENGLISH.say(f"check.{check['name']}")
    return f"  {MARK[check['status']]}  {title}: {told}{advice}"


def _value(check: dict[str, Any]) -> str:
    return f"{terminal.plain(check['value'])} (limit {words.exact(check['limit'])})"

"""The closing lines of a run: the Checks, what was paid, and the reminder that the instance is still running."""

import json
from pathlib import Path
from typing import Any

MARK = {"pass": "pass", "fail": "FAIL", "not applicable": "n/a "}


def show(session_dirs: list[Path], rented: bool) -> None:
    """Prints the summary of each session that has a manifest."""
    for folder in session_dirs:
        path = folder / "manifest.json"
        if path.exists():
            print("\n".join(lines(folder, json.loads(path.read_text(encoding="utf-8")))), flush=True)
    if rented:
        print("The instance is still running: terminate it when you are done.", flush=True)


def lines(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """The session's Checks one by one, then paid seconds and dollars."""
    paid = manifest["paid"]
    cost = "no price given" if paid["usd"] is None else f"${paid['usd']:.4f}"
    files = f"{folder}/roofline.png, interpretation.md, manifest.json"
    return ["", f"{folder.name}: {files}", *map(_check, manifest["checks"]), f"  paid {paid['paid_s']:.1f} s, {cost}"]


def _check(check: dict[str, Any]) -> str:
    told = check["reason"] if check["status"] == "not applicable" else _value(check)
    advice = f"; {check['advice']}" if check["status"] == "fail" and check["advice"] else ""
    return f"  {MARK[check['status']]}  {check['title']}: {told}{advice}"


def _value(check: dict[str, Any]) -> str:
    return f"{check['value']} (limit {check['limit']})"

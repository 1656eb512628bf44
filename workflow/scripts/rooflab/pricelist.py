"""The price list: what the pending measurements will take, in seconds and dollars. Printed by a dry-run and before a real run."""

import json
import logging
import os
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from rooflab import ledger, plan


@dataclass(frozen=True)
class Pending:
    """One stage's part of the bill."""

    stage: str
    jobs: int
    seconds: float
    retries: int


def price_of(config: dict[str, Any], session: str) -> float | None:
    """Dollars per hour of a session, or None where no price is known."""
    price = config["price_usd_per_hour"]
    found = price.get(session) if isinstance(price, dict) else price
    return None if found is None else float(found)


def seconds_of(point: plan.Point, session_dir: Path) -> float:
    """This session's own records of the same stage where there are some, else the protocol's own plan."""
    known = [_seconds(path) for path in (session_dir / point.side).rglob("*.json") if _like(path, point)]
    measured = [seconds for seconds in known if seconds is not None]
    if measured:
        return plan.START_UP_S[point.side] + mean(measured)
    return plan.protocol_s(point)


def _like(path: Path, point: plan.Point) -> bool:
    return (path.parent.name if path.parent.name != point.side else path.name.split(".")[0]) == point.stage


def _seconds(path: Path) -> float | None:
    try:
        return float(json.loads(path.read_text())["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def pending(files: list[str], points: dict[str, plan.Point]) -> dict[str, list[Pending]]:
    """Per session, per stage: jobs and seconds of the paid files about to be measured."""
    grouped: dict[tuple[str, str], list[tuple[float, bool]]] = defaultdict(list)
    for file in files:
        session, below = Path(file).parts[1], "/".join(Path(file).parts[2:])
        first = re.sub(r"\.\d+\.json$", ".json", below)
        if first in points:
            point = points[first]
            cost = seconds_of(point, Path(file).parents[len(Path(file).parts) - 3])
            grouped[session, f"{point.side} {point.stage}"].append((cost, first != below))
    bill: dict[str, list[Pending]] = defaultdict(list)
    for (session, stage), costs in grouped.items():
        bill[session].append(Pending(stage, len(costs), sum(c for c, _ in costs), sum(again for _, again in costs)))
    return bill


def table(session: str, rows: list[Pending], price: float | None, paid: dict[str, Any], budget: float | None) -> str:
    """The bill of one session as text for the terminal."""
    total = sum(row.seconds for row in rows)
    lines = [
        f"To measure in {session}" + (f" at ${price:g}/h:" if price is not None else " (no price given: seconds only):")
    ]
    for row in rows:
        again = f"  ({row.retries} retried after a failure)" if row.retries else ""
        lines.append(f"  {row.stage:<18}{row.jobs:>4} jobs {row.seconds:>7.1f} s{_usd(row.seconds, price)}{again}")
    lines.append(f"  {'total':<18}{sum(r.jobs for r in rows):>4} jobs {total:>7.1f} s{_usd(total, price)}")
    lines.append(
        f"  already paid: {paid['paid_s']:.1f} s" + (f", ${paid['usd']:.4f}" if paid["usd"] is not None else "")
    )
    if budget is not None and price is not None:
        left = budget - (paid["usd"] or 0)
        lines.append(f"  budget left: ${left:.4f} of ${budget:g}")
    return "\n".join(lines)


def _usd(seconds: float, price: float | None) -> str:
    return "" if price is None else f"  ${seconds / 3600 * price:.4f}"


class PriceList(logging.Handler):
    """Listens for Snakemake's job table and prints the bill after it; stops a real run that would exceed the budget."""

    def __init__(
        self, workflow: Any, config: dict[str, Any], results: Path, points: dict[str, plan.Point], dryrun: bool
    ):
        super().__init__()
        self.workflow, self.config, self.results, self.points, self.dryrun = workflow, config, results, points, dryrun
        self.shown = False

    def emit(self, record: logging.LogRecord) -> None:
        nothing = "Nothing to be done" in str(record.msg)
        if self.shown or not (nothing or str(getattr(record, "event", "")).endswith("run_info")):
            return
        self.shown = True
        files = [] if nothing else [str(f) for job in self.workflow.dag.needrun_jobs() for f in job.output]
        stop = self._print(pending(files, self.points))
        if stop and not self.dryrun:
            sys.exit(stop)

    def _print(self, bill: dict[str, list[Pending]]) -> str | None:
        out = sys.stdout if self.dryrun else sys.stderr
        if not bill:
            print("Nothing is left to measure.", file=out, flush=True)
        stop = None
        for session, rows in bill.items():
            price, budget = price_of(self.config, session), self.config["budget_usd"]
            paid = ledger.summary(self.results / session / "ledger.jsonl")
            print(table(session, rows, price, paid, budget), file=out, flush=True)
            os.environ["ROOFLAB_PRICE_USD_PER_HOUR"] = "" if price is None else str(price)
            stop = stop or _over(session, rows, price, paid, budget)
        return stop


def _over(
    session: str, rows: list[Pending], price: float | None, paid: dict[str, Any], budget: float | None
) -> str | None:
    """One line when the pending work does not fit the budget."""
    if price is None or budget is None:
        return None
    cost = sum(row.seconds for row in rows) / 3600 * price
    over = (paid["usd"] or 0) + cost - budget
    if over <= 0:
        return None
    return f"{session}: the pending ${cost:.4f} exceed the budget of ${budget:g} by ${over:.4f}; nothing was measured (raise budget_usd)"


def install(workflow: Any, config: dict[str, Any], results: Path, points: dict[str, plan.Point], dryrun: bool) -> None:
    """Hangs the price list on Snakemake's logger, once."""
    from snakemake.logging import logger

    for old in [h for h in logger.handlers if type(h).__name__ == "PriceList"]:
        logger.removeHandler(old)
    logger.addHandler(PriceList(workflow, config, results, points, dryrun))

"""The price list: hangs on Snakemake's logger, prints the bill after the job table, and enters a real run in the ledger."""

import atexit
import contextlib
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rooflab.cost import bill
from rooflab.plan.points import Point
from rooflab.record import handover, ledger
from rooflab.record.names import is_paid
from rooflab.record.say import say
from rooflab.run.asked import Asked
from rooflab.run.console import listen
from rooflab.run.places import Places
from rooflab.run.refusals import refuse_force


class PriceList(logging.Handler):
    """Listens for Snakemake's job table and prints the bills after it; stops a real run that would exceed the budget."""

    def __init__(self, asked: Asked, places: Places, config: dict[str, Any], results: Path, points: dict[str, Point]):
        super().__init__()
        self.asked, self.config, self.results, self.points = asked, config, results, points
        self.device_of, self.shown = places.device_of, False

    def emit(self, record: logging.LogRecord) -> None:
        nothing = "Nothing to be done" in str(record.msg)
        if self.shown or not (nothing or str(getattr(record, "event", "")).endswith("run_info")):
            return
        self.shown = True
        jobs = [] if nothing else list(self.asked.workflow.dag.needrun_jobs())
        refuse_force(jobs)
        if self.asked.dryrun and (told := free_jobs(jobs)):
            say(told)
        if not self.asked.measures:  # a free target knows nothing of what is left
            return
        files = [str(file) for job in jobs for file in job.output]
        bills = bill.draw_up(files, self.points, self.config, self.results, self.device_of)
        say(self._text(bills), sys.stdout if self.asked.dryrun else sys.stderr)
        if not self.asked.dryrun:
            self._begin(bills)

    def _text(self, bills: list[bill.Bill]) -> str:
        if not bills:
            return "Nothing is left to measure."
        stop = bill.over_budget(bills) if len(bills) > 1 else None
        together = [bill.sum_line(bills)] if len(bills) > 1 else []
        return "\n".join([*map(bill.text, bills), *together, *([stop] if stop else [])])

    def _begin(self, bills: list[bill.Bill]) -> None:
        if (stop := bill.over_budget(bills)) is not None:
            sys.exit(stop)
        run = f"{os.getpid()}-{int(time.time())}"
        handover.leave(handover.RUN, run)
        handover.leave(handover.PRICES, {each.session: each.price_usd_per_hour for each in bills})
        for each in bills:
            _enter(self.results / each.session / "ledger.jsonl", run, each.price_usd_per_hour)


def free_jobs(jobs: Iterable[Any]) -> str:
    """The pending jobs that cost nothing, counted by rule: Snakemake's own table is hidden. Empty where there are none."""
    free = Counter(str(job.rule.name) for job in jobs if job.output and not any(map(is_paid, job.output)))
    return f"To draw and write, free: {', '.join(f'{rule} {count}' for rule, count in free.items())}" if free else ""


def _enter(book: Path, run: str, price: float | None) -> None:
    """Writes the run's start now and its end when this process ends; a killed one leaves no end."""
    try:
        ledger.append(book, ledger.RUN_START, run=run, launched=ledger.launched(), price_usd_per_hour=price)
    except OSError as error:
        sys.exit(
            f"{book}: cannot be written ({error.strerror}): nothing was measured; make the folder writable, or free some space"
        )
    atexit.register(_leave, book, run)


def _leave(book: Path, run: str) -> None:
    with contextlib.suppress(OSError):
        ledger.append(book, ledger.RUN_END, run=run)


def install(asked: Asked, places: Places, config: dict[str, Any], results: Path, points: dict[str, Point]) -> None:
    """Hangs the price list on Snakemake's logger, once."""
    listen(PriceList(asked, places, config, results, points))

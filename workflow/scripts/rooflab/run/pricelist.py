"""The price list: hangs on Snakemake's logger, prints the bill after the job table, and enters a real run in the ledger."""

import atexit
import contextlib
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rooflab.cost import bill
from rooflab.plan.measurements import Point
from rooflab.record import ledger


class PriceList(logging.Handler):
    """Listens for Snakemake's job table and prints the bills after it; stops a real run that would exceed the budget."""

    def __init__(
        self,
        workflow: Any,
        config: dict[str, Any],
        results: Path,
        points: dict[str, Point],
        dryrun: bool,
        measures: Callable[[], bool],
    ):
        super().__init__()
        self.workflow, self.config, self.results, self.points = workflow, config, results, points
        self.dryrun, self.measures, self.shown = dryrun, measures, False

    def emit(self, record: logging.LogRecord) -> None:
        nothing = "Nothing to be done" in str(record.msg)
        if self.shown or not (nothing or str(getattr(record, "event", "")).endswith("run_info")):
            return
        self.shown = True
        if not self.measures():  # a free target knows nothing of what is left
            return
        files = [] if nothing else [str(f) for job in self.workflow.dag.needrun_jobs() for f in job.output]
        bills = bill.draw_up(files, self.points, self.config, self.results)
        print(self._text(bills), file=sys.stdout if self.dryrun else sys.stderr, flush=True)
        if not self.dryrun:
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
        os.environ["ROOFLAB_RUN"] = run
        os.environ["ROOFLAB_PRICES"] = json.dumps({each.session: each.price_usd_per_hour for each in bills})
        for each in bills:
            _enter(self.results / each.session / "ledger.jsonl", run, each.price_usd_per_hour)


def _enter(book: Path, run: str, price: float | None) -> None:
    """Writes the run's start now and its end when this process ends; a killed one leaves no end."""
    try:
        ledger.append(book, "run start", run=run, launched=ledger.launched(), price_usd_per_hour=price)
    except OSError as error:
        sys.exit(
            f"{book}: cannot be written ({error.strerror}): nothing was measured; make the folder writable, or free some space"
        )
    atexit.register(_leave, book, run)


def _leave(book: Path, run: str) -> None:
    with contextlib.suppress(OSError):
        ledger.append(book, "run end", run=run)


def install(
    workflow: Any,
    config: dict[str, Any],
    results: Path,
    points: dict[str, Point],
    dryrun: bool,
    measures: Callable[[], bool],
) -> None:
    """Hangs the price list on Snakemake's logger, once. `measures` tells whether the targets asked for may measure."""
    from snakemake.logging import logger

    for old in [h for h in logger.handlers if type(h).__name__ == "PriceList"]:
        logger.removeHandler(old)
    logger.addHandler(PriceList(workflow, config, results, points, dryrun, measures))

"""The bill before it is run up: per stage the pending measurements, their seconds and dollars, and why they are pending."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflab.cost import estimates
from rooflab.cost.estimates import Past
from rooflab.plan.points import Point, Spec
from rooflab.record import ledger
from rooflab.record.names import first_attempt
from rooflab.record.records import key_of

MOST_REASONS = 4


@dataclass
class Row:
    """One stage's part of the bill."""

    stage: str
    jobs: int = 0
    seconds: float = 0.0
    retries: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass
class Bill:
    """What a session still has to pay, and has paid: seconds, and dollars where a price is known."""

    session: str
    price_usd_per_hour: float | None
    budget_usd: float | None
    rows: list[Row] = field(default_factory=list)
    around_s: float = 0.0
    paid_s: float = 0.0
    paid_usd: float | None = None
    basis: str | None = None

    @property
    def jobs(self) -> int:
        return sum(row.jobs for row in self.rows)

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows) + (self.around_s if self.rows else 0.0)

    def usd(self, seconds: float) -> float | None:
        return None if self.price_usd_per_hour is None else seconds / 3600 * self.price_usd_per_hour

    @property
    def left_usd(self) -> float | None:
        """What the budget still allows; None without a price or a budget."""
        if self.budget_usd is None or self.price_usd_per_hour is None:
            return None
        return self.budget_usd - (self.paid_usd if self.paid_usd is not None else self.usd(self.paid_s) or 0.0)

    @property
    def over_usd(self) -> float:
        """By how much the pending work exceeds what the budget still allows; 0 where it fits or nothing is pending."""
        if self.left_usd is None or not self.rows:
            return 0.0
        return max(0.0, (self.usd(self.seconds) or 0.0) - self.left_usd)


def price_of(config: dict[str, Any], session: str) -> float | None:
    """Dollars per hour of a session, or None where no price is known."""
    price = config["price_usd_per_hour"]
    found = price.get(session) if isinstance(price, dict) else price
    return None if found is None else float(found)


def draw_up(
    files: list[str],
    points: dict[str, Point],
    config: dict[str, Any],
    results: Path,
    device_of: Callable[[str], str] = str,
) -> list[Bill]:
    """One bill per session among `files` that are about to be made (the paid ones: `results/<session>/<point's file>`).

    `device_of` tells what a session is measured on, named as the device's own session would be: its name may be another.
    """
    pending: dict[str, dict[str, str]] = defaultdict(dict)
    for path in (Path(file).relative_to(results) for file in files if Path(file).is_relative_to(results)):
        below = "/".join(path.parts[1:])
        pending[path.parts[0]][first_attempt(below)] = below
    bills = []
    for session, belows in sorted(pending.items()):
        planned = [(belows[first], point) for first, point in points.items() if first in belows]
        bills += (
            [_bill(session, planned, config, estimates.past(results / session, device_of(session)))] if planned else []
        )
    return bills


def _bill(session: str, planned: list[tuple[str, Point]], config: dict[str, Any], known: Past) -> Bill:
    rows: dict[str, Row] = {}
    for below, point in planned:
        stage = f"{point.side} {point.stage}"
        row = rows.setdefault(stage, Row(stage))
        row.jobs += 1
        row.seconds += estimates.seconds_of(point, known)
        row.retries += below != point.file()
        if (reason := why(point, known)) is not None:
            row.reasons[reason] += 1
    runs = known.runs
    paid_s, price = sum(run.seconds for run in runs), price_of(config, session)
    basis = known.machine.basis if any(point.side == "gpu" for _, point in planned) else None
    rows_ = list(rows.values())
    return Bill(session, price, config["budget_usd"], rows_, known.around_s, paid_s, ledger.usd(runs), basis)


def why(point: Point, known: Past) -> str | None:
    """Why a point is pending although a record of it lies there: it failed, or other parameters made another file of it."""
    same = [r for r in known.records if (r["stage"], r["side"], r["name"]) == (point.stage, point.side, point.name)]
    failed = [r for r in same if key_of(r["spec"]) == point.key and r["status"] == "failed"]
    if failed:
        return f"failed: {failed[-1]['reason']}"
    changes = [list(changed(record["spec"], point.spec)) for record in same if record["spec"] != point.spec]
    return ", ".join(sorted(changes, key=len)[0]) if changes else None


def changed(old: Spec, new: Spec, prefix: str = "") -> Iterator[str]:
    """The parameters that differ, as `iterations 100 -> 50`, `geometry.heads 8 -> 4`."""
    for name in [*old, *(each for each in new if each not in old)]:
        before, after = old.get(name), new.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from changed(before, after, f"{prefix}{name}.")
        elif before != after:
            yield f"{prefix}{name} {_told(before)} -> {_told(after)}"


def _told(value: Any) -> str:
    return "none" if value is None else str(value)


def text(bill: Bill) -> str:
    """The bill of one session for the terminal."""
    price = bill.price_usd_per_hour
    lines = [
        f"To measure in {bill.session}"
        + (f" at ${price:g}/h:" if price is not None else " (no price given: seconds only):")
    ]
    for row in bill.rows:
        again = f"  ({row.retries} retried after a failure)" if row.retries else ""
        lines.append(f"{_line(bill, row.stage, row.jobs, row.seconds)}{again}")
        lines += [f"      {reason} ({count} of {row.jobs})" for reason, count in row.reasons.most_common(MOST_REASONS)]
    lines.append(f"  {'planning':<18}{'':>9} {bill.around_s:>7.1f} s{_usd(bill.usd(bill.around_s))}")
    lines.append(_line(bill, "total", bill.jobs, bill.seconds))
    if bill.basis is not None:
        lines.append(f"  {bill.basis}")
    return "\n".join([*lines, *paid_lines(bill)])


def paid_lines(bill: Bill) -> list[str]:
    """What is already paid, and what is left of the budget."""
    today_usd = bill.usd(bill.paid_s) if bill.paid_s else None
    known = [(bill.paid_usd, ""), (today_usd, " at today's price")]
    cost = next((f", ${usd:.4f}{how}" for usd, how in known if usd is not None), "")
    lines = [f"  already paid: {bill.paid_s:.1f} s{cost}"]
    if bill.left_usd is not None:
        lines.append(f"  budget left: ${bill.left_usd:.4f} of ${bill.budget_usd:g}")
    if bill.over_usd > 0:
        lines.append(f"  over it by ${bill.over_usd:.4f}: a run stops before it measures (raise budget_usd)")
    return lines


def _line(bill: Bill, name: str, jobs: int, seconds: float) -> str:
    return f"  {name:<18}{jobs:>4} jobs {seconds:>7.1f} s{_usd(bill.usd(seconds))}"


def _usd(usd: float | None) -> str:
    return "" if usd is None else f"  ${usd:.4f}"


def sum_line(bills: list[Bill]) -> str:
    """The total over several sessions."""
    dollars = [bill.usd(bill.seconds) for bill in bills]
    usd = None if None in dollars else sum(each or 0.0 for each in dollars)
    seconds = sum(bill.seconds for bill in bills)
    return f"In all {len(bills)} sessions: {sum(bill.jobs for bill in bills)} jobs {seconds:.1f} s{_usd(usd)}"


def over_budget(bills: list[Bill]) -> str | None:
    """One line when the pending work of a run, all its sessions together, does not fit the budget or has no price."""
    budget = next((bill.budget_usd for bill in bills if bill.budget_usd is not None), None)
    unpriced = [bill.session for bill in bills if bill.price_usd_per_hour is None]
    if budget is None:
        return None
    if unpriced:
        return f"{', '.join(unpriced)}: budget_usd is given, and no price: add it to price_usd_per_hour; nothing was measured"
    pending = sum(bill.usd(bill.seconds) or 0.0 for bill in bills)
    spent = sum(budget - (bill.left_usd if bill.left_usd is not None else budget) for bill in bills)
    over = pending + spent - budget
    if over <= 0:
        return None
    return (
        f"{', '.join(bill.session for bill in bills)}: the pending ${pending:.4f} exceed the budget of ${budget:g} by "
        f"${over:.4f}; nothing was measured (raise budget_usd)"
    )

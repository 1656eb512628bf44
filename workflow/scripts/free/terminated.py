"""Records the lab's last item: the instance is terminated, and what it cost in all. Asks nothing and measures nothing."""

import argparse
from pathlib import Path
from typing import Any

from rooflab.cost import bill
from rooflab.explain.closing import closing_line
from rooflab.record import environment, handover, ledger
from rooflab.record.publish import write_json


def closing(
    session: str, paid: dict[str, Any], given_usd: float | None, price: float | None, now: str
) -> dict[str, Any]:
    """The record: the cost that was given, else what the ledger's seconds cost at their prices, else at `price` per hour.

    `total_usd` is null where there is none of the three; `total_usd_from` says which it was.
    """
    known = [
        (given_usd, "given"),
        (paid["usd"], "ledger"),
        (None if price is None else paid["paid_s"] / 3600 * price, "ledger seconds at the configured price"),
        (None, "no price known"),
    ]
    usd, source = next(pair for pair in known if pair[0] is not None or pair is known[-1])
    return {
        "schema": "terminated",
        "schema_version": 1,
        "session": session,
        "terminated_at": now,
        "total_usd": usd,
        "total_usd_from": source,
        "paid_s": paid["paid_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--session-dir", required=True, type=Path)
    parser.add_argument("--out", required=True, type=Path)
    given = parser.parse_args()
    asked = handover.mapping(handover.CLOSING)
    session = given.session_dir.name
    record = closing(
        session,
        ledger.summary(given.session_dir / "ledger.jsonl"),
        asked["terminated_usd"],
        bill.price_of(asked, session),
        environment.now_iso(),
    )
    write_json(given.out, record)
    print(f"{session}: {closing_line(record)}", flush=True)


if __name__ == "__main__":
    main()

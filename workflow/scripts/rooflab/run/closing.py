"""The lab's last item: the instance is terminated. Which session that means, and whether it contradicts what was said before."""

import sys
from functools import cached_property
from pathlib import Path
from typing import Any

from rooflab.plan import session
from rooflab.record import ledger
from rooflab.record.records import RecordError
from rooflab.record.say import say
from rooflab.record.terminated import closing_record
from rooflab.run.asked import Asked
from rooflab.run.places import Places

RECORD = "terminated.json"


class Closing:
    """The input functions of `terminated` and of the manifest, which quotes its record."""

    def __init__(self, asked: Asked, places: Places, config: dict[str, Any], results: Path):
        self.asked, self.places, self.config, self.results = asked, places, config, results

    @cached_property
    def session(self) -> str:
        """The session named by `session` or `device`, else the one that was paid for last, which is said."""
        found = sorted(session.names(self.results))
        named = self.config["session"]
        if not named and self.config["device"] != "auto":
            named = self.places.machine.slug
        if not named and len(found) == 1:
            return found[0]
        if not named and (last := ledger.newest([self.results / each / "ledger.jsonl" for each in found])):
            named = last.parent.name
            say(
                f"terminated: {named}, whose ledger has the most recent event of the {len(found)} sessions in results/; "
                "another one: --config session=<session>",
                sys.stderr,
            )
        if named in found:
            return str(named)
        why = f"{named} is not there" if named else "no ledger tells which was paid for last"
        sys.exit(
            f"which session's instance is terminated? In results/: {', '.join(found) or 'none'}; {why}. "
            "Say it: snakemake --cores 1 terminated --config session=<session>"
        )

    def files(self, wc: Any) -> list[str]:
        """The record and the manifest of the session that is closed, once the record does not contradict what is said now."""
        path = self.results / self.session / RECORD
        said = self.config["terminated_usd"]
        try:
            record = closing_record(path)
        except RecordError as error:
            sys.exit(str(error))
        if record and said is not None and record["total_usd"] != said:
            before = record["total_usd"]
            amount = "an unknown amount" if before is None else f"{before} dollars"
            sys.exit(
                f"{path} says {amount}, terminated_usd={said} was given. "
                f"To replace it: rm {path}, then run the same command again"
            )
        return [str(path), str(path.with_name("manifest.json"))]

    def record_of(self, wc: Any) -> list[str]:
        """The closing record, for the manifest: where it is, or is asked for now."""
        path = self.results / wc.session / RECORD
        wanted = path.exists() or ("terminated" in self.asked.targets and wc.session == self.session)
        return [str(path)] if wanted else []

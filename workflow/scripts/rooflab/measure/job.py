"""What a paid program is asked for: one output file and what it shall hold."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rooflab.record import names, records
from rooflab.record.types import Json

# Ends the name of a record that waits for its own job: Snakemake removes what a job is to make before it starts the job.
READY = ".ready"


@dataclass(frozen=True)
class Job:
    """One output file and what it shall hold."""

    spec: dict[str, Any]
    out: Path
    beside: tuple["Job", ...] = ()
    log: Path | None = None

    @property
    def ready(self) -> Path:
        """Where a program that measured this one beside its own leaves the record for this one's job."""
        return self.out.with_name(f"{self.out.name}{READY}")

    @property
    def session_dir(self) -> Path:
        below = self.out.parts[::-1].index(self.spec["side"])
        return Path(*self.out.parts[: len(self.out.parts) - below - 1])

    @property
    def name(self) -> str:
        return names.name_of(self.out)

    @property
    def attempt(self) -> int:
        return names.attempt_of(self.out)

    def earlier(self) -> list[Json]:
        """The records of the attempts before this one; those that can be read."""
        key = records.key_of(self.spec)
        found = []
        for number in range(1, self.attempt):
            with suppress(records.RecordError):
                found.append(records.read_sealed(self.out.with_name(names.file_name(self.name, key, number))))
        return found

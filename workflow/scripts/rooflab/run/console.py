"""Keeps Snakemake's own noise down: the programs say their one line themselves."""

import logging

from snakemake.logging import logger

NOISE = (
    "Select jobs to execute",
    "Execute ",
    "Assuming unrestricted shared",
    "Using workflow specific profile",
    "Reasons:",
)
FORGOTTEN = "missing provenance/metadata"  # what Snakemake remembers of paid files is dropped on purpose


class Quiet(logging.Filter):
    """Passes everything but Snakemake's scheduling chatter."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        return not message.lstrip().startswith(NOISE) and FORGOTTEN not in message


def listen(handler: logging.Handler) -> None:
    """Hangs a handler on Snakemake's logger, in the place of an older one of its kind."""
    for old in [each for each in logger.handlers if type(each).__name__ == type(handler).__name__]:
        logger.removeHandler(old)
    logger.addHandler(handler)


def hush() -> None:
    """Hangs the filter on Snakemake's logger and its handlers, once."""
    for place in (logger, *logger.handlers):
        if not any(isinstance(each, Quiet) for each in place.filters):
            place.addFilter(Quiet())

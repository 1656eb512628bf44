"""Every ROOFLAB_* variable of the project: what a run hands its jobs. Users set LOCKS at most; the config says the rest."""

import json
import os
from typing import Any

SCRIPTS = "ROOFLAB_SCRIPTS"  # the folder of the programs, so that the texts of the rules are the same on every machine
COMMAND = "ROOFLAB_COMMAND"  # the command as it was typed, without paths, for the records
RUN = "ROOFLAB_RUN"  # the run's name in the ledger
PRICES = "ROOFLAB_PRICES"  # JSON: session -> dollars per hour, or null
DEVICE = "ROOFLAB_DEVICE"  # the GPU's session name that the config asks for; empty: whatever is here
WEIGHTS = "ROOFLAB_WEIGHTS"  # the checkpoint of the MiniGPT; empty: the seeded one
ALLOW_SHARED_GPU = "ROOFLAB_ALLOW_SHARED_GPU"  # "1": measure beside other programs on the card
CARDS = "ROOFLAB_CARDS"  # JSON: session -> UUID of its card
CARDS_AT_ONCE = "ROOFLAB_CARDS_AT_ONCE"  # how many cards are measured at the same time; empty: one
NODES = "ROOFLAB_NODES"  # JSON: session -> [node, its CPUs]
CLOSING = "ROOFLAB_CLOSING"  # JSON: what the config says of the end of the instance
LOCKS = (
    "ROOFLAB_LOCKS"  # the folder of this host's locks, for containers that share a card and no /tmp; set by the user
)
UNTRUSTED = "ROOFLAB_UNTRUSTED"  # the errors of the records that must not be trusted, a line each


def leave(name: str, value: Any) -> None:
    """Leaves a text, or anything else as JSON, to the jobs of this run."""
    os.environ[name] = value if isinstance(value, str) else json.dumps(value)


def text(name: str) -> str:
    """What was left under that name; empty where nothing was."""
    return os.environ.get(name, "")


def mapping(name: str) -> dict[str, Any]:
    """The mapping that was left under that name; empty where none was."""
    return dict(json.loads(text(name) or "{}"))

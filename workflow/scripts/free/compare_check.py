"""Exits 1 if a session is slower than its reference: its own card's session before, or its siblings' median."""

import sys

from free.compare import command_line, compared
from rooflab.fleet.page import terminal


def main() -> None:
    given = command_line(__doc__).parse_args()
    made = compared(given.results, given.prices, given.threshold)
    print("\n".join(terminal(made)), flush=True)
    sys.exit(1 if made["findings"] else 0)


if __name__ == "__main__":
    main()

"""What models would do on every measured card: the sessions' roofs and kernels -> `predict.json` and its page. Measures
nothing and needs no GPU."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from free.compare import model_of
from rooflab.explain.prediction import page, terminal
from rooflab.fleet.sessions import price as price_of
from rooflab.plan import session
from rooflab.predict.document import document
from rooflab.record.publish import write_json, write_text
from rooflab.record.records import RecordError, check_schema
from rooflab.record.types import Json


def predicted(results: Path, asked: Json, prices: dict[str, float]) -> Json:
    """The document over every session under `results`; one that cannot be read is listed with its reason."""
    rooflines: dict[str, Mapping[str, Any]] = {}
    broken: dict[str, str] = {}
    for name in sorted(session.names(results)):
        try:
            rooflines[name] = model_of(results / name)
        except (RecordError, OSError, ValueError, KeyError) as error:
            broken[name] = str(error) or type(error).__name__
    known = {name: price_of(results / name, prices) for name in rooflines}
    return document(asked, rooflines, known, broken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument(
        "--asked", type=json.loads, required=True, help="JSON: the models, contexts, batches and formats"
    )
    parser.add_argument("--prices", type=json.loads, default={}, help='JSON: {"session": dollars per hour}')
    parser.add_argument("--out", type=Path, required=True, help="predict.json; the page beside it")
    given = parser.parse_args()
    made = predicted(given.results, given.asked, given.prices)
    check_schema("predict", made, str(given.out))
    write_json(given.out, made, indent=None)
    write_text(given.out.with_suffix(".md"), page(made))
    print("\n".join([f"{given.out.with_suffix('.md')}:", *terminal(made)]), flush=True)


if __name__ == "__main__":
    main()

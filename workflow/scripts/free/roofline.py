"""`roofline.json`: the derivation over the records of a session, a function of its arguments and their files alone."""

import json
from pathlib import Path

from free.inputs import command_line, loaded, read_plan
from rooflab.derive.document import roofline
from rooflab.derive.given import given_ceilings
from rooflab.record.publish import write_json
from rooflab.record.records import check_schema


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--cpu-roofline", default="", help="JSON of a CPU roofline to use instead of records")
    parser.add_argument(
        "--gpu-sessions", nargs="*", default=[], help="names of the sessions with a GPU beside this one"
    )
    parser.add_argument("--models", default="", help="JSON list of the models of the config")
    given = parser.parse_args()
    made = roofline(
        given.session_dir.resolve().name,
        loaded(given.session_dir, given.records),
        read_plan(given.planned),
        sorted(given.gpu_sessions),
        given_ceilings(Path(given.cpu_roofline)) if given.cpu_roofline else [],
        json.loads(Path(given.models).read_text(encoding="utf-8")) if given.models else [],
    )
    check_schema("roofline", made, str(given.out))
    write_json(given.out, made)


if __name__ == "__main__":
    main()

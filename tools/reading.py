"""Writes `workflow/reading-a-roofline.md` from `tools/reading.md` and the records of a committed session.

python tools/reading.py            writes the page
python tools/reading.py --check    exit status 1 where the page is out of date
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, Mapping

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow" / "scripts"))

from free.inputs import load  # noqa: E402
from rooflab.derive.document import roofline as model  # noqa: E402
from rooflab.explain.tables import way  # noqa: E402
from rooflab.look import words  # noqa: E402
from rooflab.look.voice import Voice  # noqa: E402
from rooflab.plan.session import record_files  # noqa: E402

Record = Dict[str, Any]

SESSION = "nvidia-h200"
TEMPLATE = ROOT / "tools" / "reading.md"
PAGE = ROOT / "workflow" / "reading-a-roofline.md"
OPTIONAL = "## A cache that does not fit in L2"  # left out where the session has no such point
DTYPE, SEQUENCE = "fp16", "1024"


class Changed(Exception):
    """The session no longer shows what the page says in words."""


def values(roofline: Mapping[str, Any]) -> Record:
    """The figures of the page. Raises Changed where a sentence around them would be false."""
    gemm, decode = (roofline["answers"][part] for part in ("gemm", "decode"))
    product, step = gemm["dtypes"][DTYPE], decode["dtypes"][DTYPE]["sequences"][SEQUENCE]
    ceiling = _one(roofline["ceilings"], product["ceiling"])
    read, copy = (_one(roofline["ceilings"], f"gpu-memory-{pattern}")["burst"] for pattern in ("read", "d2d"))
    point, own = _one(roofline["points"], product["point"]), _one(roofline["points"], step["id"])
    _claim(
        product["bound_by"] == "compute" and product["fraction_of_ceiling"] > 0.9, "the fp16 product is on its ceiling"
    )
    _claim(step["bound_by"] == "launch" and not step["above_roof"], "the decode step is launch-bound")
    held, long = _held(gemm["dtypes"])
    _claim(long["sustained_fraction_of_burst"] < 0.95, "sustained load is slower than bursts")
    found = {
        "session": roofline["session"],
        "device": roofline["devices"]["gpu"]["name"],
        "ceiling": ceiling["burst"],
        "ceiling_share": ceiling["fraction_of_vendor"],
        "vendor": ceiling["vendor"],
        "read": read,
        "copy": copy,
        "ridge": ceiling["burst"] / read,
        "n": point["n"],
        "gemm_flop": point["flop"],
        "gemm_bytes": point["bytes"],
        "gemm_intensity": point["intensity"],
        "with_writes": point["intensity_with_writes"],
        "gemm_time": point["median_s"],
        "gemm_rate": point["achieved_flop_per_s"],
        "gemm_fraction": point["fraction_of_ceiling"],
        "s": SEQUENCE,
        "step_flop": own["flop"],
        "step_bytes": own["bytes"],
        "step_intensity": own["intensity"],
        "step_time": own["median_s"],
        "step_rate": own["achieved_flop_per_s"],
        "step_share": step["fraction_of_peak"],
        "slope_time": own["bytes"] / read,
        "slope_rate": own["intensity"] * read,
        "slope_share": own["intensity"] * read / ceiling["burst"],
        "floor": step["launch_floor_s"],
        "ladder": _ladder(decode["dtypes"][DTYPE]["ladder"]),
        "held": held.replace("_", " "),
        "burst": long["burst_flop_per_s"],
        "sustained": long["sustained_flop_per_s"],
        "sustained_share": long["sustained_fraction_of_burst"],
    }
    return found | _large(decode["large"])


def page(roofline: Mapping[str, Any], template: str) -> str:
    """The template with the figures of a session, without the section that the session has no figures for."""
    figures = values(roofline)
    sections = ("\n" + template).split("\n## ")
    kept = [s for s in sections if f"## {s}".split("\n")[0] != OPTIONAL or "large_bytes" in figures]
    return Voice("en").filled("\n## ".join(kept).lstrip("\n"), **figures)


def _held(dtypes: Any) -> Any:
    """The format and figures of a product whose own algorithm was held under load: fp16 where it was."""
    known = [(name, own) for name, own in dtypes.items() if own["sustained_flop_per_s"] is not None]
    _claim(bool(known), "a product was held under load")
    return min(known, key=lambda each: each[0] != DTYPE)


def _one(entries: Any, name: str) -> Record:
    found = [entry for entry in entries if entry["id"] == name]
    _claim(len(found) == 1, f"there is one {name}")
    return dict(found[0])


def _claim(holds: bool, what: str) -> None:
    if not holds:
        raise Changed(f"{SESSION} no longer shows that {what}: reword tools/reading.md and this check")


def _ladder(rungs: Any) -> str:
    """The rows of the table: every way but the lab's, slowest first."""
    digits = {"python": words.HOST_DIGITS}
    rows = [(way(Voice("en"), r), words.seconds(r["median_s"], digits.get(r["launch"], words.DIGITS)),
             words.times(r["time_over_lab"], words.HOST_DIGITS)) for r in rungs]  # fmt: skip
    return "\n".join(f"| {name} | {median} | {times} |" for name, median, times in rows)


def _large(large: Record) -> Record:
    """The fp16 cache sized by HBM, where it was measured and lies on the slope."""
    own = [step for step in large.values() if step["dtype"] == DTYPE and step["bound_by"] == "HBM"]
    if not own:
        return {}
    return {
        "large_bytes": own[0]["working_set_bytes"],
        "large_time": own[0]["median_s"],
        "large_bandwidth": own[0]["achieved_bytes_per_s"],
        "large_fraction": own[0]["fraction_of_attainable"],
        "large_share": own[0]["fraction_of_peak"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    folder = ROOT / "results" / SESSION
    made = page(model(SESSION, load(folder, record_files(folder)), []), TEMPLATE.read_text(encoding="utf-8"))
    if parser.parse_args().check:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == made
        print(f"{PAGE.name} is up to date" if fresh else f"{PAGE.name} is out of date: python tools/reading.py")
        return int(not fresh)
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

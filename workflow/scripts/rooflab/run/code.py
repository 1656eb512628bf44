"""Edit this -> that runs again: the code that each free rule depends on, by program and by room."""

import os
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2]
DERIVATION = (
    "rooflab/derive",
    "rooflab/theory",
    "rooflab/plan",
    "rooflab/record",
    "rooflab/reference",
    "rooflab/data/*.csv",
    "rooflab/data/geometries.yaml",
    "rooflab/data/families.yaml",
)
WORDS = ("rooflab/explain", "rooflab/look", "rooflab/record", "rooflab/data/texts_*.yaml")
PICTURES = ("rooflab/draw", "rooflab/look", "rooflab/record", "rooflab/data/texts_*.yaml")
# A folder means all that lies in it; an edit in machine/, measure/, cost/, fleet/, run/ or paid/ redoes no file.
CODE: dict[str, tuple[str, ...]] = {
    "device_query": ("free/device_query.py", "free/inputs.py", *DERIVATION),
    "peak_flops_summary": ("free/peak_flops_summary.py", "free/inputs.py", *DERIVATION),
    "roofline": ("free/roofline.py", "free/inputs.py", *DERIVATION),
    "draw": ("free/plot.py", *PICTURES),
    "model_chart": ("free/model_chart.py", *PICTURES),
    "interpretation": ("free/interpretation.py", *WORDS),
    "model_table": ("free/model_table.py", *WORDS),
    "manifest": ("free/manifest.py", "free/inputs.py", *DERIVATION),
    "report_html": ("free/report_html.py", *WORDS, "rooflab/data/report.*"),
}


def code_of(rule: str) -> list[str]:
    """The files whose edit makes a free rule run again, relative to the working directory."""
    found = [
        path for part in CODE[rule] for path in SCRIPTS.glob(part if "." in Path(part).name else f"{part}/**/*.py")
    ]
    return sorted(os.path.relpath(path) for path in found)

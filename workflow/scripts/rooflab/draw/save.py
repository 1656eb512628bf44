"""A figure as the bytes of a file: the same figure gives the same bytes, which name no version of what drew it, and the text of
an SVG stays text."""

import re
from io import BytesIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure

STABLE: Any = {
    "svg.hashsalt": "rooflab",
    "svg.fonttype": "none",
    "text.hinting": "none",  # a text is as wide at every resolution
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],  # as wide, where the first is not installed
}

INDENT = re.compile(rb"\n +")


def svg(figure: Figure) -> bytes:
    """The figure as an SVG."""
    return INDENT.sub(b"\n", _saved(figure, format="svg", metadata={"Date": None, "Creator": None}))


def png(figure: Figure, dpi: int) -> bytes:
    """The figure as a PNG of `dpi` dots an inch."""
    return _saved(figure, format="png", dpi=dpi, metadata={"Software": None})


def _saved(figure: Figure, **options: Any) -> bytes:
    out = BytesIO()
    with matplotlib.rc_context(STABLE):
        figure.savefig(out, facecolor=figure.get_facecolor(), **options)
    return out.getvalue()

"""How things look: two themes, and for each number format its colour, marker and dash, so that grey is enough to read.

Colours keep 4.5:1 contrast with the paper; the lab's formats stay apart for deuteranopic and protanopic eyes and in
grey. Marker and dash differ for every format, and alone tell apart those that share a colour.
"""

from dataclasses import dataclass
from typing import Any

from rooflab.look.catalogue import texts
from rooflab.look.voice import Voice

Record = dict[str, Any]
Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Theme:
    """The colours of one variant of the picture."""

    paper: str
    ink: str
    slope: str
    muted: str
    pale: str
    band: str
    band_ink: str
    grid: str
    shade: str
    alarm: str
    formats: dict[str, str]


LIGHT = Theme(
    paper="#FFFFFF", ink="#1A1A1A", slope="#404040", muted="#5F6670", pale="#A3A9B2",
    band="#FFF1C9", band_ink="#7A5B00", grid="#E9ECF0", shade="#EEF2F7", alarm="#B00020",
    formats={"fp32": "#0055A8", "fp16": "#D43F0F", "bf16": "#007552", "fp8": "#740B6F", "tf32": "#007EA3",
             "int8": "#6B4400", "fp64": "#303030"},
)  # fmt: skip
DARK = Theme(
    paper="#12161C", ink="#ECEFF3", slope="#C2C8D0", muted="#9AA3AE", pale="#5D6672",
    band="#3A3318", band_ink="#E3C66B", grid="#232A33", shade="#1C2430", alarm="#FF6B7A",
    formats={"fp32": "#609CDF", "fp16": "#FB8F4F", "bf16": "#6AD5A3", "fp8": "#C65FBD", "tf32": "#91DDEF",
             "int8": "#F7D46C", "fp64": "#E8E8E8"},
)  # fmt: skip
THEMES = {"light": LIGHT, "dark": DARK}

# format or variant -> whose colour it wears, its marker, its dash; in the order of the columns of decode attention
STYLES: dict[str, tuple[str, str, Dash]] = {
    "fp64": ("fp64", "X", ":"),
    "fp64_tensor": ("fp64", "8", (0, (6, 1))),
    "fp32": ("fp32", "o", "-"),
    "fp32_fma": ("fp32", "h", (0, (1, 1))),
    "tf32": ("tf32", "p", (0, (5, 1, 1, 1))),
    "fp16": ("fp16", "s", "-"),
    "fp16_acc16": ("fp16", "P", (0, (2, 1))),
    "bf16": ("bf16", "^", "--"),
    "fp8_e4m3": ("fp8", "D", "-."),
    "fp8_e4m3_full": ("fp8", "d", (0, (3, 1, 1, 1, 1, 1))),
    "fp8_e5m2": ("fp8", "<", (0, (8, 2))),
    "fp4_e2m1": ("fp8", ">", (0, (1, 3))),
    "int8": ("int8", "v", (0, (4, 2))),
    "int4": ("int8", "*", (0, (2, 3))),
}
VARIANTS = ("fp32_fma", "fp16_acc16", "fp8_e4m3_full")  # ceilings with a name of their own
UNKNOWN = ("fp64", "H", (0, (7, 2, 2, 2)))


@dataclass(frozen=True)
class Look(Voice):
    """One theme in one language."""

    theme: Theme

    def color(self, entry: Record) -> str:
        """The colour of a ceiling or a point."""
        return self.theme.formats[style_of(entry)[0]]


def format_of(entry: Record) -> str:
    """The variant of a ceiling or a point where it has one, its dtype otherwise."""
    return str(entry.get("variant") or entry["dtype"])


def short_name(voice: Voice, entry: Record) -> str:
    """The format of a ceiling or a point as the picture and the prose name it: fp8 for fp8_e4m3."""
    return named_format(voice, format_of(entry))


def named_format(voice: Voice, name: str) -> str:
    """A format by the name that people read."""
    key = f"format.{name}"
    return voice.say(key) if key in texts() else name.replace("_", " ")


def ceiling_name(voice: Voice, ceiling: Record) -> str:
    """The name of a ceiling in words: its pattern, its variant, or its label's format and unit."""
    if ceiling["kind"] == "memory":
        return voice.say(f"chart.slope.{ceiling['pattern']}", tier=ceiling["tier"])
    if ceiling.get("variant") in VARIANTS:
        return voice.say(f"chart.variant.{ceiling['variant']}")
    label, unit = str(ceiling["label"]), ceiling["unit"]
    if not unit or not label.endswith(f" {unit}"):
        return label
    return voice.say("chart.ceiling", dtype=label.removesuffix(f" {unit}"), unit=voice.say(f"chart.unit.{unit}"))


def style_of(entry: Record) -> tuple[str, str, Dash]:
    """Colour family, marker and dash of a ceiling or a point."""
    return STYLES.get(format_of(entry), UNKNOWN)


def in_order(entries: list[Record]) -> list[str]:
    """The formats of the entries, each once, in the order of STYLES, strangers last."""
    known = list(STYLES)
    found = {format_of(entry) for entry in entries}
    return sorted(found, key=lambda name: (known.index(name) if name in known else len(known), name))

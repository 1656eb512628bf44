"""What of a roofline the picture holds: the lab's ceilings, points and ways of launching, and one row for each ceiling."""

from dataclasses import dataclass
from typing import Any

from rooflab.look.style import Record, format_of, in_order

LAB_FORMATS = ("fp32", "fp16", "bf16", "fp8_e4m3")
LAB_MODEL = "minigpt"
MOST_NAMED = 4  # ceilings in the first panel where none is of the lab's formats
MAIN_SLOPES = ("read", "d2d", "triad", "write")  # the first one measured bounds what only reads
COPIES = ("d2d", "triad")
LEADING = ("fp16", "bf16", "fp32")  # the format that stands for the others where one has to
HBM_SUFFIX = "-hbm"  # the points whose K and V are sized for memory, beyond any cache


@dataclass(frozen=True)
class Shown:
    """One side of a roofline, sorted for the panels."""

    side: str
    compute: list[Record]
    memory: dict[str, Record]
    products: list[Record]
    decode: list[Record]
    floors: list[Record]

    @property
    def named(self) -> list[Record]:
        """The compute ceilings of the first panel, the highest first."""
        lab = [c for c in self.compute if c["variant"] in LAB_FORMATS] if self.side == "gpu" else []
        return lab or self.compute[:MOST_NAMED]

    @property
    def slope(self) -> Record | None:
        """The memory slope that verdicts rest on: main memory's read."""
        return next((self.memory[name] for name in MAIN_SLOPES if name in self.memory), None)

    @property
    def copy(self) -> Record | None:
        """The lab's own slope: the copy, or the triad of a CPU, where it is not the main one."""
        found = next((self.memory[name] for name in COPIES if name in self.memory), None)
        return None if found is self.slope else found

    @property
    def gemms(self) -> list[Record]:
        """The lab's products whose ceiling is in the first panel."""
        formats = {format_of(c) for c in self.named}
        lab = [p for p in self.products if p["lab_point"]]
        return [p for p in lab if format_of(p) in formats] if formats else lab

    @property
    def steps(self) -> list[Record]:
        """The lab's decode points over S."""
        return [p for p in self.decode if p["lab_point"] and not memory_sized(p)]

    @property
    def large(self) -> Record | None:
        """The fastest step whose K and V are sized for memory."""
        return min((p for p in self.decode if memory_sized(p)), key=lambda p: p["median_s"], default=None)

    @property
    def leading(self) -> str | None:
        """The format of the steps that stands for the others."""
        formats = {format_of(p) for p in self.steps}
        return next((name for name in LEADING if name in formats), min(formats, default=None))

    def steps_in(self, name: str) -> list[Record]:
        """The lab's steps of one format by S."""
        return by_length([p for p in self.steps if format_of(p) == name])

    def way(self, name: str, implementation: str | None, launch: str, timing: str) -> list[Record]:
        """The steps of one format, taken one way with a warm cache, by S; `implementation` None: the lab points'."""
        lab = {p["implementation"] for p in self.steps_in(name)}
        wanted = lab if implementation is None else {implementation}
        return by_length([p for p in self.decode if not memory_sized(p) and format_of(p) == name
                          and p["implementation"] in wanted
                          and (p["launch"], p["timing"], p["cache"]) == (launch, timing, "warm")])  # fmt: skip

    @property
    def step_formats(self) -> list[str]:
        """The formats of the lab's steps, in their usual order."""
        return in_order(self.steps)


def side_of(roofline: Record, side: str) -> Shown:
    """What the picture holds of one side."""
    own: dict[str, list[Any]] = {
        key: [e for e in roofline[key] if e["side"] == side] for key in ("ceilings", "points", "floors")
    }
    compute = sorted((c for c in own["ceilings"] if c["kind"] == "compute"), key=lambda c: -c["burst"])
    decode = lab_model([p for p in own["points"] if p["operator"] == "decode_attention"])
    products = [p for p in own["points"] if p["operator"] == "gemm"]
    memory = {c["pattern"]: c for c in own["ceilings"] if c["kind"] == "memory"}
    return Shown(side, compute, memory, products, decode, own["floors"])


def lab_model(decode: list[Record]) -> list[Record]:
    """The points of the lab's model, or of the first one by name where the lab's was not measured."""
    models = {model_of(p) for p in decode}
    shown = LAB_MODEL if LAB_MODEL in models else min(models, default="")
    return [p for p in decode if model_of(p) == shown]


def model_of(point: Record) -> str:
    """The model whose attention a decode point is: `minigpt` in minigpt-fp16-S128."""
    return str(point["name"]).partition(f"-{point['dtype']}")[0]


def memory_sized(point: Record) -> bool:
    """Whether the point's K and V were sized for memory."""
    return str(point["name"]).endswith(HBM_SUFFIX)


def by_length(points: list[Record]) -> list[Record]:
    """Points by S."""
    return sorted(points, key=lambda p: p["sequence"])

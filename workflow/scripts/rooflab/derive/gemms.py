"""The matrix products of a session: which record is the lab's, and how fast its series ran."""

from rooflab.derive.chip.sustained import held
from rooflab.derive.evidence import measured
from rooflab.derive.series import median_s
from rooflab.record.names import format_of
from rooflab.record.types import Record, Records, Series
from rooflab.theory import recorded

LAB_N = 4096
LAB_DTYPES = ("fp32", "fp16", "bf16", "fp8_e4m3")


def variant_of(record: Record) -> str:
    """The dtype or variant of a GEMM record, by its name."""
    return format_of(record["name"])


def gemm_flop_per_s(record: Record, series: Series) -> float:
    """FLOP/s of a GEMM series at its median; of a sustained one work over time, when the chip has settled."""
    long = series["name"].startswith("sustained")
    return recorded.flop(record) / (held(series).seconds_per_launch if long else median_s(series))


def lab_records(records: Records, side: str) -> dict[str, tuple[str, Record]]:
    """The file and record of the lab's GEMM per dtype and variant: 4096 where measured, else the smallest size."""
    found: dict[str, tuple[str, Record]] = {}
    for file, record in sorted(measured(records, side, "gemm").items(), key=lambda item: _lab_rank(item[1])):
        found.setdefault(variant_of(record), (file, record))
    return dict(sorted(found.items()))


def _lab_rank(record: Record) -> tuple[bool, int]:
    return record["shape"]["n"] != LAB_N, record["shape"]["n"]

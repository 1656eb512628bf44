"""The measured compute ceilings: what the chip was seen to do at best, never what a datasheet says.

`burst` is the ceiling: the fastest that any load of the same product ran, as a rule short blocks with idle gaps.
`sustained` (seconds of load) is the tick below it.
"""

from typing import Any

from rooflab.derive.evidence import facts, measured
from rooflab.derive.gemms import gemm_flop_per_s, variant_of
from rooflab.derive.memory import memory_ceilings
from rooflab.derive.peaks import vendor_flop_per_s
from rooflab.derive.series import fraction, is_power_capped, median_s, named, rate_spread, refuted
from rooflab.derive.told import told
from rooflab.record.types import Ceiling, Record, Records, Series, Told
from rooflab.theory import issue_rates, recorded
from rooflab.theory.dtypes import DTYPES, dtype, variant

UNEVEN = 0.03  # lab over burst from which on the reader is told


def all_ceilings(records: Records) -> list[Ceiling]:
    """Every ceiling the records support, by id. `flop_per_s` for compute, `bytes_per_s` for memory."""
    kinds = (_products, _instructions, memory_ceilings)
    made = [ceiling for side in ("gpu", "cpu") for kind in kinds for ceiling in kind(records, side)]
    return sorted(made, key=lambda ceiling: ceiling["id"])


def uneven_loads(records: Records) -> list[Told]:
    """Products whose launches in a row ran clearly faster than their bursts: the chip changed its state between them."""
    made = []
    for side in ("gpu", "cpu"):
        for file, record in measured(records, side, "gemm").items():
            lab, burst = named(record, "lab"), named(record, "burst")
            gain = gemm_flop_per_s(record, lab) / gemm_flop_per_s(record, burst) - 1 if lab and burst else 0.0
            if gain > UNEVEN:
                made.append(told("uneven_loads", file=file, gain=gain))
    return made


def _products(records: Records, side: str) -> list[Ceiling]:
    gemms = measured(records, side, "gemm")
    made = [_product_ceiling(records, side, name) for name in sorted({variant_of(r) for r in gemms.values()})]
    return [ceiling for ceiling in made if ceiling is not None]


def _product_ceiling(records: Records, side: str, name: str) -> Ceiling | None:
    """The fastest load of one dtype or variant over all sizes and algorithms: bursts, the lab's launches in a row, and
    seconds without a gap, which on a chip that its power limit does not hold may be the fastest of the three."""
    loads = [
        (gemm_flop_per_s(record, series), file, record, series)
        for file, record in measured(records, side, "gemm").items()
        if variant_of(record) == name
        for series in record["series"]
        if not refuted(series)
    ]
    if not loads:
        return None
    best, file, record, series = max(loads, key=lambda load: (load[0], load[1]))
    held = _sustained(record, series)
    arithmetic = variant(name)
    unit = _unit(records, side, name)
    return _compute_ceiling(
        records,
        record,
        series,
        variant=name,
        vendor_of=name,
        dtype=arithmetic.name,
        label=f"{arithmetic.label} {unit}" if name in DTYPES else arithmetic.label,
        unit=unit,
        accumulator=arithmetic.accumulator if side == "gpu" else None,
        burst=best,
        sustained=gemm_flop_per_s(record, held) if held else None,
        power_capped=is_power_capped(held or series),
        n=record["shape"]["n"],
        file=file,
    )


def _instructions(records: Records, side: str) -> list[Ceiling]:
    """What the CUDA cores issue when nothing has to be fetched: multiply-adds in registers."""
    made = []
    for file, record in measured(records, side, "fma").items():
        best, held = min(record["series"], key=median_s), named(record, "sustained")
        name = str(record["dtype"])
        made.append(
            _compute_ceiling(
                records,
                record,
                best,
                variant=f"{name}_fma",
                vendor_of=name,
                dtype=name,
                label=f"{dtype(name).label} multiply-adds in registers",
                unit="CUDA core",
                accumulator=name,
                burst=recorded.flop(record) / median_s(best),
                sustained=recorded.flop(record) / median_s(held) if held else None,
                power_capped=is_power_capped(held or best),
                n=None,
                file=file,
            )
        )
    return made


def _compute_ceiling(records: Records, record: Record, series: Series, **given: Any) -> Ceiling:
    side, vendor = record["side"], vendor_flop_per_s(records, record["side"], given["vendor_of"])
    return {
        "id": f"{side}-compute-{given['variant']}",
        "side": side,
        "kind": "compute",
        "label": given["label"],
        "dtype": given["dtype"],
        "variant": given["variant"],
        "unit": given["unit"],
        "accumulator": given["accumulator"],
        "tier": None,
        "pattern": None,
        "burst": given["burst"],
        "burst_spread": rate_spread(series, recorded.flop(record)),
        "sustained": given["sustained"],
        "unit_of_value": "flop_per_s",
        "vendor": vendor,
        "fraction_of_vendor": fraction(given["burst"], vendor),
        "sustained_fraction_of_vendor": fraction(given["sustained"], vendor),
        "power_capped": given["power_capped"],
        "sm_clock_hz": series["chip"]["during"].get("sm_clock_hz"),
        "implementation": series["implementation"],
        "n": given["n"],
        "reach_bytes": None,
        "sweep": None,
        "file": given["file"],
    }


def _sustained(record: Record, burst: Series) -> Series | None:
    """The sustained run of the same product, of the same implementation where it was taken."""
    held = [series for series in record["series"] if series["name"].startswith("sustained")]
    same = [series for series in held if series["implementation"] == burst["implementation"]]
    return next(iter(same or held), None)


def _unit(records: Records, side: str, name: str) -> str:
    if side == "cpu":
        return "CPU"
    gpu = facts(records, "gpu")
    return issue_rates.unit(gpu["name"], gpu["compute_capability"], name) if gpu else variant(name).unit

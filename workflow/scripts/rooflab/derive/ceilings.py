"""The measured compute ceilings: what the chip was seen to do at best, never what a datasheet says.

`burst` is the ceiling: the fastest load of the same arithmetic, as a rule short blocks with idle gaps, five samples or more, and
never the series that is judged by it. `sustained` (work over time under seconds of load, the same algorithm) is the tick on it.
"""

from typing import Any

from rooflab.derive.chip import physics
from rooflab.derive.chip.clock import clock_split, use_split
from rooflab.derive.chip.peaks import vendor_flop_per_s
from rooflab.derive.chip.sustained import held
from rooflab.derive.evidence import facts, measured
from rooflab.derive.gemms import gemm_flop_per_s, variant_of
from rooflab.derive.memory import UNSWEPT, memory_ceilings
from rooflab.derive.series import LEAST_SAMPLES, fraction, is_power_capped, median_s, named, rate_spread, refuted
from rooflab.derive.told import told
from rooflab.record.roof_types import Ceiling
from rooflab.record.types import Record, Records, Series, Told
from rooflab.theory import issue_rates, recorded
from rooflab.theory.dtypes import DTYPES, dtype, variant

JUDGED = "lab"  # the series of a product that is held against its ceiling
UNEVEN = 0.03  # lab over burst from which on the reader is told


def all_ceilings(records: Records) -> list[Ceiling]:
    """Every ceiling the records support, by id. `flop_per_s` for compute, `bytes_per_s` for memory."""
    kinds = (_products, _instructions, memory_ceilings)
    made = [ceiling for side in ("gpu", "cpu") for kind in kinds for ceiling in kind(records, side)]
    return sorted(made, key=lambda ceiling: ceiling["id"])


def without_ceiling(records: Records) -> list[Told]:
    """The formats of products that were measured, and that no series but the judged one could be a ceiling of."""
    made = []
    for side in ("gpu", "cpu"):
        names = {variant_of(record) for record in measured(records, side, "gemm").values()}
        lacking = [name for name in sorted(names) if _product_ceiling(records, side, name) is None]
        made += [told("no_independent_ceiling", side=side, dtypes=lacking, least=LEAST_SAMPLES)] if lacking else []
    return made


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
    """The fastest load of one dtype or variant over all sizes and algorithms: bursts, and seconds without a gap, which on a
    chip that its power limit does not hold may be faster. None where no series but the judged one has samples enough."""
    loads = [
        (gemm_flop_per_s(record, series), file, record, series)
        for file, record in measured(records, side, "gemm").items()
        if variant_of(record) == name
        for series in record["series"]
        if is_independent(series) and not refuted(series)
    ]
    if not loads:
        return None
    best, file, record, series = max(loads, key=lambda load: (load[0], load[1]))
    arithmetic = variant(name)
    unit = _unit(records, side, name)
    return _compute_ceiling(
        records,
        record,
        series,
        _sustained(record, series),
        variant=name,
        arithmetic=name,
        dtype=arithmetic.name,
        label=f"{arithmetic.label} {unit}" if name in DTYPES else arithmetic.label,
        unit=unit,
        accumulator=arithmetic.accumulator if side == "gpu" else None,
        burst=best,
        n=record["shape"]["n"],
        file=file,
    )


def is_independent(series: Series) -> bool:
    """Whether a ceiling may rest on a series: it has samples enough, and is not the one that is judged by the ceiling."""
    return series["name"] != JUDGED and len(series["samples_s"]) >= LEAST_SAMPLES


def _instructions(records: Records, side: str) -> list[Ceiling]:
    """What the CUDA cores issue when nothing has to be fetched: multiply-adds in registers."""
    made = []
    for file, record in measured(records, side, "fma").items():
        often, name = [each for each in record["series"] if is_independent(each)], str(record["dtype"])
        if not often:
            continue
        best = min(often, key=median_s)
        made.append(
            _compute_ceiling(
                records,
                record,
                best,
                _sustained(record, best),
                variant=f"{name}_fma",
                arithmetic=name,
                dtype=name,
                label=f"{dtype(name).label} multiply-adds in registers",
                unit="CUDA core",
                accumulator=name,
                burst=recorded.flop(record) / median_s(best),
                n=None,
                file=file,
            )
        )
    return made


def _compute_ceiling(records: Records, record: Record, series: Series, run: Series | None, **given: Any) -> Ceiling:
    """`run`: the sustained one of the same algorithm. `arithmetic`: what the vendor's figures and the chip's rates are of."""
    side, flop = record["side"], recorded.flop(record)
    vendor, long = vendor_flop_per_s(records, side, given["arithmetic"]), held(run) if run else None
    sustained = flop / long.seconds_per_launch if long else None
    of_limit = physics.share(given["burst"], physics.flop_per_s(records, side, given["arithmetic"], series))
    clock = clock_split(records, side, given["arithmetic"], series)
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
        "burst_spread": rate_spread(series, flop),
        "sustained": sustained,
        "unit_of_value": "flop_per_s",
        "vendor": vendor,
        "fraction_of_vendor": fraction(given["burst"], vendor),
        "sustained_fraction_of_vendor": fraction(sustained, vendor),
        "power_capped": is_power_capped(run or series),
        "sm_clock_hz": series["chip"]["during"].get("sm_clock_hz"),
        "clock_hz": clock["measured_hz"],
        "clock": clock,
        "use": use_split(records, given["arithmetic"], given["burst"], vendor, clock),
        "sustained_clock_hz": long.sm_clock_hz if long else None,
        "sustained_temperature_c": long.temperature_c if long else None,
        "sustained_power_w": long.power_w if long else None,
        "of_physical_limit": of_limit,
        "impossible": physics.is_impossible(of_limit),
        "implementation": series["implementation"],
        "series": series["name"],
        "samples": len(series["samples_s"]),
        "n": given["n"],
        **UNSWEPT,
        "file": given["file"],
    }


def _sustained(record: Record, burst: Series) -> Series | None:
    """The sustained run of the same algorithm and size; None where another one was held."""
    held_runs = (series for series in record["series"] if series["name"].startswith("sustained"))
    return next((each for each in held_runs if each["implementation"] == burst["implementation"]), None)


def _unit(records: Records, side: str, name: str) -> str:
    if side == "cpu":
        return "CPU"
    gpu = facts(records, "gpu")
    return issue_rates.unit(gpu["name"], gpu["compute_capability"], name) if gpu else variant(name).unit

"""The measured ceilings: what the chip was seen to do at best, never what a datasheet says.

`burst` is the ceiling: the fastest that any load of the same product ran, as a rule short blocks with idle gaps.
`sustained` (seconds of load) is the tick below it.
"""

import math
from collections.abc import Mapping
from typing import Any

from rooflab.derive.evidence import Records, facts, measured
from rooflab.record.names import format_of_product
from rooflab.theory import issue_rates, work
from rooflab.theory.dtypes import DTYPES, dtype, variant
from rooflab.theory.quantiles import median, percentile
from rooflab.theory.vendor import VendorPeaks, vendor_peaks

Record = dict[str, Any]
Ceiling = dict[str, Any]

POWER_CAP = "swpowercap"
EMPTY = "empty kernel"
TRIAD_ELEMENT_BYTES = 4
MAIN_MEMORY = {"gpu": "HBM", "cpu": "DRAM"}
PATTERN_LABEL = {"d2d": "copy (read + write)", "read": "read", "write": "write", "triad": "triad", "l2": "read"}
UNEVEN = 0.03  # lab over burst from which on the reader is told
REACH = 0.9  # of the L2 ceiling: buffers up to the largest that still reads this fast are served by L2


def seconds_per_launch(series: Mapping[str, Any]) -> list[float]:
    """The samples of a series divided by the launches each of them holds, seconds."""
    return [sample / series["iterations_per_sample"] for sample in series["samples_s"]]


def all_ceilings(records: Records) -> list[Ceiling]:
    """Every ceiling the records support, by id. `flop_per_s` for compute, `bytes_per_s` for memory."""
    kinds = (_compute, _instructions, _memory)
    made = [ceiling for side in ("gpu", "cpu") for kind in kinds for ceiling in kind(records, side)]
    return sorted(made, key=lambda ceiling: str(ceiling["id"]))


def launch_floors(records: Records) -> list[Record]:
    """The shortest step each way of launching allows: the median time of launching nothing, seconds."""
    made = []
    for side in ("gpu", "cpu"):
        for file, record in measured(records, side, "launch_floor").items():
            made += [_floor(side, file, series) for series in record["series"]]
    return sorted(made, key=lambda floor: str(floor["id"]))


def own_floors(record: Record, floors: list[Record]) -> list[Record]:
    """The launch floors with the values that a decode program took of its own launches, where it took them: launching
    depends on the state of the host, which differs from program to program."""
    own = {(s["launch"], s["timing"]): s for s in record["series"] if s["implementation"] == EMPTY}
    return [
        floor | _floor_times(own[way]) if (way := (floor["launch"], floor["timing"])) in own else floor
        for floor in floors
    ]


def vendor_of(records: Records) -> VendorPeaks | None:
    """The vendor's figures of the session's GPU; None without its device record."""
    gpu = facts(records, "gpu")
    if gpu is None:
        return None
    return vendor_peaks(
        gpu["name"],
        gpu["sm_count"],
        gpu["compute_capability"],
        gpu.get("max_sm_clock_hz") or gpu.get("sm_clock_hz"),
        gpu.get("memory_bytes"),
        bool(gpu.get("mig")),
        gpu.get("max_memory_clock_hz") or gpu.get("memory_clock_hz"),
        gpu.get("memory_bus_bits"),
    )


def vendor_flop_per_s(records: Records, side: str, name: str) -> float | None:
    """The vendor's dense peak of a dtype or variant on this side; on a CPU the theoretical peak where every factor is known."""
    if side == "cpu":
        return cpu_peak_flop_per_s(records, name)
    peaks = vendor_of(records)
    return peaks.flop_per_s[name].value if peaks else None


def cpu_peak_flop_per_s(records: Records, name: str) -> float | None:
    """Cores x maximum clock x fp32 lanes x FMA units x 2 FLOP, half of that in fp64; None for any other dtype."""
    factors = (facts(records, "cpu") or {}).get("peak") or {}
    known: list[Any] = [factors.get(factor) for factor in ("cores", "clock_hz", "fp32_lanes", "fma_units")]
    share = {"fp32": 1.0, "fp64": 0.5}.get(name)
    return None if share is None or None in known else 2 * share * math.prod(map(float, known))


def given_ceilings(given: Mapping[str, Any], file: str) -> list[Ceiling]:
    """The CPU's ceilings from a roofline measured elsewhere instead of from records.

    Expects {"flop_per_s": {dtype: rate}, "bytes_per_s": {"read": rate, "triad": rate}}, SI units. Raises ValueError.
    """
    try:
        compute, memory = dict(given["flop_per_s"]), dict(given["bytes_per_s"])
        rates = [float(rate) for rate in [*compute.values(), *memory.values()]]
        valid = min(rates, default=0.0) > 0 and set(compute) <= set(DTYPES) and set(memory) <= {"read", "triad"}
    except (KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f'{file}: not a CPU roofline: expected {{"flop_per_s": {{"fp32": 8e11}}, "bytes_per_s": {{"read": 4e10, '
            '"triad": 3e10}} in SI units, rates above 0'
        )
    tops = [_given(file, "compute", name, float(rate), f"{dtype(name).label} CPU") for name, rate in compute.items()]
    slopes = [_given(file, "memory", name, float(rate), f"DRAM {PATTERN_LABEL[name]}") for name, rate in memory.items()]
    return tops + slopes


def variant_of(record: Record) -> str:
    """The dtype or variant of a GEMM record, by its name."""
    return format_of_product(record["name"])


def plain(record: Record, name: str) -> Record | None:
    """The series `name` ("lab", "burst", "sustained") of the plain product of a GEMM record."""
    return next((series for series in record["series"] if series["name"] == name), None)


def gemm_flop_per_s(record: Record, series: Mapping[str, Any]) -> float:
    """FLOP/s of a GEMM series at its median; of a sustained one in its second half, when the chip has settled."""
    seconds = seconds_per_launch(series)
    settled = seconds[len(seconds) // 2 :] if series["name"].startswith("sustained") else seconds
    return _gemm_flop(record) / median(settled)


def verified(series: Mapping[str, Any]) -> bool:
    """Whether the result of what was timed was compared with float64 and lay within its tolerance."""
    error, tolerance = series["relative_error"], series["tolerance"]
    return error is not None and tolerance is not None and error <= tolerance


def refuted(series: Mapping[str, Any]) -> bool:
    """Whether the comparison was made and failed."""
    return series["relative_error"] is not None and not verified(series)


def fraction(value: float | None, whole: float | None) -> float | None:
    """value / whole, None where either is unknown."""
    return value / whole if value is not None and whole else None


def is_power_capped(series: Mapping[str, Any]) -> bool | None:
    """Whether the power limit held the clocks down under load; None where the chip does not say."""
    reasons = series["chip"]["during"].get("throttle_reasons")
    if reasons is None:
        return None
    return any(POWER_CAP in "".join(filter(str.isalnum, str(reason))).lower() for reason in reasons)


def _gemm_flop(record: Record) -> int:
    shape = record["shape"]
    size = dtype(record["dtype"]).bytes
    return work.gemm(shape["m"], shape["n"], shape["k"], size, size, "reads").flop


def _compute(records: Records, side: str) -> list[Ceiling]:
    gemms = measured(records, side, "gemm")
    made = [_compute_ceiling(records, side, name) for name in sorted({variant_of(record) for record in gemms.values()})]
    return [ceiling for ceiling in made if ceiling is not None]


def _compute_ceiling(records: Records, side: str, name: str) -> Ceiling | None:
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
    seconds = seconds_per_launch(series)
    flop = _gemm_flop(record)
    arithmetic = variant(name)
    unit = _unit(records, side, name)
    return _ceiling(
        id=f"{side}-compute-{name}",
        side=side,
        kind="compute",
        label=f"{arithmetic.label} {unit}" if name in DTYPES else arithmetic.label,
        dtype=arithmetic.name,
        variant=name,
        unit=unit,
        accumulator=arithmetic.accumulator if side == "gpu" else None,
        burst=best,
        burst_spread=[flop / percentile(seconds, 90), flop / percentile(seconds, 10)],
        sustained=gemm_flop_per_s(record, held) if held else None,
        unit_of_value="flop_per_s",
        vendor=vendor_flop_per_s(records, side, name),
        power_capped=is_power_capped(held or series),
        sm_clock_hz=series["chip"]["during"].get("sm_clock_hz"),
        implementation=series["implementation"],
        n=record["shape"]["n"],
        file=file,
    )


def _instructions(records: Records, side: str) -> list[Ceiling]:
    """What the CUDA cores issue when nothing has to be fetched: multiply-adds in registers."""
    made = []
    for file, record in measured(records, side, "fma").items():
        flop = 2 * record["shape"]["threads"] * record["shape"]["fma_per_thread"]
        rates = {series["name"]: flop / median(seconds_per_launch(series)) for series in record["series"]}
        best = max(record["series"], key=lambda series: rates[series["name"]])
        seconds = seconds_per_launch(best)
        made.append(
            _ceiling(
                id=f"{side}-compute-{record['dtype']}_fma",
                side=side,
                kind="compute",
                label=f"{dtype(record['dtype']).label} multiply-adds in registers",
                dtype=record["dtype"],
                variant=f"{record['dtype']}_fma",
                unit="CUDA core",
                accumulator=record["dtype"],
                burst=rates[best["name"]],
                burst_spread=[flop / percentile(seconds, 90), flop / percentile(seconds, 10)],
                sustained=rates.get("sustained"),
                unit_of_value="flop_per_s",
                vendor=vendor_flop_per_s(records, side, record["dtype"]),
                power_capped=is_power_capped(plain(record, "sustained") or best),
                sm_clock_hz=best["chip"]["during"].get("sm_clock_hz"),
                implementation=best["implementation"],
                file=file,
            )
        )
    return made


def uneven_loads(records: Records) -> list[str]:
    """Products whose launches in a row ran clearly faster than their bursts: the chip changed its state between them."""
    made = []
    for side in ("gpu", "cpu"):
        for file, record in measured(records, side, "gemm").items():
            lab, burst = plain(record, "lab"), plain(record, "burst")
            gain = gemm_flop_per_s(record, lab) / gemm_flop_per_s(record, burst) - 1 if lab and burst else 0.0
            if gain > UNEVEN:
                made.append(
                    f"{file}: the launches in a row ran {gain:.0%} faster than the bursts: the chip's state changed"
                )
    return made


def _sustained(record: Record, burst: Record) -> Record | None:
    """The sustained run of the same product, of the same implementation where it was taken."""
    held = [series for series in record["series"] if series["name"].startswith("sustained")]
    same = [series for series in held if series["implementation"] == burst["implementation"]]
    return next(iter(same or held), None)


def _unit(records: Records, side: str, name: str) -> str:
    if side == "cpu":
        return "CPU"
    gpu = facts(records, "gpu")
    return issue_rates.unit(gpu["name"], gpu["compute_capability"], name) if gpu else variant(name).unit


def _memory(records: Records, side: str) -> list[Ceiling]:
    return [_memory_ceiling(records, side, file, r) for file, r in measured(records, side, "bandwidth").items()]


def _memory_ceiling(records: Records, side: str, file: str, record: Record) -> Ceiling:
    pattern = record["name"]
    sweep = _sweep(record) if pattern == "l2" else []
    series = max(record["series"], key=lambda each: _moved_bytes(record, each) / median(seconds_per_launch(each)))
    seconds, moved = seconds_per_launch(series), _moved_bytes(record, series)
    tier = "L2" if pattern == "l2" else MAIN_MEMORY[side]
    peaks = vendor_of(records) if tier == "HBM" else None
    return _ceiling(
        id=f"{side}-memory-{pattern}",
        side=side,
        kind="memory",
        label=f"{tier} {PATTERN_LABEL[pattern]}",
        tier=tier,
        pattern=pattern,
        burst=moved / median(seconds),
        burst_spread=[moved / percentile(seconds, 90), moved / percentile(seconds, 10)],
        unit_of_value="bytes_per_s",
        vendor=peaks.bytes_per_s.value if peaks else None,
        power_capped=is_power_capped(series),
        sm_clock_hz=series["chip"]["during"].get("sm_clock_hz"),
        implementation=series["implementation"],
        sweep=[list(each) for each in sweep] or None,
        reach_bytes=max((size for size, rate in sweep if rate >= REACH * moved / median(seconds)), default=None),
        file=file,
    )


def _sweep(record: Record) -> list[tuple[int, float]]:
    """(buffer bytes, bytes per second) of every size of an L2 sweep, smallest first; empty where only one was taken."""
    sizes = record["details"].get("bytes_per_series", {})
    rates = {s["name"]: _moved_bytes(record, s) / median(seconds_per_launch(s)) for s in record["series"]}
    return sorted((size, rates[name]) for name, size in sizes.items())


def _moved_bytes(record: Record, series: Mapping[str, Any]) -> int:
    nbytes = record["details"].get("bytes_per_series", {}).get(series["name"], record["shape"]["bytes_per_array"])
    if record["name"] == "triad":
        return work.triad(nbytes // TRIAD_ELEMENT_BYTES, TRIAD_ELEMENT_BYTES).bytes
    count = {"d2d": work.copy, "read": work.read, "write": work.write, "l2": work.read}
    return count[record["name"]](nbytes).bytes


def _ceiling(**given: Any) -> Ceiling:
    blank = ("dtype", "variant", "unit", "accumulator", "tier", "pattern", "sustained", "n", "reach_bytes", "sweep")
    made = dict.fromkeys(blank) | given
    made["fraction_of_vendor"] = fraction(made["burst"], made["vendor"])
    made["sustained_fraction_of_vendor"] = fraction(made["sustained"], made["vendor"])
    return made


def _given(file: str, kind: str, name: str, rate: float, label: str) -> Ceiling:
    is_compute = kind == "compute"
    own = {"dtype": name, "variant": name, "unit": "CPU"} if is_compute else {"tier": "DRAM", "pattern": name}
    return _ceiling(
        id=f"cpu-{kind}-{name}",
        side="cpu",
        kind=kind,
        label=label,
        burst=rate,
        burst_spread=[rate, rate],
        unit_of_value="flop_per_s" if is_compute else "bytes_per_s",
        vendor=None,
        power_capped=None,
        sm_clock_hz=None,
        implementation="given",
        file=file,
        **own,
    )


def _floor_times(series: Record) -> Record:
    seconds = seconds_per_launch(series)
    return {"median_s": median(seconds), "p10_s": percentile(seconds, 10), "p90_s": percentile(seconds, 90)}


def _floor(side: str, file: str, series: Record) -> Record:
    return {
        "id": f"{side}-launch-{series['name'].replace(' ', '_')}",
        "side": side,
        "launch": series["launch"],
        "timing": series["timing"],
        **_floor_times(series),
        "file": file,
    }

"""The vendor table: which device gets which row, that every figure is dense, and what an unlisted device gets."""

import json

import pytest
from rooflab.theory import vendor
from rooflab.theory.vendor import GIB, PEAKS, VendorPeaks, formula_estimate, memory_estimate, table, vendor_peaks

MIB = 2**20
CLOCK_HZ = 1.98e9

# device name, SM count, compute capability, memory in MiB as NVML gives it -> row, fp16 TFLOPS, memory GB/s
KNOWN = [
    ("NVIDIA H100 PCIe", 114, "9.0", 81559, "H100 PCIe", 756, 2039),
    ("NVIDIA H100 80GB HBM3", 132, "9.0", 81559, "H100 SXM5", 989.4, 3350),
    ("NVIDIA H100 NVL", 132, "9.0", 95830, "H100 NVL", 835.5, 3938),
    ("NVIDIA H200", 132, "9.0", 143771, "H200 SXM", 989.4, 4800),
    ("NVIDIA H200 NVL", 132, "9.0", 143771, "H200 NVL", 835.5, 4800),
    ("NVIDIA GH200 480GB", 132, "9.0", 97871, "GH200 96GB", 989.4, 4000),
    ("NVIDIA GH200 144G HBM3e", 132, "9.0", 146831, "GH200 144GB", 989.4, 4900),
    ("NVIDIA A100-SXM4-40GB", 108, "8.0", 40960, "A100 SXM4 40GB", 312, 1555),
    ("NVIDIA A100 80GB PCIe", 108, "8.0", 81920, "A100 PCIe 80GB", 312, 1935),
    ("NVIDIA A10", 72, "8.6", 23028, "A10", 125, 600),
    ("NVIDIA A10G", 80, "8.6", 23028, "A10G", 70, 600),
    ("NVIDIA L40", 142, "8.9", 46068, "L40", 181.05, 864),
    ("NVIDIA L40S", 142, "8.9", 46068, "L40S", 362.05, 864),
    ("NVIDIA L4", 58, "8.9", 23034, "L4", 121, 300),
    ("Tesla T4", 40, "7.5", 15360, "T4", 65, 320),
    ("NVIDIA GeForce RTX 4090", 128, "8.9", 24564, "RTX 4090", 165.2, 1008),
    ("NVIDIA GB200", 152, "10.0", 189471, "GB200 (per GPU)", 2500, 8000),
]


def h200(**changes: object) -> VendorPeaks:
    device: dict[str, object] = {
        "name": "NVIDIA H200",
        "sm_count": 132,
        "compute_capability": "9.0",
        "max_sm_clock_hz": CLOCK_HZ,
        "memory_bytes": 143771 * MIB,
    }
    return vendor_peaks(**{**device, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "sms", "capability", "mib", "gpu", "fp16", "bandwidth"), KNOWN)
def test_an_exact_device_gets_its_own_row(
    name: str, sms: int, capability: str, mib: int, gpu: str, fp16: float, bandwidth: float
) -> None:
    peaks = vendor_peaks(name, sms, capability, CLOCK_HZ, mib * MIB)
    assert (peaks.matched, peaks.reason) == (gpu, None)
    assert peaks.flop_per_s["fp16"].value == pytest.approx(fp16 * 1e12)
    assert peaks.bytes_per_s.value == pytest.approx(bandwidth * 1e9)
    assert (peaks.estimate_flop_per_s, peaks.estimate_bytes_per_s) == ({}, None)


def test_different_names_get_different_rows() -> None:
    assert len({gpu for *_, gpu, _, _ in KNOWN}) == len({name for name, *_ in KNOWN})


def test_every_h200_figure() -> None:
    tera = {"fp32": 67, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4, "fp8_e4m3": 1978.9, "int8": 1978.9, "fp64": 67}
    peaks = h200()
    for name, value in tera.items():
        assert peaks.flop_per_s[name].value == pytest.approx(value * 1e12), name
    assert peaks.board_power_w == 700
    assert peaks.flop_per_s["fp64"].note == "Tensor Core rate; on CUDA cores 34 TFLOPS"
    assert set(peaks.flop_per_s) == set(PEAKS)


def test_every_figure_names_its_source_and_how_far_it_was_checked() -> None:
    source = h200().flop_per_s["bf16"].source
    assert source is not None
    assert source.startswith("https://")
    assert "(read in a secondary source: " in source


@pytest.mark.parametrize(
    ("name", "sms", "capability", "peak", "reason"),
    [
        ("NVIDIA A100 80GB PCIe", 108, "8.0", "fp8_e4m3", "no fp8_e4m3 Tensor Cores on compute capability 8.0"),
        ("Tesla T4", 40, "7.5", "bf16", "no bf16 Tensor Cores on compute capability 7.5"),
        ("NVIDIA L40", 142, "8.9", "fp16_acc16", "the vendor table holds no fp16_acc16 figure of L40"),
    ],
)
def test_a_figure_the_part_lacks_is_null_with_the_reason(
    name: str, sms: int, capability: str, peak: str, reason: str
) -> None:
    figure = vendor_peaks(name, sms, capability, CLOCK_HZ).flop_per_s[peak]
    assert figure.value is None
    assert figure.reason is not None
    assert figure.reason.startswith(reason)


def test_an_unknown_device_gets_null_and_a_labelled_estimate() -> None:
    peaks = vendor_peaks("NVIDIA X900", 132, "9.0", CLOCK_HZ, 143771 * MIB, False, 3.201e9, 6016)
    assert (peaks.matched, peaks.reason) == (None, "'NVIDIA X900' is not in the vendor table")
    assert {figure.value for figure in (*peaks.flop_per_s.values(), peaks.bytes_per_s)} == {None}
    fp16 = peaks.estimate_flop_per_s["fp16"]
    assert fp16.value == pytest.approx(1070.5e12, rel=1e-4)  # 132 x 4096 x 1.98e9
    assert (fp16.kind, fp16.note) == ("formula", "estimate, not a vendor figure")
    assert peaks.estimate_bytes_per_s is not None
    assert peaks.estimate_bytes_per_s.value == pytest.approx(4814.3e9, rel=1e-4)  # 2 x 3201e6 x 6016 / 8


@pytest.mark.parametrize("name", ["NVIDIA H200 XL", "H200", "NVIDIA H20", "nvidia h200", "NVIDIA H200 "])
def test_a_similar_name_never_gets_the_h200_row(name: str) -> None:
    assert h200(name=name).matched is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"mig": True, "sm_count": 16}, "MIG slice: 16 of 132 SMs"),
        ({"name": "NVIDIA H200 MIG 1g.18gb", "sm_count": 16}, "MIG slice: 16 of 132 SMs"),
        ({"mig": True}, "MIG slice: 132 of 132 SMs"),
        ({"sm_count": 60}, "MIG slice: 60 of 132 SMs, or another version of H200 SXM"),
        ({"sm_count": 144}, "144 SMs, but H200 SXM has 132: another version of the part"),
        ({"compute_capability": "8.0"}, "compute capability 8.0, but H200 SXM has 9.0"),
        ({"memory_bytes": 80 * GIB}, "80.0 GiB of memory, but H200 SXM has 141: another version of the part"),
        ({"name": "NVIDIA X900 MIG 1g.18gb"}, "'NVIDIA X900 MIG 1g.18gb' is not in the vendor table (MIG slice)"),
    ],
)
def test_a_device_that_is_not_the_whole_part_gets_null(changes: dict[str, object], reason: str) -> None:
    peaks = h200(**changes)
    assert (peaks.matched, peaks.reason) == (None, reason)
    assert peaks.bytes_per_s.value is None


def test_the_estimate_of_a_slice_counts_its_own_sms_and_no_bandwidth() -> None:
    peaks = h200(mig=True, sm_count=16, max_memory_clock_hz=3.2e9, bus_width_bit=6016)
    assert peaks.estimate_flop_per_s["fp32"].value == pytest.approx(16 * 256 * CLOCK_HZ)
    assert peaks.estimate_bytes_per_s is not None
    assert peaks.estimate_bytes_per_s.value is None


def test_memory_is_checked_only_where_it_is_given() -> None:
    assert h200(memory_bytes=None).matched == "H200 SXM"


@pytest.mark.parametrize("capability", ["90", "9", "sm_90", ""])
def test_a_capability_in_another_form_is_an_error(capability: str) -> None:
    with pytest.raises(ValueError, match=r"expected major and minor like '9\.0'"):
        h200(compute_capability=capability)


def test_everything_is_json() -> None:
    for peaks in (h200(), h200(name="NVIDIA X900")):
        data = json.loads(json.dumps(peaks.to_dict(), allow_nan=False))
        assert data["matched"] == peaks.matched
        assert data["flop_per_s"]["fp16"]["kind"] == "datasheet"


# The formula


def tera(name: str, sms: int, capability: str, clock_hz: float) -> dict[str, float | None]:
    estimate = formula_estimate(name, sms, capability, clock_hz)
    return {peak: None if figure.value is None else figure.value / 1e12 for peak, figure in estimate.items()}


@pytest.mark.parametrize(
    ("capability", "expected"),
    # 100 SMs at 1 GHz: FLOP/clock/SM / 10 in TFLOPS; half rate for all that accumulates in fp32 on Tensor Cores
    [
        ("7.5", {"fp32": 12.8, "fp16": 51.2, "fp16_acc16": 102.4, "int8": 204.8, "tf32": None}),
        ("8.6", {"fp32": 25.6, "tf32": 25.6, "fp16": 51.2, "bf16": 51.2, "fp16_acc16": 102.4, "fp8_e4m3": None}),
        ("8.9", {"tf32": 25.6, "fp16": 51.2, "bf16": 51.2, "fp8_e4m3": 102.4, "int8": 204.8}),
        ("12.0", {"tf32": 25.6, "fp16": 51.2, "bf16": 51.2, "fp8_e4m3": 102.4, "int8": 204.8}),
    ],
)
def test_an_unlisted_geforce_accumulates_at_half_rate(capability: str, expected: dict[str, float | None]) -> None:
    values = tera("NVIDIA GeForce RTX 9999", 100, capability, 1e9)
    assert {peak: values[peak] for peak in expected} == pytest.approx(expected)


def test_an_unlisted_workstation_part_runs_at_full_rate() -> None:
    assert tera("NVIDIA RTX A9999", 100, "8.6", 1e9)["fp16"] == pytest.approx(102.4)


def test_a_half_rate_part_of_the_table_stays_half_rate_in_the_estimate() -> None:
    assert tera("NVIDIA A10G", 40, "8.6", 1e9)["fp16"] == pytest.approx(40 * 512 / 1000)


@pytest.mark.parametrize(
    ("name", "capability", "reason"),
    [
        ("NVIDIA H20-3e", "9.0", "'NVIDIA H20-3e' is an export version"),
        ("NVIDIA GeForce GTX 1660 Ti", "7.5", "'NVIDIA GeForce GTX 1660 Ti' has no Tensor Cores"),
        ("NVIDIA X900", "13.7", "no FLOP per clock per SM known for compute capability 13.7"),
    ],
)
def test_no_estimate_where_the_formula_would_mislead(name: str, capability: str, reason: str) -> None:
    figure = formula_estimate(name, 78, capability, CLOCK_HZ)["fp16"]
    assert figure.value is None
    assert figure.reason is not None
    assert figure.reason.startswith(reason)


def test_no_estimate_without_clock_or_bus() -> None:
    assert formula_estimate("NVIDIA X900", 100, "9.0", None)["fp16"].value is None
    assert memory_estimate(None, 5120).value is None
    assert memory_estimate(1.2e9, 0).reason == "the driver does not give memory clock and bus width"


# The table: SMs x FLOP/clock/SM x clock must give each figure within 3 %, so a sparse one (2x) cannot hide.
# An exempt figure may lie below, and at most 15 % above.


def offenders(row: dict[str, str]) -> list[str]:
    bad = []
    for peak in PEAKS:
        figure = vendor._datasheet_figure(peak, row).value
        clock = row["cuda_core_clock_mhz" if peak in ("fp32", "fp64") else "tensor_core_clock_mhz"]
        rate = formula_estimate(row["device_name"], int(row["sm_count"]), row["compute_capability"], float(clock) * 1e6)
        expected = rate[peak].value or full_rate(row, peak, float(clock))
        exempt = peak in row["formula_exempt"].split()
        low, high = (0.0, 1.15) if exempt else (0.97, 1.03)
        if figure is not None and not low <= figure / expected <= high:
            bad.append(peak)
    return bad


def full_rate(row: dict[str, str], peak: str, clock_mhz: float) -> float:
    """The architecture's rate, for the export part whose estimate is withheld; 0 for a format it lacks."""
    rate = vendor.FLOP_PER_CLOCK_PER_SM[row["compute_capability"]].get(peak, 0)
    return int(row["sm_count"]) * rate * clock_mhz * 1e6


@pytest.mark.parametrize("row", table().values(), ids=lambda row: row["gpu"])
def test_every_figure_of_the_table_is_dense(row: dict[str, str]) -> None:
    assert offenders(row) == []


@pytest.mark.parametrize("row", table().values(), ids=lambda row: row["gpu"])
def test_a_sparse_figure_in_any_row_would_be_caught(row: dict[str, str]) -> None:
    for peak in PEAKS:
        column = {"int8": "int8_tops", "fp64": "fp64_tensor_tflops"}.get(peak, f"{peak}_tflops")
        if row[column] and peak not in row["formula_exempt"].split():
            assert offenders({**row, column: str(2 * float(row[column]))}) == [peak]


def test_a_figure_is_exempt_from_the_formula_only_with_a_note() -> None:
    exempt = {row["gpu"]: row for row in table().values() if row["formula_exempt"]}
    assert set(exempt) == {"A10G", "L40", "H20"}
    assert all(row["formula_note"] for row in exempt.values())


def test_rows_are_complete_and_distinct() -> None:
    rows = list(table().values())
    lines = vendor.TABLE.read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(lines) - 1  # no device name twice
    assert len({row["gpu"] for row in rows}) == len(rows)
    for row in rows:
        assert row["source"].startswith("https://"), row["gpu"]
        assert row["source_status"] in ("read in a secondary source", "formula-checked", "from memory"), row["gpu"]
        assert (row["source_status"] == "read in a secondary source") == bool(row["checked_against"]), row["gpu"]
        assert float(row["memory_gb_per_s"]) > 0
        assert float(row["board_power_w"]) > 0

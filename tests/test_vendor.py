"""The vendor table: which device gets which row, that every figure is dense, and what an unlisted device gets."""

import json
from dataclasses import replace

import pytest
from rooflab.machine.detect import gpu_slug, slug
from rooflab.theory import parts as table
from rooflab.theory.issue_rates import FLOP_PER_CLOCK_PER_SM, HALVED_ON_THE_SHEET, issue_rate, unit
from rooflab.theory.parts import GIB, PEAKS, Part, match, match_folder, parts
from rooflab.theory.vendor import VendorPeaks, formula_estimate, memory_estimate, vendor_peaks

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
    assert (fp16.kind, fp16.note) == ("formula", "estimate, not a vendor figure; Tensor Core rate")
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


def test_the_estimate_of_a_slice_is_its_share_of_the_card() -> None:
    peaks = h200(mig="1g.18gb", sm_count=16, memory_bytes=17.6 * GIB)
    assert peaks.estimate_flop_per_s["fp32"].value == pytest.approx(67e12 * 16 / 132)
    assert peaks.estimate_bytes_per_s is not None
    assert peaks.estimate_bytes_per_s.value == pytest.approx(4800e9 * 17.6 / 141)
    assert peaks.estimate_bytes_per_s.note == "estimate, not a vendor figure"


def test_the_bandwidth_of_a_slice_of_an_unknown_card_is_not_estimated() -> None:
    peaks = h200(name="NVIDIA X900 MIG 1g.18gb", max_memory_clock_hz=3.2e9, bus_width_bit=6016)
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
        ("NVIDIA L2", "8.9", "'NVIDIA L2' is an export version"),
        ("NVIDIA GeForce GTX 1660 Ti", "7.5", "'NVIDIA GeForce GTX 1660 Ti' has no Tensor Cores"),
        ("NVIDIA X900", "13.7", "no FLOP per clock per SM known for compute capability 13.7"),
    ],
)
def test_no_estimate_where_the_formula_would_mislead(name: str, capability: str, reason: str) -> None:
    figure = formula_estimate(name, 78, capability, CLOCK_HZ)["int8"]
    assert figure.value is None
    assert figure.reason is not None
    assert figure.reason.startswith(reason)


def test_no_estimate_without_clock_or_bus() -> None:
    assert formula_estimate("NVIDIA X900", 100, "9.0", None)["fp16"].value is None
    assert memory_estimate(None, 5120).value is None
    assert memory_estimate(1.2e9, 0).reason == "the driver does not give memory clock and bus width"


# The table: SMs x FLOP/clock/SM x clock must give each figure within 3 %, so a sparse one (2x) cannot hide.
# An exempt figure may lie below, and at most 15 % above.


def offenders(part: Part) -> list[str]:
    bad = []
    for peak, figure in part.flop_per_s.items():
        sheet = issue_rate(part.device_name, part.compute_capability, peak, on_sheet=True).flop_per_clock
        halved = part.half_rate and peak in HALVED_ON_THE_SHEET
        rate = sheet or FLOP_PER_CLOCK_PER_SM[part.compute_capability][peak] / (2 if halved else 1)
        expected = part.sm_count * rate * part.clock_hz(peak)
        low, high = (0.0, 1.15) if peak in part.formula_exempt else (0.97, 1.03)
        if not low <= figure / expected <= high:
            bad.append(peak)
    return bad


EACH = pytest.mark.parametrize("part", parts(), ids=lambda part: part.name)


@EACH
def test_every_figure_of_the_table_is_dense(part: Part) -> None:
    assert offenders(part) == []


@EACH
def test_a_sparse_figure_in_any_row_would_be_caught(part: Part) -> None:
    for peak, figure in part.flop_per_s.items():
        if peak not in part.formula_exempt:
            assert offenders(replace(part, flop_per_s=part.flop_per_s | {peak: 2 * figure})) == [peak]


@EACH
def test_a_clock_computed_back_is_what_the_figures_give(part: Part) -> None:
    for clock_hz, peak in ((part.cuda_core_hz, "fp32"), (part.tensor_core_hz, "bf16")):
        sheet = issue_rate(part.device_name, part.compute_capability, peak, on_sheet=True).flop_per_clock
        if part.clock_source == "computed back" and sheet and peak not in part.formula_exempt:
            assert part.flop_per_s[peak] / (part.sm_count * sheet) == pytest.approx(clock_hz, rel=0.011)


def test_a_figure_is_exempt_from_the_formula_only_with_a_note() -> None:
    exempt = {part.name: part for part in parts() if part.formula_exempt}
    cut = {"H20", "H20-3e", "H800 SXM5", "H800 PCIe", "B300 SXM (HGX)", "GB300 (per GPU)"}
    assert set(exempt) == {"A10G", "L40", "L20"} | cut
    assert all(part.formula_note for part in exempt.values())


def test_rows_are_complete_and_distinct() -> None:
    lines = table.TABLE.read_text(encoding="utf-8").splitlines()
    assert len(parts()) == len(lines) - 1 == len({part.name for part in parts()})
    assert len({(part.device_name, part.memory_bytes) for part in parts()}) == len(parts())
    for part in parts():
        assert part.source.startswith("https://"), part.name
        assert part.source_status in ("read in a secondary source", "formula-checked", "from memory"), part.name
        assert (part.source_status == "read in a secondary source") == bool(part.checked_against), part.name
        assert part.clock_source in ("boost clock", "computed back"), part.name
        assert min(part.bytes_per_s, part.board_power_w, part.tensor_core_hz, part.cuda_core_hz) > 0, part.name
        assert set(part.formula_exempt) <= set(PEAKS), part.name


# Which part a card is


@EACH
def test_every_row_is_found_by_its_own_attributes_and_by_no_other(part: Part) -> None:
    found = match(
        part.device_name,
        sm_count=part.sm_count,
        memory_bytes=part.memory_bytes,
        compute_capability=part.compute_capability,
    )
    assert (found.part, found.whole, found.sm_share, found.memory_share) == (part, True, 1.0, 1.0)


# the same part under names that begin alike: none of them is it
LIKE_IT = [
    ("NVIDIA GeForce RTX 4090 Laptop GPU", "laptop GPU"),
    ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "laptop GPU"),
    ("Quadro RTX 6000 with Max-Q Design", "laptop GPU"),
    ("GRID A100D-10C", "virtual GPU"),
    ("NVIDIA A100-40C", "virtual GPU"),
    ("NVIDIA H100-1-10C", "virtual GPU"),
    ("GRID T4-16Q", "virtual GPU"),
    ("NVIDIA A16-8Q", "virtual GPU"),
    ("NVIDIA H200 NVL 2", "is not in the vendor table"),
    ("NVIDIA GeForce RTX 4080 SUPER OC", "is not in the vendor table"),
]


@pytest.mark.parametrize(("name", "reason"), LIKE_IT)
def test_a_name_that_begins_like_a_part_is_none_with_the_reason(name: str, reason: str) -> None:
    found = match(name, sm_count=76, memory_bytes=16 * GIB)
    assert (found.part, found.flop_per_s("fp16"), found.bytes_per_s()) == (None, None, None)
    assert found.reason is not None
    assert reason in found.reason


@pytest.mark.parametrize(
    ("name", "sms", "mib", "row"),
    [
        ("NVIDIA GeForce RTX 3080", 68, 10240, "RTX 3080 10GB"),
        ("NVIDIA GeForce RTX 3080", 70, 12288, "RTX 3080 12GB"),
        ("NVIDIA GeForce RTX 5060 Ti", 36, 8151, "RTX 5060 Ti 8GB"),
        ("NVIDIA GeForce RTX 5060 Ti", 36, 16311, "RTX 5060 Ti 16GB"),
        ("NVIDIA H20-3e", 78, 143771, "H20-3e"),
        ("NVIDIA H20", 78, 97871, "H20"),
        ("NVIDIA GB300", 152, 284208, "GB300 (per GPU)"),
        ("NVIDIA B300 SXM6 AC", 148, 275040, "B300 SXM (HGX)"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 188, 97887, "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", 188, 97887, "RTX PRO 6000 Blackwell Max-Q"),
        ("NVIDIA L20", 92, 46068, "L20"),
        ("Quadro RTX 8000", 72, 45556, "Quadro RTX 8000"),
    ],
)
def test_parts_that_share_a_name_or_a_chip_are_told_apart(name: str, sms: int, mib: int, row: str) -> None:
    found = match(name, sm_count=sms, memory_bytes=mib * MIB)
    assert found.whole
    assert found.part is not None
    assert found.part.name == row


@pytest.mark.parametrize(
    ("name", "known", "reason"),
    [
        ("NVIDIA GeForce RTX 5060 Ti", {"sm_count": 36}, "its memory size tells which"),
        ("NVIDIA GeForce RTX 3060", {"memory_bytes": 8 * GIB}, "8.0 GiB of memory, but RTX 3060 12GB has 12"),
        ("NVIDIA GB300", {"memory_bytes": 256703 * MIB}, "250.7 GiB of memory, but GB300 (per GPU) has 278"),
        ("NVIDIA GeForce RTX 4090", {"memory_bytes": 48 * GIB}, "48.0 GiB of memory, but RTX 4090 has 24"),
    ],
)
def test_a_card_of_the_name_and_another_size_is_none(name: str, known: dict[str, float], reason: str) -> None:
    found = match(name, **known)  # type: ignore[arg-type]
    assert found.part is None
    assert found.reason is not None
    assert reason in found.reason


def test_a_slice_has_its_share_of_sms_and_of_memory_whether_measured_or_planned() -> None:
    live = match("NVIDIA H200", sm_count=16, memory_bytes=17.5 * GIB, mig="1g.18gb")
    planned = match_folder(gpu_slug({"name": "NVIDIA H200", "mig": "1g.18gb"}), slug)
    for found in (live, planned):
        assert not found.whole
        assert found.flop_per_s("bf16") == pytest.approx(989.4e12 / 8, rel=0.04)
        assert found.bytes_per_s() == pytest.approx(4.8e12 / 8, rel=0.04)
    assert live.reason == "MIG slice: 16 of 132 SMs"
    assert planned.reason == "MIG slice: profile 1g.18gb"


def test_a_folder_is_matched_whole_never_by_its_beginning() -> None:
    whole = match_folder("nvidia-h200", slug)
    assert whole.part is not None
    assert whole.part.name == "H200 SXM"
    for folder in ("nvidia-h200-2", "nvidia-geforce-rtx-4090-laptop-gpu", "nvidia", "another"):
        assert match_folder(folder, slug).part is None


# The clocks that the figures assume, and what one SM issues


def test_an_h200_assumes_1830_mhz_on_tensor_cores_and_1980_elsewhere() -> None:
    clocks = h200().clock_hz
    assert {peak for peak, clock_hz in clocks.items() if clock_hz == 1.98e9} == {"fp32", "fp64"}
    assert {clock_hz for peak, clock_hz in clocks.items() if peak not in ("fp32", "fp64")} == {1.83e9}
    assert clocks["bf16"] == pytest.approx(989.4e12 / (132 * 4096), rel=1e-3)


def test_a_variant_has_its_own_figure_at_the_vendor() -> None:
    """An RTX 4090 at 310 TFLOP/s with fp16 accumulation reaches 94 % of 330.3, not 188 % of 165.2."""
    peaks = vendor_peaks("NVIDIA GeForce RTX 4090", 128, "8.9", 2.52e9, 24564 * MIB)
    own = peaks.flop_per_s["fp16_acc16"].value
    assert own is not None
    assert 310e12 / own == pytest.approx(0.94, abs=0.005)
    assert peaks.flop_per_s["fp8_e4m3_full"].value == pytest.approx(330.3e12)
    assert vendor_peaks("NVIDIA B200", 148, "10.0", 1.965e9).flop_per_s["fp8_e4m3_full"].value is None


def test_the_power_cap_of_a_t4_is_a_field() -> None:
    cap = vendor_peaks("Tesla T4", 40, "7.5", 1.59e9, 15360 * MIB).power_cap
    assert cap is not None
    assert "70 W" in cap
    assert vendor_peaks("NVIDIA A30", 56, "8.0", 1.44e9, 24576 * MIB).power_cap is None


def test_a_gtx_16_has_no_tensor_cores_anywhere() -> None:
    name = "NVIDIA GeForce GTX 1660 Ti"
    assert {unit(name, "7.5", peak) for peak in PEAKS} == {"CUDA core"}
    assert issue_rate(name, "7.5", "fp16").flop_per_clock == 256
    assert issue_rate(name, "7.5", "int8").reason == f"{name!r} has no Tensor Cores"
    assert unit("NVIDIA GeForce RTX 2080 Ti", "7.5", "fp16") == "Tensor Core"


@pytest.mark.parametrize(
    ("card", "capability", "peak", "flop", "kind"),
    [
        ("NVIDIA H200", "9.0", "bf16", 4096, "Tensor Core"),
        ("NVIDIA H200", "9.0", "fp32", 256, "CUDA core"),
        ("NVIDIA H200", "9.0", "fp64", 256, "Tensor Core"),
        ("NVIDIA B300 SXM6 AC", "10.3", "fp64", 4, "CUDA core"),
        ("NVIDIA B300 SXM6 AC", "10.3", "int8", 512, "Tensor Core"),
        ("NVIDIA GB10", "12.1", "fp16", 1024, "Tensor Core"),
        ("NVIDIA GeForce RTX 4090", "8.9", "fp16", 512, "Tensor Core"),
        ("NVIDIA GeForce RTX 4090", "8.9", "fp16_acc16", 1024, "Tensor Core"),
        ("NVIDIA GeForce RTX 4090", "8.9", "fp8_e4m3_full", 1024, "Tensor Core"),
        ("NVIDIA GeForce RTX 5060 Ti", "12.0", "fp8_e4m3", 2048, "Tensor Core"),
        ("NVIDIA A10G", "8.6", "fp16", 512, "Tensor Core"),
    ],
)
def test_what_one_sm_issues_in_a_clock(card: str, capability: str, peak: str, flop: int, kind: str) -> None:
    rate = issue_rate(card, capability, peak)
    assert (rate.flop_per_clock, rate.unit, rate.reason) == (flop, kind, None)


def test_a_measured_fp8_product_of_a_blackwell_geforce_stays_below_the_physical_limit() -> None:
    """184.6 TFLOP/s on an RTX 5060 Ti at about 2.57 GHz (github QuantumDrizzy/BLACKWALL): 195 % of the sheet, 97 % of this."""
    rate = issue_rate("NVIDIA GeForce RTX 5060 Ti", "12.0", "fp8_e4m3").flop_per_clock
    assert rate is not None
    assert 184.6e12 / (36 * rate * 2.572e9) == pytest.approx(0.97, abs=0.01)

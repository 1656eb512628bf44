"""Every kernel compiles for every compute capability the project claims, with NVIDIA's compiler and no GPU."""

import re
from pathlib import Path

import nvrtc_library
import pytest
from rooflab.measure.cuda import nvrtc
from rooflab.measure.cuda.arrays import FORMATS
from rooflab.measure.cuda.attention import grouped
from rooflab.measure.cuda.attention.configs import FusedConfig, fused_configs, kernel_defines
from rooflab.measure.cuda.attention.grouped import GroupedConfig, grouped_configs
from rooflab.measure.cuda.attention.latent_configs import LatentConfig
from rooflab.measure.cuda.attention.latent_configs import shared_bytes as latent_shared_bytes
from rooflab.theory.protocol import MEMORY_LAUNCHES

CLAIMED = (70, 75, 80, 86, 89, 90, 100, 120)
SHARED_LIMIT = 48 * 1024

LIBRARIES = [library for library in nvrtc_library.find_libraries() if ".alt." not in library.name]
needs_nvrtc = pytest.mark.skipif(not LIBRARIES, reason="no NVRTC wheel (pip install nvidia-cuda-nvrtc-cu12)")

H200 = {"capability": 90, "sm_count": 132, "limit": 24}


def compilers() -> list[tuple[Path, int]]:
    """For each compute capability the first library that knows it."""
    known = {library: nvrtc_library.supported_architectures(library) for library in LIBRARIES}
    able = {architecture: [lib for lib in LIBRARIES if architecture in known[lib]] for architecture in CLAIMED}
    return [(libraries[0], architecture) for architecture, libraries in able.items() if libraries]


def decode_ptx(library: Path, architecture: int, dtype: str, head_dim: int, group: int, config: FusedConfig) -> str:
    defines = kernel_defines(dtype, head_dim, group, config)
    text, machine_code = nvrtc_library.compile_kernel(library, "decode", architecture, defines)
    assert machine_code
    return text


def shared_bytes(text: str) -> int:
    return sum(int(size) for size in re.findall(r"\.shared [^\n]*\[(\d+)\];", text))


def test_kernels_include_nothing_and_name_their_machine_nowhere() -> None:
    for name in nvrtc.KERNELS:
        assert "#include" not in nvrtc.kernel_source(name)


def test_every_kernel_file_belongs_to_a_kernel() -> None:
    listed = {file for files in nvrtc.KERNELS.values() for file in files}
    assert listed == {path.name for path in nvrtc.FOLDER.iterdir()}


@needs_nvrtc
def test_the_claimed_capabilities_are_all_compiled_for() -> None:
    newest = max(nvrtc_library.version(library) for library in LIBRARIES if nvrtc_library.version(library)[0] == 12)
    assert newest >= (12, 8)
    assert set(CLAIMED) <= {architecture for _, architecture in compilers()}


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), compilers())
def test_bandwidth_compiles(library: Path, architecture: int) -> None:
    for loads in {config.loads_in_flight for configs in MEMORY_LAUNCHES.values() for config in configs}:
        text, _ = nvrtc_library.compile_kernel(
            library, "bandwidth", architecture, {"LOADS_IN_FLIGHT": loads, "RESIDENT": loads % 2}
        )
        assert all(f".entry {name}(" in text for name in ("read_only", "read_and_sum", "write_only", "triad", "empty"))


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), compilers())
def test_the_stamp_reads_the_timer_before_the_clock(library: Path, architecture: int) -> None:
    text, _ = nvrtc_library.compile_kernel(library, "stamp", architecture, {})
    assert ".entry stamp(" in text and 0 < text.index("%globaltimer") < text.index("%clock64")


@needs_nvrtc
def test_resident_loads_bypass_l1_and_the_others_do_not_allocate_in_it() -> None:
    texts = [
        nvrtc_library.compile_kernel(LIBRARIES[0], "bandwidth", 90, {"LOADS_IN_FLIGHT": 4, "RESIDENT": resident})[0]
        for resident in (0, 1)
    ]
    assert "ld.global.nc.L1::no_allocate.v4" in texts[0]
    assert "ld.global.cg.v4" not in texts[0]
    assert "ld.global.cg.v4" in texts[1]


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), compilers())
@pytest.mark.parametrize("dtype", FORMATS)
def test_decode_compiles(library: Path, architecture: int, dtype: str) -> None:
    decode_ptx(library, architecture, dtype, 80, 4, FusedConfig(4, 1, 8, cluster=False, heads=2))


@needs_nvrtc
@pytest.mark.parametrize("architecture", [90, 100, 120])
@pytest.mark.parametrize("splits", [2, 8])
def test_cluster_merge_compiles_to_a_cluster_launch(architecture: int, splits: int) -> None:
    text = decode_ptx(LIBRARIES[0], architecture, "fp16", 64, 1, FusedConfig(4, 4, splits, cluster=True, heads=1))
    assert f".reqnctapercluster {splits}, 1, 1" in text
    assert "atom." not in text


@needs_nvrtc
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(("head_dim", "group"), [(32, 1), (64, 4), (80, 1), (96, 2), (128, 8), (256, 1)])
def test_a_block_keeps_its_arrays_in_registers_and_fits_into_shared_memory(
    dtype: str, head_dim: int, group: int
) -> None:
    config = fused_configs(dtype, head_dim, group, units=8, sequence=512, **H200)[0]
    text = decode_ptx(LIBRARIES[0], 90, dtype, head_dim, group, config)
    assert "__local_depot" not in text
    assert 0 < shared_bytes(text) <= SHARED_LIMIT


TENSOR_CORE_COMPILERS = [(library, architecture) for library, architecture in compilers() if architecture >= 80]


def grouped_ptx(library: Path, architecture: int, dtype: str, head_dim: int, group: int, config: GroupedConfig) -> str:
    defines = grouped.kernel_defines(dtype, head_dim, group, config)
    return nvrtc_library.compile_kernel(library, "grouped", architecture, defines)[0]


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), TENSOR_CORE_COMPILERS)
@pytest.mark.parametrize("dtype", grouped.DTYPES)
def test_grouped_attention_compiles_where_its_instructions_exist(library: Path, architecture: int, dtype: str) -> None:
    text = grouped_ptx(library, architecture, dtype, 80, 5, GroupedConfig(2, 2, 4, cluster=False))
    assert "cp.async.cg.shared.global" in text
    assert "mma.sync.aligned.m16n8k16" in text
    assert ("cvt.rn.f16x2.e4m3x2" in text) == (dtype == "fp8_e4m3" and architecture >= 89)
    if architecture >= 90:
        text = grouped_ptx(library, architecture, dtype, 128, 20, GroupedConfig(4, 3, 8, cluster=True))
        assert ".reqnctapercluster 8, 1, 1" in text
        assert "atom." not in text


@needs_nvrtc
@pytest.mark.parametrize("dtype", grouped.DTYPES)
@pytest.mark.parametrize(("head_dim", "group"), [(64, 1), (80, 7), (96, 4), (128, 8), (128, 16), (256, 16)])
def test_grouped_attention_keeps_its_sums_in_registers_and_fits(dtype: str, head_dim: int, group: int) -> None:
    for config in grouped_configs(dtype, head_dim, group, units=8, sequence=512, **H200)[:2]:
        assert "__local_depot" not in grouped_ptx(LIBRARIES[0], 90, dtype, head_dim, group, config)


@needs_nvrtc
def test_a_block_that_asks_for_too_little_shared_memory_does_not_compile() -> None:
    defines = grouped.kernel_defines("bf16", 128, 8, GroupedConfig(4, 3, 1, cluster=False))
    with pytest.raises(nvrtc_library.NvrtcError, match="what the launch asks for"):
        nvrtc_library.compile_kernel(
            LIBRARIES[0], "grouped", 90, defines | {"SHARED_BYTES": defines["SHARED_BYTES"] - 128}
        )


@needs_nvrtc
@pytest.mark.parametrize(("library", "architecture"), TENSOR_CORE_COMPILERS)
@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp8_e4m3"])
def test_staged_latent_attention_compiles_where_its_instructions_exist(
    library: Path, architecture: int, dtype: str
) -> None:
    for rank, rope in ((512, 64), (256, 32)):
        size = latent_shared_bytes(dtype, rank, rope, LatentConfig(1, 4, staged=True))
        defines = {
            "KV_FORMAT": FORMATS[dtype],
            "RANK": rank,
            "ROPE": rope,
            "STAGES": 4,
            "SHARED_BYTES": size,
            "CLUSTER_SPLITS": 1,
        }
        text, machine_code = nvrtc_library.compile_kernel(library, "latent_staged", architecture, defines)
        assert machine_code
        assert "__local_depot" not in text
        if architecture >= 90:
            defines["CLUSTER_SPLITS"] = 8
            text, _ = nvrtc_library.compile_kernel(library, "latent_staged", architecture, defines)
            assert ".reqnctapercluster 8, 1, 1" in text


@needs_nvrtc
def test_a_kernel_that_does_not_compile_says_why() -> None:
    with pytest.raises(nvrtc_library.NvrtcError, match="BLOCK_HEADS"):
        nvrtc_library.compile_kernel(LIBRARIES[0], "decode", 90, {"HEAD_SIZE": 64})


def test_no_library_is_found_where_there_is_none(tmp_path: Path) -> None:
    assert nvrtc_library.find_libraries([str(tmp_path)]) == []


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(
    ("group", "units", "sequence"), [(1, 8, 1), (1, 8, 1024), (8, 4, 131), (1, 2048, 4096), (7, 1, 77)]
)
@pytest.mark.parametrize("capability", [75, 90])
def test_configurations_fit_the_shape(dtype: str, group: int, units: int, sequence: int, capability: int) -> None:
    configs = fused_configs(dtype, 128, group, units, sequence, capability, sm_count=132, limit=24)
    assert 1 <= len(configs) <= 24
    assert len(set(configs)) == len(configs)
    assert all(group % config.heads == 0 for config in configs)
    assert all(config.splits in (2, 4, 8) and capability >= 90 for config in configs if config.cluster)
    assert all(config.warps * 32 <= 1024 for config in configs)


def test_a_full_chip_is_not_split_first_and_an_empty_one_is() -> None:
    full = fused_configs("fp16", 64, 1, units=2048, sequence=4096, **H200)
    small = fused_configs("fp16", 64, 1, units=8, sequence=1024, **H200)
    assert full[0].splits == 1
    assert small[0].cluster
    assert small[0].splits == 8


@pytest.mark.parametrize("dtype", grouped.DTYPES)
@pytest.mark.parametrize(("group", "units", "sequence"), [(1, 8, 1), (8, 4, 131), (4, 2048, 4096), (71, 1, 77)])
@pytest.mark.parametrize("capability", [80, 89, 90])
def test_grouped_configurations_fit_the_shape(
    dtype: str, group: int, units: int, sequence: int, capability: int
) -> None:
    configs = grouped_configs(dtype, 256, group, units, sequence, capability, sm_count=132, limit=24)
    assert 1 <= len(configs) <= 24
    assert len(set(configs)) == len(configs)
    assert all(each.splits == 1 or each.splits * 16 <= sequence for each in configs)
    assert not any(each.cluster for each in configs if capability < 90 or each.splits > 8)
    limit = {80: 163, 89: 99, 90: 227}[capability] * 1024
    assert all(grouped.shared_bytes(dtype, 256, group, each) <= limit for each in configs)


def test_grouped_attention_exists_on_tensor_cores_alone() -> None:
    assert grouped_configs("bf16", 128, 4, 8, 1024, 75, sm_count=72, limit=24) == []
    assert grouped_configs("fp32", 128, 4, 8, 1024, 90, sm_count=132, limit=24) == []


def test_grouped_attention_is_split_until_the_chip_is_full() -> None:
    def first(units: int, capability: int = 90) -> tuple[int, bool]:
        config = grouped_configs("bf16", 128, 4, units, 8192, capability, sm_count=132, limit=1)[0]
        return config.splits, config.cluster

    assert [first(units) for units in (2048, 128, 64, 8, 2)] == [
        (1, False),
        (1, False),
        (2, True),
        (8, True),
        (64, False),
    ]
    assert [first(units, 80) for units in (128, 64, 8)] == [(1, False), (2, False), (16, False)]


def test_a_cluster_s_merge_is_tried_beside_the_one_through_memory() -> None:
    for units, splits in ((64, 2), (32, 4), (8, 8)):
        configs = grouped_configs("bf16", 128, 4, units, 8192, 90, sm_count=132, limit=6)
        assert {each.cluster for each in configs if each.splits >= splits} == {True, False}


def test_more_than_sixteen_heads_are_shared_out_evenly() -> None:
    assert [grouped.block_heads(group) for group in (1, 7, 16, 17, 20, 71)] == [1, 7, 16, 9, 10, 15]

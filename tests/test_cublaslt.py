"""The C interface of cuBLASLt as this project calls it, against a library that records what it is asked."""

import ctypes
from pathlib import Path
from typing import Any

import pytest
from rooflab.machine.faults import DeviceError
from rooflab.measure.cuda import cublaslt_abi as abi
from rooflab.measure.cuda.cublaslt import ALIGNMENT, Lt, LtError, Pointers, open_library

STREAM, WORKSPACE, WORKSPACE_BYTES = 0x51, 0x3000, 1 << 20
A, B, D, A_SCALE, B_SCALE = 0xA000, 0xB000, 0xD000, 0xA5C0, 0xB5C0


class FakeFunction:
    """One library function: records its arguments, hands out objects numbered from 1, returns its status."""

    def __init__(self, library: "FakeLibrary", name: str) -> None:
        self.library, self.name = library, name
        self.argtypes: list[Any] = []
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> int:
        assert len(arguments) == len(self.argtypes), self.name
        self.library.calls.append((self.name, arguments))
        if self.name.endswith("Create"):
            self.library.made += 1
            ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_void_p))[0] = self.library.made
        if self.name == "cublasLtMatmulAlgoGetHeuristic":
            self._propose(arguments)
        return self.library.statuses.get(self.name, 0)

    def _propose(self, arguments: tuple[Any, ...]) -> None:
        limit, found, count = arguments[7], arguments[8], arguments[9]
        states = self.library.states[:limit]
        for entry, state in zip(found, states, strict=False):
            entry.state = state
        count._obj.value = len(states)


class FakeLibrary:
    def __init__(self, states: tuple[int, ...] = (0,), **statuses: int) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.states, self.statuses, self.made = states, statuses, 0

    def __getattr__(self, name: str) -> FakeFunction:
        function = FakeFunction(self, name)
        setattr(self, name, function)
        return function

    def asked(self, name: str) -> list[tuple[Any, ...]]:
        return [arguments for called, arguments in self.calls if called == name]


def lt(library: Any) -> Lt:
    return Lt(library, STREAM, WORKSPACE, WORKSPACE_BYTES)


def pointers(scaled: bool = False) -> Pointers:
    return Pointers(A, B, D, A_SCALE, B_SCALE) if scaled else Pointers(A, B, D)


def attributes(library: FakeLibrary) -> dict[int, Any]:
    return {attribute: value._obj.value for _, attribute, value, _ in library.asked("cublasLtMatmulDescSetAttribute")}


def test_structures_have_the_sizes_of_the_header() -> None:
    assert ctypes.sizeof(abi.Algorithm) == 64
    assert ctypes.sizeof(abi.Heuristic) == 96


def test_constants_of_the_headers() -> None:
    assert (abi.R_32F, abi.R_64F, abi.R_16F, abi.R_8I, abi.R_32I, abi.R_16BF, abi.R_8F_E4M3) == (0, 1, 2, 3, 10, 14, 28)
    assert (abi.COMPUTE_16F, abi.COMPUTE_32F, abi.COMPUTE_64F, abi.COMPUTE_32I) == (64, 68, 70, 72)
    assert abi.COMPUTE_32F_FAST_TF32 == 77
    assert (abi.DESC_TRANSA, abi.DESC_TRANSB, abi.DESC_FAST_ACCUM) == (3, 4, 25)
    assert (abi.DESC_A_SCALE_POINTER, abi.DESC_B_SCALE_POINTER) == (17, 18)


def test_every_kind_has_a_one_and_a_zero_of_its_scale_type() -> None:
    for kind in abi.KINDS.values():
        one, zero = abi.SCALARS[kind.scale]
        assert type(one) is type(zero)
    half_one, _ = abi.SCALARS[abi.R_16F]
    assert half_one.value == 0x3C00


def test_a_product_hands_b_first_and_both_operands_along_k() -> None:
    library = FakeLibrary()
    plan = lt(library).matmul_plan("bf16", 32, 48, 64, pointers(), b_transposed=True)
    assert attributes(library) == {abi.DESC_TRANSA: abi.OP_T, abi.DESC_TRANSB: abi.OP_N}
    sizes = [arguments[1:] for arguments in library.asked("cublasLtMatrixLayoutCreate")]
    assert sizes == [(abi.R_16BF, 64, 48, 64), (abi.R_16BF, 64, 32, 64), (abi.R_16BF, 48, 32, 48)]
    plan.call(plan.heuristics(1)[0])()
    (arguments,) = library.asked("cublasLtMatmul")
    assert (arguments[3].value, arguments[5].value, arguments[10].value) == (B, A, D)
    assert (arguments[13].value, arguments[14], arguments[15].value) == (WORKSPACE, WORKSPACE_BYTES, STREAM)


def test_b_as_it_lies_is_not_transposed() -> None:
    library = FakeLibrary()
    lt(library).matmul_plan("fp32", 32, 48, 64, pointers(), b_transposed=False)
    assert attributes(library)[abi.DESC_TRANSA] == abi.OP_N
    assert library.asked("cublasLtMatrixLayoutCreate")[0][1:] == (abi.R_32F, 48, 64, 48)


@pytest.mark.parametrize(("kind", "fast"), [("fp8_e4m3", 1), ("fp8_e4m3_full", 0)])
def test_fp8_scales_change_places_with_the_operands(kind: str, fast: int) -> None:
    library = FakeLibrary()
    lt(library).matmul_plan(kind, 16, 16, 16, pointers(scaled=True), b_transposed=True)
    seen = attributes(library)
    assert (seen[abi.DESC_A_SCALE_POINTER], seen[abi.DESC_B_SCALE_POINTER]) == (B_SCALE, A_SCALE)
    assert seen[abi.DESC_FAST_ACCUM] == fast


def test_only_usable_algorithms_are_proposed() -> None:
    library = FakeLibrary(states=(0, 15, 0))
    plan = lt(library).matmul_plan("fp16", 16, 16, 16, pointers(), b_transposed=True)
    assert len(plan.heuristics(8)) == 2
    assert len(plan.heuristics(1)) == 1


def test_an_attribute_the_library_does_not_know_is_left_out() -> None:
    plan = lt(FakeLibrary(cublasLtMatmulAlgoConfigGetAttribute=7)).matmul_plan(
        "fp16", 16, 16, 16, pointers(), b_transposed=True
    )
    assert set(plan.config(plan.heuristics(1)[0])) == {"workspace_bytes"}


def test_a_refusal_names_function_and_status() -> None:
    library = FakeLibrary(cublasLtMatmul=15)
    plan = lt(library).matmul_plan("fp16", 16, 16, 16, pointers(), b_transposed=True)
    with pytest.raises(LtError, match=r"cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED \(15\)"):
        plan.call(plan.heuristics(1)[0])()


@pytest.mark.parametrize("kind", ["fp8_e4m3", "int8"])
@pytest.mark.parametrize(("size", "transposed"), [(ALIGNMENT + 1, True), (ALIGNMENT, False)])
def test_sizes_that_narrow_types_cannot_have(kind: str, size: int, transposed: bool) -> None:
    with pytest.raises(ValueError, match="multiple of 16"):
        lt(FakeLibrary()).matmul_plan(kind, size, size, size, pointers(), b_transposed=transposed)


def test_what_was_made_is_destroyed() -> None:
    library = FakeLibrary()
    handle = lt(library)
    handle.matmul_plan("fp16", 16, 16, 16, pointers(), b_transposed=True).heuristics(1)
    del handle
    names = [name for name, _ in library.calls]
    assert {name.replace("Create", "Destroy") for name in names if name.endswith("Create")} <= set(names)


def test_a_missing_library_names_what_was_tried_and_no_folder(tmp_path: Path) -> None:
    files = [str(tmp_path / "libcublasLt.so.13"), "libcublasLt.so.12"]

    def refuse(file: str) -> ctypes.CDLL:
        raise OSError(f"{file}: cannot open shared object file")

    with pytest.raises(DeviceError) as caught:
        open_library(files, refuse)
    assert "libcublasLt.so.13" in str(caught.value)
    assert "libcublasLt.so.12" in str(caught.value)
    assert str(tmp_path) not in str(caught.value)
    assert "make setup GPU=1" in caught.value.remedy


def test_the_first_library_that_loads_is_taken() -> None:
    def load(file: str) -> Any:
        if file == "first":
            raise OSError("no")
        return file

    assert open_library(["first", "second", "third"], load) == "second"

"""Groups of products and rows with a gap, as cuBLASLt is told of them: computed here from what it is told."""

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray
from rooflab.measure.cuda import cublaslt_abi as abi
from rooflab.measure.cuda.cublaslt import Lt, MatmulPlan, Pointers
from rooflab.measure.cuda.cublaslt_abi import KINDS, Heuristic
from rooflab.reference.attention import random_normal, relative_error
from rooflab.reference.step import latent_attention, projection


class Layout:
    """A column-major matrix, or several."""

    def __init__(self, rows: int, columns: int, leading: int) -> None:
        self.rows, self.columns, self.leading, self.count, self.step = rows, columns, leading, 1, 0

    def over(self, address: int) -> NDArray[np.float32]:
        """The fp32 matrices (count, rows, columns) at an address of this process."""
        size = self.step * (self.count - 1) + self.leading * (self.columns - 1) + self.rows
        flat = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))
        return as_strided(flat, (self.count, self.rows, self.columns), (4 * self.step, 4, 4 * self.leading))


class HostLibrary:
    """cublasLtMatmul on the host, for fp32 without scales, out of the layouts and transpositions it was handed."""

    def __init__(self) -> None:
        self.things: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        function = getattr(type(self), f"_{name.removeprefix('cublasLt')}", None)

        def call(*arguments: Any) -> int:
            assert len(arguments) == len(abi.SIGNATURES[name]), name
            if function is not None:
                function(self, *arguments)
            return 0

        setattr(self, name, call)
        return call

    def _made(self, out: Any, thing: Any) -> None:
        number = len(self.things) + 1
        self.things[number] = thing
        ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p))[0] = number

    def _MatrixLayoutCreate(self, out: Any, element: int, rows: int, columns: int, leading: int) -> None:
        assert element == abi.R_32F
        self._made(out, Layout(rows, columns, leading))

    def _MatrixLayoutSetAttribute(self, layout: Any, attribute: int, value: Any, size: int) -> None:
        name, width = {abi.LAYOUT_BATCH_COUNT: ("count", 4), abi.LAYOUT_BATCH_STRIDE: ("step", 8)}[attribute]
        assert size == width
        setattr(self.things[layout.value], name, value._obj.value)

    def _MatmulDescCreate(self, out: Any, compute: int, scale: int) -> None:
        self._made(out, {})

    def _MatmulDescSetAttribute(self, description: Any, attribute: int, value: Any, size: int) -> None:
        self.things[description.value][attribute] = value._obj.value

    def _Matmul(self, handle: Any, description: Any, one: Any, *rest: Any) -> None:
        a, a_layout, b, b_layout, _, _, _, d, d_layout, *_ = rest
        first, second, result = (
            self.things[layout.value].over(pointer.value)
            for layout, pointer in ((a_layout, a), (b_layout, b), (d_layout, d))
        )
        if self.things[description.value][abi.DESC_TRANSA] == abi.OP_T:
            first = first.swapaxes(1, 2)
        result[...] = first @ second


def lt() -> Lt:
    library: Any = HostLibrary()
    return Lt(library, 0, 0, 0)


def address(array: NDArray[np.float32]) -> int:
    assert array.flags.c_contiguous
    return array.ctypes.data


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_groups_lie_one_after_the_other(groups: int) -> None:
    rows, n, k = 3, 7, 4
    x, weight = random_normal((groups, rows, k), 1), random_normal((groups, n, k), 2)
    y = np.full((groups, rows, n), np.nan, np.float32)
    pointers = Pointers(address(x), address(weight), address(y))
    lt().matmul_plan("fp32", rows, n, k, pointers, True, groups).call(Heuristic())()
    np.testing.assert_allclose(y, projection(np, x, weight), rtol=1e-5, atol=1e-6)


def test_values_are_the_first_part_of_each_cached_row() -> None:
    batch, heads, length, rank, rope = 2, 3, 11, 8, 4
    weights, cache = random_normal((batch, heads, length), 3), random_normal((batch, length, rank + rope), 4)
    out = np.full((batch, heads, rank), np.nan, np.float32)
    pointers = Pointers(address(weights), address(cache), address(out))
    plan = MatmulPlan(lt(), KINDS["fp32"], heads, rank, length, pointers, False, batch, b_leading=rank + rope)
    plan.call(Heuristic())()
    np.testing.assert_allclose(out, weights @ cache[..., :rank], rtol=1e-5, atol=1e-6)


def test_scores_softmax_and_sum_make_latent_attention() -> None:
    batch, heads, length, rank, rope, scale = 2, 4, 9, 16, 8, 0.2
    q, cache = random_normal((batch, heads, rank + rope), 5), random_normal((batch, length, rank + rope), 6)
    scores, out = np.empty((batch, heads, length), np.float32), np.empty((batch, heads, rank), np.float32)
    library, row = lt(), rank + rope
    first = Pointers(address(q), address(cache), address(scores))
    MatmulPlan(library, KINDS["fp32"], heads, length, row, first, True, batch).call(Heuristic())()
    scores[...] = np.exp(scores * scale)
    scores /= scores.sum(axis=-1, keepdims=True)
    last = Pointers(address(scores), address(cache), address(out))
    MatmulPlan(library, KINDS["fp32"], heads, rank, length, last, False, batch, row).call(Heuristic())()
    assert relative_error(out, latent_attention(np, q, cache, rank, scale)) < 1e-6  # one element may lie near zero


def test_one_product_sets_no_group() -> None:
    library: Any = HostLibrary()
    plain = Lt(library, 0, 0, 0)
    x = np.ones((2, 3), np.float32)
    plain.matmul_plan("fp32", 2, 4, 3, Pointers(address(x), 0, 0), True)
    assert all(thing.count == 1 and thing.step == 0 for thing in library.things.values() if isinstance(thing, Layout))

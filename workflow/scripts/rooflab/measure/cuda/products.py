"""A product with weights on the bench: algorithms searched, the best verified and timed, its weights cold in L2."""

from typing import Any

from rooflab.measure.bench import Bench
from rooflab.measure.cuda import cold_graphs
from rooflab.measure.cuda.cublaslt import LtError
from rooflab.measure.cuda.projection import ProjectionCase, Sizes
from rooflab.measure.series import Series
from rooflab.theory.dtypes import dtype as format_of

IMPLEMENTATION = "cublasLtMatmul"


def timed_product(
    bench: Bench, spec: dict[str, Any], name: str, rows: int, n: int, k: int, groups: int = 1
) -> tuple[Series, dict[str, Any]]:
    """The series called `name`, and what was tried. Raises ValueError for a product that the library does not have in
    `spec`'s dtype, Failed for a wrong result."""
    try:
        return _timed(bench, spec, name, Sizes(rows, n, k, groups))
    except LtError as error:
        raise ValueError(
            f"cuBLASLt has no {spec['dtype']} product of {groups} x ({rows}, {n}, {k}): {error}"
        ) from error


def _timed(bench: Bench, spec: dict[str, Any], name: str, sizes: Sizes) -> tuple[Series, dict[str, Any]]:
    device, dtype = bench.device, spec["dtype"]
    nbytes, l2_bytes = sizes.weight_bytes(format_of(dtype).bytes), device.properties()["l2_bytes"]
    copies = cold_graphs.copies_for(nbytes, l2_bytes)
    case = ProjectionCase(device, sizes, dtype, copies)
    algorithms = {f"algorithm {i}": each for i, each in enumerate(case.algorithms(spec["configurations"]))}
    if not algorithms:
        raise ValueError(f"cuBLASLt proposes nothing for {sizes} in {dtype}")
    ways = {label: [(call,) for call in case.calls(each)] for label, each in algorithms.items()}
    best, search = cold_graphs.fastest(bench, ways, spec["graph_nodes"])
    proof = cold_graphs.proof(bench, case, ways[best][0], case.tolerance, name)
    series = (
        cold_graphs.timed(
            bench, spec, ways[best], name, IMPLEMENTATION, cold_graphs.cache_state(copies, nbytes, l2_bytes)
        )
        | proof
    )
    known = {"copies": copies, "padded_rows": case.padded_rows, "algorithm": case.config(algorithms[best])}
    return series, known | {"search": search}

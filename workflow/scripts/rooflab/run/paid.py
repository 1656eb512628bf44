"""Every paid rule, a row each: its program, what it measures, and its place in the order."""

from dataclasses import dataclass

from rooflab.record import names


@dataclass(frozen=True)
class PaidRule:
    """A rule that measures: its name, which is its program's, side and stage; the higher priority is measured first."""

    name: str
    side: str
    stage: str
    priority: int

    @property
    def file(self) -> str:
        """Its records under the session's folder, with Snakemake's wildcards."""
        return names.measurement(
            self.side, self.stage, self.stage if self.stage in names.UNFOLDED else "{name}", "{key}"
        )

    @property
    def output(self) -> str:
        return f"results/{{session}}/{self.file}"

    @property
    def log(self) -> str:
        return f"logs/{{session}}/{self.file.replace('/', '-').removesuffix('.json')}.log"


PAID = (
    PaidRule("device", "gpu", "device", 100),
    PaidRule("launch_floor", "gpu", "launch_floor", 95),
    PaidRule("bandwidth", "gpu", "bandwidth", 90),
    PaidRule("peak_flops", "gpu", "gemm", 80),
    PaidRule("fma_peak", "gpu", "fma", 75),
    PaidRule("decode_attn_gpu", "gpu", "decode", 70),
    PaidRule("model_attention", "gpu", "attention", 69),
    PaidRule("model_step", "gpu", "step", 68),
    PaidRule("projection", "gpu", "sweep", 67),
    PaidRule("cpu_device", "cpu", "device", 60),
    PaidRule("cpu_launch_floor", "cpu", "launch_floor", 55),
    PaidRule("cpu_bandwidth", "cpu", "bandwidth", 50),
    PaidRule("cpu_peak_flops", "cpu", "gemm", 40),
    PaidRule("cpu_decode_attn", "cpu", "decode", 30),
)
# Snakemake sets these to the job's threads: one would halve the host's own roofline
ALL_THREADS = (
    "env -u OMP_NUM_THREADS -u GOTO_NUM_THREADS -u OPENBLAS_NUM_THREADS -u MKL_NUM_THREADS -u NUMEXPR_NUM_THREADS "
    "-u VECLIB_MAXIMUM_THREADS"
)

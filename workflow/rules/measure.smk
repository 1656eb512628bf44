# Every paid rule, a row each. No input: a finished measurement is never repeated because something else changed. Their
# order is their priority; their text never changes.
PAID = (
    # rule and program, side, stage, priority
    ("device", "gpu", "device", 100),
    ("launch_floor", "gpu", "launch_floor", 95),
    ("bandwidth", "gpu", "bandwidth", 90),
    ("peak_flops", "gpu", "gemm", 80),
    ("fma_peak", "gpu", "fma", 75),
    ("decode_attn_gpu", "gpu", "decode", 70),
    ("model_attention", "gpu", "attention", 69),
    ("model_step", "gpu", "step", 68),
    ("projection", "gpu", "sweep", 67),
    ("cpu_device", "cpu", "device", 60),
    ("cpu_launch_floor", "cpu", "launch_floor", 55),
    ("cpu_bandwidth", "cpu", "bandwidth", 50),
    ("cpu_peak_flops", "cpu", "gemm", 40),
    ("cpu_decode_attn", "cpu", "decode", 30),
)
# Snakemake sets these to the job's threads: one would halve the host's own roofline
ALL_THREADS = (
    "env -u OMP_NUM_THREADS -u GOTO_NUM_THREADS -u OPENBLAS_NUM_THREADS -u MKL_NUM_THREADS -u NUMEXPR_NUM_THREADS "
    "-u VECLIB_MAXIMUM_THREADS"
)

for paid, side, stage, rank in PAID:
    made = names.measurement(side, stage, "{name}", "{key}").replace(
        "{name}", stage if stage in names.UNFOLDED else "{name}"
    )

    rule:
        name:
            paid
        output:
            "results/{session}/" + made,
        log:
            "logs/{session}/" + made.replace("/", "-").removesuffix("json") + "log",
        priority: rank
        resources:
            **RUN.places.resources(side),
        params:
            spec=TARGETS.spec_of,
            beside=TARGETS.beside_of,
            program=paid,
            env=ALL_THREADS,
        shell:
            '{params.env} python "$ROOFLAB_SCRIPTS"/paid/{params.program}.py --spec {params.spec:q} --beside {params.beside:q} --out {output:q} --log {log:q}'

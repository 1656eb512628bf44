# The paid rules. No input: a finished measurement is never repeated because something else changed. Their order is
# their priority; their texts never change.
PAID = (
    "env -u OMP_NUM_THREADS -u GOTO_NUM_THREADS -u OPENBLAS_NUM_THREADS -u MKL_NUM_THREADS -u NUMEXPR_NUM_THREADS "
    "-u VECLIB_MAXIMUM_THREADS"  # Snakemake sets these to the job's threads: one would halve the host's own roofline
)


rule device:
    output:
        "results/{session}/gpu/device.{key}.json",
    log:
        "logs/{session}/gpu-device.{key}.log",
    priority: 100
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/device.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule launch_floor:
    output:
        "results/{session}/gpu/launch_floor.{key}.json",
    log:
        "logs/{session}/gpu-launch_floor.{key}.log",
    priority: 95
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/launch_floor.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule bandwidth:
    output:
        "results/{session}/gpu/bandwidth/{name}.{key}.json",
    log:
        "logs/{session}/gpu-bandwidth-{name}.{key}.log",
    priority: 90
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/bandwidth.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule peak_flops:
    output:
        "results/{session}/gpu/gemm/{name}.{key}.json",
    log:
        "logs/{session}/gpu-gemm-{name}.{key}.log",
    priority: 80
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/peak_flops.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule fma_peak:
    output:
        "results/{session}/gpu/fma/{name}.{key}.json",
    log:
        "logs/{session}/gpu-fma-{name}.{key}.log",
    priority: 75
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/fma_peak.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule decode_attn_gpu:
    output:
        "results/{session}/gpu/decode/{name}.{key}.json",
    log:
        "logs/{session}/gpu-decode-{name}.{key}.log",
    priority: 70
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/decode_attn_gpu.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule cpu_device:
    output:
        "results/{session}/cpu/device.{key}.json",
    log:
        "logs/{session}/cpu-device.{key}.log",
    priority: 60
    resources:
        **WHOLE_NODE,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/cpu_device.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule cpu_launch_floor:
    output:
        "results/{session}/cpu/launch_floor.{key}.json",
    log:
        "logs/{session}/cpu-launch_floor.{key}.log",
    priority: 55
    resources:
        **WHOLE_NODE,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/cpu_launch_floor.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule cpu_bandwidth:
    output:
        "results/{session}/cpu/bandwidth/{name}.{key}.json",
    log:
        "logs/{session}/cpu-bandwidth-{name}.{key}.log",
    priority: 50
    resources:
        **WHOLE_NODE,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/cpu_bandwidth.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule cpu_peak_flops:
    output:
        "results/{session}/cpu/gemm/{name}.{key}.json",
    log:
        "logs/{session}/cpu-gemm-{name}.{key}.log",
    priority: 40
    resources:
        **WHOLE_NODE,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/cpu_peak_flops.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule cpu_decode_attn:
    output:
        "results/{session}/cpu/decode/{name}.{key}.json",
    log:
        "logs/{session}/cpu-decode-{name}.{key}.log",
    priority: 30
    resources:
        **WHOLE_NODE,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/cpu_decode_attn.py --spec {params.spec:q} --out {output:q} --log {log:q}"

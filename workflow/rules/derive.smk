# From the records to the numbers. Data and code are inputs: an edit there costs nothing and is never missed.
localrules:
    device_query,
    peak_flops_summary,
    roofline,


rule device_query:
    input:
        records=TARGETS.records_of,
        code=code_of("device_query"),
    output:
        "results/{session}/device_query.json",
    log:
        "logs/{session}/device_query.log",
    params:
        plan=TARGETS.planned_of,
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/device_query.py --session-dir results/{wildcards.session} --records {input.records} '
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule peak_flops_summary:
    input:
        records=TARGETS.records_of,
        code=code_of("peak_flops_summary"),
    output:
        "results/{session}/peak_flops.json",
    log:
        "logs/{session}/peak_flops_summary.log",
    params:
        plan=TARGETS.planned_of,
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/peak_flops_summary.py --session-dir results/{wildcards.session} --records {input.records} '
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule roofline:
    input:
        records=TARGETS.records_of,
        code=code_of("roofline"),
        given=[config["cpu"]["roofline_file"]] if config["cpu"]["roofline_file"] else [],
        models=TARGETS.models_asked(),
    output:
        "results/{session}/roofline.json",
    log:
        "logs/{session}/roofline.log",
    params:
        plan=TARGETS.planned_of,
        beside=TARGETS.gpu_sessions_beside,
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/roofline.py --session-dir results/{wildcards.session} --records {input.records} '
        "--planned {params.plan:q} --cpu-roofline={input.given:q} "
        "--models={input.models:q} --gpu-sessions {params.beside} --out {output} 2> >(tee {log} >&2)"

# The free model: from records to the numbers. Data and code are inputs: an edit here costs nothing and is never missed.
CODE = os.path.relpath(SCRIPTS)
ROOMS = sorted(
    os.path.relpath(p)
    for p in SCRIPTS.glob("rooflab/*.py")
    if not p.name.startswith("cuda_")
)


rule device_query:
    input:
        records=records_of,
        code=[
            f"{CODE}/device_query.py",
            f"{CODE}/roofline.py",
            *ROOMS,
            f"{CODE}/rooflab/data/vendor_peaks.csv",
        ],
    output:
        "results/{session}/device_query.json",
    log:
        "logs/{session}/device_query.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/device_query.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule peak_flops_summary:
    input:
        records=records_of,
        code=[
            f"{CODE}/peak_flops_summary.py",
            f"{CODE}/roofline.py",
            *ROOMS,
            f"{CODE}/rooflab/data/vendor_peaks.csv",
        ],
    output:
        "results/{session}/peak_flops.json",
    log:
        "logs/{session}/peak_flops_summary.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/peak_flops_summary.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule roofline:
    input:
        records=records_of,
        code=[
            f"{CODE}/roofline.py",
            *ROOMS,
            f"{CODE}/rooflab/data/vendor_peaks.csv",
            f"{CODE}/rooflab/data/geometries.yaml",
        ],
        given=[config["cpu"]["roofline_file"]] if config["cpu"]["roofline_file"] else [],
    output:
        "results/{session}/roofline.json",
    log:
        "logs/{session}/roofline.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/roofline.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --cpu-roofline={input.given:q} --out {output} 2> >(tee {log} >&2)"

# The free model: from records to the numbers. Data and code are inputs: an edit here costs nothing and is never missed.
from rooflab.plan import operators as model_plan

DERIVATION = (
    "rooflab/derive",
    "rooflab/theory",
    "rooflab/plan",
    "rooflab/record",
    "rooflab/reference",
    "rooflab/data/*.csv",
    "rooflab/data/geometries.yaml",
    "rooflab/data/families.yaml",
)


def code_of(*parts):
    """The code a free rule depends on: programs, folders with all that lies in them, patterns of data files."""
    found = [
        path
        for part in parts
        for path in SCRIPTS.glob(part if "." in part else f"{part}/**/*.py")
    ]
    return sorted(os.path.relpath(path) for path in found)


rule device_query:
    input:
        records=records_of,
        code=code_of("free/device_query.py", "free/roofline.py", *DERIVATION),
    output:
        "results/{session}/device_query.json",
    log:
        "logs/{session}/device_query.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/free/device_query.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule peak_flops_summary:
    input:
        records=records_of,
        code=code_of("free/peak_flops_summary.py", "free/roofline.py", *DERIVATION),
    output:
        "results/{session}/peak_flops.json",
    log:
        "logs/{session}/peak_flops_summary.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/free/peak_flops_summary.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule roofline:
    input:
        records=records_of,
        code=code_of("free/roofline.py", *DERIVATION),
        given=[config["cpu"]["roofline_file"]] if config["cpu"]["roofline_file"] else [],
    output:
        "results/{session}/roofline.json",
    log:
        "logs/{session}/roofline.log",
    params:
        plan=planned_of,
        models=json.dumps(model_plan.asked(config)),
    shell:
        "python $ROOFLAB_SCRIPTS/free/roofline.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --cpu-roofline={input.given:q} "
        "--models {params.models:q} --out {output} 2> >(tee {log} >&2)"

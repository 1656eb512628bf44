# The prose, the models' pages, the manifest and the report. They compute nothing: roofline.json is what they say.
localrules:
    interpretation,
    model_table,
    manifest,
    report_html,


rule interpretation:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of("interpretation"),
    output:
        text=report(
            "results/{session}/interpretation.md",
            caption="../report/interpretation.rst",
            category="{session}",
        ),
        figures="results/{session}/figures.csv",
    log:
        "logs/{session}/interpretation.log",
    params:
        language=config["language"],
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/interpretation.py --roofline {input.roofline} --language {params.language} '
        "--out {output.text} --figures {output.figures} 2> >(tee {log} >&2)"


rule model_table:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of("model_table"),
    output:
        "results/{session}/model_{model}.md",
    log:
        "logs/{session}/model_{model}.log",
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/model_table.py --roofline {input.roofline} --name {wildcards.model} --out {output} '
        "2> >(tee {log} >&2)"


rule manifest:
    input:
        records=TARGETS.records_of,
        made=[f"results/{{session}}/{name}" for name in HASHED],
        models=TARGETS.model_files_of,
        closing=CLOSING.record_of,
        code=code_of("manifest"),
    output:
        update("results/{session}/manifest.json"),  # what would say the same is left as it is
    log:
        "logs/{session}/manifest.log",
    params:
        plan=TARGETS.planned_of,
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/manifest.py --session-dir results/{wildcards.session} --records {input.records} '
        "--planned {params.plan:q} --made {input.made} {input.models} {input.closing} --out {output} 2> >(tee {log} >&2)"


rule report_html:
    input:
        roofline="results/{session}/roofline.json",
        svg="results/{session}/roofline.svg",
        prose="results/{session}/interpretation.md",
        figures="results/{session}/figures.csv",
        manifest="results/{session}/manifest.json",
        code=code_of("report_html"),
    output:
        report(
            "results/{session}/report.html",
            caption="../report/report.rst",
            category="{session}",
        ),
    log:
        "logs/{session}/report_html.log",
    params:
        language=config["language"],
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/report_html.py --roofline {input.roofline} --svg {input.svg} --prose {input.prose} --figures {input.figures} '
        "--manifest {input.manifest} --language {params.language} --out {output} 2> >(tee {log} >&2)"

# The picture, the prose and the manifest. They compute nothing: roofline.json is what they say.


rule draw:
    input:
        roofline="results/{session}/roofline.json",
        code=sorted(
            os.path.relpath(p)
            for p in [
                SCRIPTS / "plot.py",
                *SCRIPTS.glob("rooflab/chart*.py"),
                SCRIPTS / "rooflab/words.py",
            ]
        ),
    output:
        png="results/{session}/roofline.png",
        svg="results/{session}/roofline.svg",
    log:
        "logs/{session}/draw.log",
    params:
        dpi=config["plot"]["dpi"],
        title=config["plot"]["title"] or "",
    shell:
        "python $ROOFLAB_SCRIPTS/plot.py --roofline {input.roofline} --png {output.png} --svg {output.svg} "
        "--dpi {params.dpi} --title={params.title:q} 2> >(tee {log} >&2)"


rule interpretation:
    input:
        roofline="results/{session}/roofline.json",
        code=[
            f"{CODE}/interpretation.py",
            f"{CODE}/rooflab/words.py",
            f"{CODE}/rooflab/prose.py",
        ],
    output:
        "results/{session}/interpretation.md",
    log:
        "logs/{session}/interpretation.log",
    shell:
        "python $ROOFLAB_SCRIPTS/interpretation.py --roofline {input.roofline} --out {output} 2> >(tee {log} >&2)"


rule manifest:
    input:
        records=records_of,
        made=[f"results/{{session}}/{name}" for name in FREE if name != "manifest.json"],
        code=[f"{CODE}/manifest.py", f"{CODE}/roofline.py", *ROOMS],
    output:
        "results/{session}/manifest.json",
    log:
        "logs/{session}/manifest.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/manifest.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned <(printf %s {params.plan:q}) --out {output} 2> >(tee {log} >&2)"


onsuccess:
    summary.show(
        [RESULTS / each for each in sessions()],
        measures() and this_machine().is_gpu,
    )

# The picture, the prose and the manifest. They compute nothing: roofline.json is what they say.
from snakemake.settings.enums import Quietness

TEXTS = "rooflab/data/texts_*.yaml"


rule draw:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of("free/plot.py", "rooflab/draw", "rooflab/look", TEXTS),
    output:
        png=report(
            "results/{session}/roofline.png",
            caption="../report/roofline.rst",
            category="{session}",
        ),
        svg="results/{session}/roofline.svg",
        dark="results/{session}/roofline-dark.svg",
        small="results/{session}/roofline-small.png",
    log:
        "logs/{session}/draw.log",
    params:
        dpi=config["plot"]["dpi"],
        title=lambda wc: config["plot"]["title"] or "",  # as it is: braces in it name no wildcard
        language=config["language"],
    shell:
        "python $ROOFLAB_SCRIPTS/free/plot.py --roofline {input.roofline} --png {output.png} --svg {output.svg} "
        "--dark-svg {output.dark} --small-png {output.small} --dpi {params.dpi} --title={params.title:q} "
        "--language {params.language} 2> >(tee {log} >&2)"


rule interpretation:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of("free/interpretation.py", "rooflab/explain", "rooflab/look", TEXTS),
    output:
        report(
            "results/{session}/interpretation.md",
            caption="../report/interpretation.rst",
            category="{session}",
        ),
    log:
        "logs/{session}/interpretation.log",
    params:
        language=config["language"],
    shell:
        "python $ROOFLAB_SCRIPTS/free/interpretation.py --roofline {input.roofline} --language {params.language} "
        "--out {output} 2> >(tee {log} >&2)"


rule manifest:
    input:
        records=records_of,
        made=[
            f"results/{{session}}/{name}"
            for name in FREE
            if name not in ("manifest.json", "report.html")
        ],
        closing=lambda wc: closing_of(wc),
        code=code_of(
            "free/manifest.py", "free/roofline.py", "rooflab/explain", *DERIVATION
        ),
    output:
        "results/{session}/manifest.json",
    log:
        "logs/{session}/manifest.log",
    params:
        plan=planned_of,
    shell:
        "python $ROOFLAB_SCRIPTS/free/manifest.py --session-dir results/{wildcards.session} --records {input.records} "
        "--planned {params.plan:q} --out {output} 2> >(tee {log} >&2)"


rule report_html:
    input:
        roofline="results/{session}/roofline.json",
        svg="results/{session}/roofline.svg",
        prose="results/{session}/interpretation.md",
        manifest="results/{session}/manifest.json",
        code=code_of(
            "free/report_html.py",
            "rooflab/explain",
            "rooflab/look",
            "rooflab/data/report.*",
            TEXTS,
        ),
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
        "python $ROOFLAB_SCRIPTS/free/report_html.py --roofline {input.roofline} --svg {input.svg} --prose {input.prose} "
        "--manifest {input.manifest} --language {params.language} --out {output} 2> >(tee {log} >&2)"


onsuccess:
    if "doctor" in (workflow.dag_settings.targets or ()):
        tell_the_doctors_report()
    if Quietness.ALL not in (workflow.output_settings.quiet or ()):
        summary.show(
            [RESULTS / each for each in ([] if compares() else sessions())],
            measures() and this_is_gpu(),
        )

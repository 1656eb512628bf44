# The pictures. They compute nothing: roofline.json is what they show.
localrules:
    draw,
    model_chart,


rule draw:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of("draw"),
    output:
        png=report(
            "results/{session}/roofline.png",
            caption="../report/roofline.rst",
            category="{session}",
        ),
        svg="results/{session}/roofline.svg",
        dark="results/{session}/roofline-dark.svg",
    log:
        "logs/{session}/draw.log",
    params:
        dpi=config["plot"]["dpi"],
        title=lambda wc: config["plot"]["title"] or "",  # as it is: braces in it name no wildcard
        language=config["language"],
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/plot.py --roofline {input.roofline} --png {output.png} --svg {output.svg} '
        "--dark-svg {output.dark} --dpi {params.dpi} --title={params.title:q} "
        "--language {params.language} 2> >(tee {log} >&2)"


rule model_chart:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of("model_chart"),
    output:
        png="results/{session}/model_{model}.png",
        svg="results/{session}/model_{model}.svg",
    log:
        "logs/{session}/model_{model}_chart.log",
    params:
        dpi=config["plot"]["dpi"],
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/model_chart.py --roofline {input.roofline} --name {wildcards.model} --png {output.png} '
        "--svg {output.svg} --dpi {params.dpi} 2> >(tee {log} >&2)"

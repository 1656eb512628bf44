# The config's `operators:` beside the MiniGPT: attention over S x batch, the rest of a decode step, the walk up the slope,
# and the page of each model that a session holds records of.
from types import SimpleNamespace

from rooflab.plan import operators as model_plan


wildcard_constraints:
    model=r"[a-z0-9-]+",


rule model_attention:
    output:
        "results/{session}/gpu/attention/{name}.{key}.json",
    log:
        "logs/{session}/gpu-attention-{name}.{key}.log",
    priority: 69
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/model_attention.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule model_step:
    output:
        "results/{session}/gpu/step/{name}.{key}.json",
    log:
        "logs/{session}/gpu-step-{name}.{key}.log",
    priority: 68
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/model_step.py --spec {params.spec:q} --out {output:q} --log {log:q}"


rule projection:
    output:
        "results/{session}/gpu/sweep/{name}.{key}.json",
    log:
        "logs/{session}/gpu-sweep-{name}.{key}.log",
    priority: 67
    resources:
        **CARD_SLOTS,
        paid=1,
    params:
        spec=spec_of,
        env=PAID,
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/paid/projection.py --spec {params.spec:q} --out {output:q} --log {log:q}"


@cache
def held_models(session_name):
    """The models of the config that a session has measured under whatever name, or is about to."""
    if measures() and session_name in these_sessions():
        return [each["name"] for each in config["operators"] if this_is_gpu()]
    return session.held_models(RESULTS / session_name, config)


def model_files(session_name, names):
    """The chart, and with the prose the page, of each model that a session's records speak of, or hold the sizes of."""
    spoken = model_plan.names(records_of(SimpleNamespace(session=session_name)))
    found = sorted({*spoken, *held_models(session_name)})
    kinds = ["png", "svg", "md"] if "interpretation.md" in names else ["png", "svg"]
    return [f"model_{each}.{kind}" for each in found for kind in kinds]


rule model_table:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of(
            "free/model_table.py", "rooflab/explain", "rooflab/look", "rooflab/record"
        ),
    output:
        "results/{session}/model_{model}.md",
    log:
        "logs/{session}/model_{model}.log",
    shell:
        "python $ROOFLAB_SCRIPTS/free/model_table.py --roofline {input.roofline} --name {wildcards.model} --out {output} "
        "2> >(tee {log} >&2)"


rule model_chart:
    input:
        roofline="results/{session}/roofline.json",
        code=code_of(
            "free/model_chart.py", "rooflab/draw", "rooflab/look"
        ),
    output:
        png="results/{session}/model_{model}.png",
        svg="results/{session}/model_{model}.svg",
    log:
        "logs/{session}/model_{model}_chart.log",
    params:
        dpi=config["plot"]["dpi"],
    shell:
        "python $ROOFLAB_SCRIPTS/free/model_chart.py --roofline {input.roofline} --name {wildcards.model} --png {output.png} "
        "--svg {output.svg} --dpi {params.dpi} 2> >(tee {log} >&2)"

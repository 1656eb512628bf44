# Several sessions side by side. Without outputs and inputs these rules always run when asked, take whatever lies in
# results/, and plan nothing else: a session that cannot be compared is listed, not an error.
PRICES = config["price_usd_per_hour"]


def compares():
    """Whether only comparing or predicting was asked for: they close with lines of their own."""
    targets = set(workflow.dag_settings.targets or ())
    return bool(targets) and targets <= {"compare", "compare_check", "predict"}


rule compare:
    log:
        "logs/compare.log",
    params:
        prices=json.dumps(PRICES if isinstance(PRICES, dict) else {}),
        threshold=config["compare"]["threshold"],
        dpi=config["plot"]["dpi"],
        results=str(RESULTS),
    shell:
        "python $ROOFLAB_SCRIPTS/free/compare.py --results {params.results} --prices {params.prices:q} "
        "--threshold {params.threshold} --dpi {params.dpi} --out {params.results}/compare.json 2> >(tee {log} >&2)"


rule compare_check:
    log:
        "logs/compare_check.log",
    params:
        prices=json.dumps(PRICES if isinstance(PRICES, dict) else {}),
        threshold=config["compare"]["threshold"],
        results=str(RESULTS),
    shell:
        "python $ROOFLAB_SCRIPTS/free/compare_check.py --results {params.results} --prices {params.prices:q} "
        "--threshold {params.threshold} 2> >(tee {log} >&2)"

# What models would do on every measured card. Without outputs and inputs this rule always runs when asked, takes whatever lies
# in results/, and plans nothing else.
rule predict:
    log:
        "logs/predict.log",
    params:
        asked=json.dumps(model_plan.foretold(config)),
        prices=json.dumps(session.prices(RESULTS, config)),
        results=str(RESULTS),
    shell:
        "python $ROOFLAB_SCRIPTS/free/predict.py --results {params.results} --asked {params.asked:q} --prices {params.prices:q} "
        "--out {params.results}/predict.json 2> >(tee {log} >&2)"

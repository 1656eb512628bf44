# What somebody asks for by name: sessions side by side, the instance's end, the examination of this machine; and the rule
# that fails for records that must not be trusted.
import json


localrules:
    compare,
    compare_check,
    predict,
    closing,
    terminated,
    doctor,
    untrusted_records,


# Without outputs and inputs these rules always run when asked, take whatever lies in results/, and plan nothing else: a
# session that cannot be compared is listed, not an error.
rule compare:
    log:
        "logs/compare.log",
    params:
        prices=TARGETS.prices(),
        threshold=config["compare"]["threshold"],
        dpi=config["plot"]["dpi"],
        results="results",
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/compare.py --results {params.results} --prices {params.prices:q} '
        "--threshold {params.threshold} --dpi {params.dpi} --out {params.results}/compare.json 2> >(tee {log} >&2)"


rule compare_check:
    log:
        "logs/compare_check.log",
    params:
        prices=TARGETS.prices(),
        threshold=config["compare"]["threshold"],
        results="results",
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/compare_check.py --results {params.results} --prices {params.prices:q} '
        "--threshold {params.threshold} 2> >(tee {log} >&2)"


# what models would do on every measured card
rule predict:
    log:
        "logs/predict.log",
    params:
        asked=TARGETS.models_foretold(),
        prices=TARGETS.prices_alone(),
        results="results",
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/predict.py --results {params.results} --asked {params.asked:q} --prices {params.prices:q} '
        "--out {params.results}/predict.json 2> >(tee {log} >&2)"


# The record has no input and nothing that could make it stale, so it stays; what the user said reaches it by the
# environment.
rule closing:
    output:
        "results/{session}/terminated.json",
    log:
        "logs/{session}/closing.log",
    shell:
        'python "$ROOFLAB_SCRIPTS"/free/terminated.py --session-dir results/{wildcards.session} --out {output} 2> >(tee {log} >&2)'


# the instance is terminated, total cost: recorded once, quoted by the manifest
rule terminated:
    input:
        CLOSING.files,


# is this machine ready to measure? Nothing is measured, and nothing is written but the report
rule doctor:
    log:
        "logs/doctor.txt",
    params:
        env=ALL_THREADS,
        device=config["device"],
        minigpt=json.dumps(config["minigpt"]),
    shell:
        '{params.env} python "$ROOFLAB_SCRIPTS"/free/doctor.py --device {params.device:q} --minigpt {params.minigpt:q} --out {log:q}'


rule untrusted_records:
    input:
        TARGETS.before_alarm,
    output:
        "results/untrusted",
    log:
        "logs/untrusted.log",
    shell:
        "printf '%s\\n' \"$ROOFLAB_UNTRUSTED\" | tee {log} >&2; exit 1"

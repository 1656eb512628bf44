# Every paid rule, out of the table in rooflab/run/paid.py. No input: a finished measurement is never repeated because
# something else changed. Their order is their priority; their text is one, and never changes.
for paid in PAID:

    rule:
        name:
            paid.name
        output:
            paid.output,
        log:
            paid.log,
        priority: paid.priority
        resources:
            **RUN.places.resources(paid.side),
        params:
            spec=TARGETS.spec_of,
            program=paid.name,
            env=ALL_THREADS,
        shell:
            '{params.env} python "$ROOFLAB_SCRIPTS"/paid/{params.program}.py --spec {params.spec:q} --out {output:q} --log {log:q}'

# Is this machine ready to measure? Nothing is measured, and nothing is written but the report.
from rooflab.machine import preflight


def tell_the_doctors_report():
    """Prints the report and ends the run here: Snakemake's own closing lines would push it out of sight."""
    text = Path("logs/doctor.txt").read_text(encoding="utf-8")
    print(text, end="", flush=True)
    sys.exit(1 if preflight.says_not_ready(text) else 0)


rule doctor:
    log:
        "logs/doctor.txt",
    params:
        env=PAID,
        device=config["device"],
    shell:
        "{params.env} python $ROOFLAB_SCRIPTS/free/doctor.py --device {params.device:q} --out {log:q}"

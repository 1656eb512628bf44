# A measured GPU roofline that nobody has to pay for twice.
#   snakemake --cores 1            measures the machine it is typed on, draws and explains
#   snakemake --cores 1 plot       redraws every session in results/; never measures
#   snakemake --cores 1 predict    what a model would do on every measured card; never measures
#   snakemake -n                   what is pending, in seconds and dollars
from snakemake.utils import min_version

min_version("9.11")


configfile: "config.yaml"


include: "workflow/rules/session.smk"
include: "workflow/rules/trust.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/model.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/compare.smk"
include: "workflow/rules/predict.smk"
include: "workflow/rules/closing.smk"
include: "workflow/rules/doctor.smk"


localrules:
    all,
    measurements,
    plot,
    report,
    compare,
    compare_check,
    predict,
    terminated,
    doctor,
    device_query,
    peak_flops_summary,
    roofline,
    draw,
    interpretation,
    manifest,
    report_html,
    model_table,
    model_chart,
    closing,
    untrusted_records,


# this machine's session complete, and the free files of the other sessions
rule all:
    default_target: True
    input:
        lambda wc: this_session_files() + free_files(FREE) + alarm(),


# the paid files of this machine's session, nothing else
rule measurements:
    input:
        lambda wc: this_session_files(),


# the figures of every session in results/, from whatever records exist
rule plot:
    input:
        lambda wc: free_files(FIGURES) + alarm(),


# figures, prose and manifest of every session in results/
rule report:
    input:
        lambda wc: free_files(FREE) + alarm(),

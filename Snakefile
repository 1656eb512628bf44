# A measured GPU roofline that nobody has to pay for twice.
#   snakemake --cores 1            measures the machine it is typed on, draws and explains
#   snakemake --cores 1 plot       redraws every session in results/; never measures
#   snakemake --cores 1 predict    what a model would do on every measured card; never measures
#   snakemake -n                   what is pending, in seconds and dollars
from snakemake.utils import min_version

min_version("9.11")


include: "workflow/rules/session.smk"
include: "workflow/rules/measure.smk"
include: "workflow/rules/derive.smk"
include: "workflow/rules/draw.smk"
include: "workflow/rules/explain.smk"
include: "workflow/rules/ask.smk"


localrules:
    all,
    measurements,
    plot,
    report,


# this machine's session complete, and the free files of the other sessions
rule all:
    default_target: True
    input:
        lambda wc: TARGETS.everything(),


# the paid files of this machine's session, nothing else
rule measurements:
    input:
        lambda wc: TARGETS.measured_files(),


# figures of every session in results/, from whatever records exist
rule plot:
    input:
        lambda wc: TARGETS.figures(),


# figures, prose and manifest of every session in results/
rule report:
    input:
        lambda wc: TARGETS.free(),

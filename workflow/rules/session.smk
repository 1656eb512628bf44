# Hands Snakemake's objects to rooflab/run, which says what this run's sessions are and which files they consist of.
import sys
from pathlib import Path

sys.dont_write_bytecode |= workflow.output_settings.dryrun  # a dry-run changes nothing
sys.path.insert(0, str(Path(workflow.basedir) / "workflow" / "scripts"))

from rooflab.record import names
from rooflab.run.begin import begin, look_around
from rooflab.run.code import code_of
from rooflab.run.paid import ALL_THREADS, PAID
from rooflab.run.targets import HASHED

look_around(workflow)


configfile: "config.yaml"


RUN = begin(workflow, config)
config = RUN.config
TARGETS, CLOSING = RUN.targets, RUN.closing


wildcard_constraints:
    session=names.SESSION,
    key=names.KEY_AND_ATTEMPT,
    model=names.MODEL,


onsuccess:
    RUN.end()

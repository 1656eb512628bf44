# The lab's last item: the instance is terminated, and what it cost. The record has no input and nothing that could make
# it stale, so it stays; what the user said reaches it by the environment.
from rooflab.record import ledger

os.environ["ROOFLAB_CLOSING"] = json.dumps(
    {each: config[each] for each in ("terminated_usd", "price_usd_per_hour")}
)


@cache
def closing_session():
    """The session named by `session` or `device`, else the one that was paid for last, which is said."""
    found = sorted(session.names(RESULTS))
    named = config["session"]
    if not named and config["device"] != "auto":
        named = this_machine().slug
    if not named and len(found) == 1:
        return found[0]
    if not named and (
        last := ledger.newest([RESULTS / each / "ledger.jsonl" for each in found])
    ):
        named = last.parent.name
        print(
            f"terminated: {named}, whose ledger has the most recent event of the {len(found)} sessions in results/; "
            "another one: --config session=<session>",
            file=sys.stderr,
        )
    if named in found:
        return named
    why = (
        f"{named} is not there" if named else "no ledger tells which was paid for last"
    )
    sys.exit(
        f"which session's instance is terminated? In results/: {', '.join(found) or 'none'}; {why}. "
        "Say it: snakemake --cores 1 terminated --config session=<session>"
    )


def closing_files(wc):
    """The record and the manifest of the session that is closed, once the record does not contradict what is said now."""
    path = RESULTS / closing_session() / "terminated.json"
    said = config["terminated_usd"]
    try:
        record = summary.closing_record(path)
    except records.RecordError as error:
        sys.exit(str(error))
    if record and said is not None and record["total_usd"] != said:
        before = record["total_usd"]
        amount = "an unknown amount" if before is None else f"{before} dollars"
        sys.exit(
            f"{path} says {amount}, terminated_usd={said} was given. "
            f"To replace it: rm {path}, then run the same command again"
        )
    return [str(path), str(path.with_name("manifest.json"))]


def closing_of(wc):
    """The closing record, for the manifest: where it is, or is asked for now."""
    path = RESULTS / wc.session / "terminated.json"
    asked = "terminated" in (workflow.dag_settings.targets or ())
    return (
        [str(path)]
        if path.exists() or asked and wc.session == closing_session()
        else []
    )


rule closing:
    output:
        "results/{session}/terminated.json",
    log:
        "logs/{session}/closing.log",
    shell:
        "python $ROOFLAB_SCRIPTS/free/terminated.py --session-dir results/{wildcards.session} --out {output} 2> >(tee {log} >&2)"


# the instance is terminated, total cost: recorded once, quoted by the manifest
rule terminated:
    input:
        closing_files,

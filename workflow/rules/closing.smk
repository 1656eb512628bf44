# The lab's last item: the instance is terminated, and what it cost. The record has no input and nothing that could make
# it stale, so it stays; what the user said reaches it by the environment.
os.environ["ROOFLAB_CLOSING"] = json.dumps(
    {each: config[each] for each in ("terminated_usd", "price_usd_per_hour")}
)


def closing_session():
    """The session named by `session` or `device`, else the only one in results/."""
    if config["session"]:
        return config["session"]
    if config["device"] != "auto":
        return this_machine().slug
    found = sorted(session.names(RESULTS))
    if len(found) != 1:
        there = ", ".join(found) or "none"
        sys.exit(
            f"which session's instance is terminated? In results/: {there}. "
            "Say it: snakemake --cores 1 terminated --config device=<session>"
        )
    return found[0]


def closing_files(wc):
    """The record and the manifest of the session that is closed, once the record does not contradict what is said now."""
    path = RESULTS / closing_session() / "terminated.json"
    said = config["terminated_usd"]
    if path.exists() and said is not None:
        before = json.loads(path.read_text())["total_usd"]
        if before != said:
            sys.exit(
                f"{path} says {before} dollars, terminated_usd={said} was given. "
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
        "python $ROOFLAB_SCRIPTS/terminated.py --session-dir results/{wildcards.session} --out {output} 2> >(tee {log} >&2)"


# the instance is terminated, total cost: recorded once, quoted by the manifest
rule terminated:
    input:
        closing_files,

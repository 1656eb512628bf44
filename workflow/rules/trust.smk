# A record that must not be trusted stops its own session's free rules. The other sessions are drawn first; then the run
# fails with one error per such record: the file, what is wrong, the command that repairs it.
@cache
def untrusted(name):
    """What is wrong with the records of a session, one line each."""
    return session.distrusted(RESULTS / name)


def drawn_sessions():
    """The sessions whose records can be trusted."""
    return [each for each in sessions() if not untrusted(each)]


def free_files(names):
    return [
        str(RESULTS / each / name)
        for each in drawn_sessions()
        for name in [*names, *model_files(each, names)]
    ]


@cache
def alarm():
    """The target that always fails, where a session holds records that must not be trusted."""
    refuse_force()
    told = [line for each in sessions() for line in untrusted(each)]
    os.environ["ROOFLAB_UNTRUSTED"] = "\n".join(told)
    if told and dryrun:
        print(os.environ["ROOFLAB_UNTRUSTED"], file=sys.stderr)
    return [str(RESULTS / "untrusted")] if told else []


def before_alarm(wc):
    """Everything else that was asked for, so that the failure is the last thing that happens."""
    asked = set(workflow.dag_settings.targets or ())
    names = FIGURES if asked == {"plot"} else FREE
    return (this_session_files() if measures() else []) + free_files(names)


rule untrusted_records:
    input:
        before_alarm,
    output:
        str(RESULTS / "untrusted"),
    log:
        "logs/untrusted.log",
    localrule: True
    shell:
        "printf '%s\\n' \"$ROOFLAB_UNTRUSTED\" | tee {log} >&2; exit 1"

#!/usr/bin/env bash
# A Slurm of this one machine, to try profiles/slurm on: two nodes, lab1 and lab2, of two pretended GPUs each.
#   tools/slurm-node.sh COMMAND ...     starts it, runs the command in it, stops it again; the command's status
# As root on Debian or Ubuntu, without systemd; installs what is missing. What it writes lies in /run/rooflab-slurm, linked from
# /etc/slurm while it runs; on a machine with a Slurm of its own it refuses.
set -euo pipefail

here=/run/rooflab-slurm
cd "$(dirname "${BASH_SOURCE[0]}")/.."
programs='slurmctld slurmd sbatch munged'

fail() {
    printf 'slurm-node: %s\n' "$*" >&2
    exit 1
}

missing() {
    local each
    for each in $programs; do
        command -v "$each" >/dev/null || printf '%s ' "$each"
    done
}

install_what_is_missing() {
    local plugin
    if [ -n "$(missing)" ]; then
        command -v apt-get >/dev/null || fail "no Slurm here, and no apt-get to install slurm-wlm and munge with"
        { apt-get update && apt-get install -y --no-install-recommends slurm-wlm munge; } >"$here/apt.log" 2>&1 ||
            { cat "$here/apt.log" >&2; fail "apt-get could not install slurm-wlm and munge"; }
    fi
    [ -z "$(missing)" ] || fail "$(missing)not on the PATH after installing slurm-wlm and munge"
    plugin=$(python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["slurm"])')
    python -c 'import snakemake_executor_plugin_slurm' 2>/dev/null || python -m pip install --quiet "$plugin" ||
        fail "pip could not install $plugin"
}

start_munge() {
    munge -n 2>/dev/null | unmunge >/dev/null 2>&1 && return
    mkdir -p /run/munge
    chown munge: /run/munge
    su -s /bin/sh munge -c "$(command -v munged)" || fail "munged did not start"
    munge -n | unmunge >/dev/null || fail "munge does not answer"
}

# The pretended cards are device files that every machine has.
write_configuration() {
    local host
    host=$(hostname -s)
    cat >"$here/slurm.conf" <<CONF
ClusterName=rooflab
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=$here/state
SlurmdSpoolDir=$here/spool.%n
SlurmctldPidFile=$here/slurmctld.pid
SlurmdPidFile=$here/slurmd.%n.pid
SlurmctldLogFile=$here/slurmctld.log
SlurmdLogFile=$here/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SchedulerParameters=sched_interval=2,batch_sched_delay=0,bf_interval=2,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
NodeName=lab1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=$(nproc) RealMemory=4000 Gres=gpu:2 State=UNKNOWN
NodeName=lab2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=$(nproc) RealMemory=4000 Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=lab1,lab2 Default=YES MaxTime=INFINITE State=UP
CONF
    printf 'NodeName=lab[1-2] Name=gpu File=%s\n' /dev/null /dev/zero >"$here/gres.conf"
    mkdir -p /etc/slurm
    ln -s "$here/slurm.conf" "$here/gres.conf" /etc/slurm/
}

start_slurm() {
    mkdir -p "$here/state"
    slurmctld
    slurmd -N lab1
    slurmd -N lab2
    for _ in $(seq 100); do
        [ "$(sinfo -h -o '%D %t' 2>/dev/null)" = "2 idle" ] && return
        sleep 0.2
    done
    cat "$here"/*.log >&2
    fail "the nodes did not become idle in 20 s: $(sinfo -N -l 2>&1)"
}

stop() {
    local pid name
    for name in slurm.conf gres.conf; do
        [ "$(readlink /etc/slurm/$name)" != "$here/$name" ] || rm "/etc/slurm/$name"
    done
    for pid in $(cat "$here"/*.pid 2>/dev/null); do
        kill "$pid" 2>/dev/null || continue
        while readlink "/proc/$pid/exe" >/dev/null; do sleep 0.1; done
    done
}

[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0"; exit 2; }
[ "$(id -u)" = 0 ] || fail "must be root, to install and start Slurm: sudo -E env PATH=\"\$PATH\" tools/slurm-node.sh ..."
mkdir -p "$here"
stop
[ ! -e /etc/slurm/slurm.conf ] || fail "/etc/slurm/slurm.conf is there: this machine has a Slurm of its own, use that one"
install_what_is_missing
start_munge
rm -rf "$here/state" "$here"/spool.* "$here"/*.log
write_configuration
trap stop EXIT
start_slurm
export ROOFLAB_SLURM=1
"$@"

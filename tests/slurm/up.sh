#!/usr/bin/env bash
# A real Slurm on this one machine: a controller, and NODES virtual nodes n1, n2, ... whose GPUs are pretended.
#
#   tests/slurm/up.sh ROOT        then: . ROOT/env.sh        and at the end: tests/slurm/down.sh ROOT [--purge]
#
# All that it writes is under ROOT, the munge key and socket too, and its ports are BASE_PORT+1 to BASE_PORT+40: give each
# cluster a ROOT and a BASE_PORT of its own, and several stand side by side. Called again for the same ROOT, it starts what
# is missing (a node that was killed, say). Needs root, and the packages munge, slurm-client, slurmctld and slurmd
# (ACCOUNTING=1: slurmdbd, slurm-wlm-mysql-plugin, mariadb-server-core and mariadb-client-core too); it installs nothing.
#
#   NODES=2 CPUS=8 MEMORY_MIB=8000 GPUS=4     what each node claims to have
#   BASE_PORT=26800
#   ACCOUNTING=0                              1: a database as well, so that sacct answers
#   REMEMBER_S=300                            the queue forgets a job so long after its end
set -euo pipefail
root=${1:?usage: up.sh ROOT}
nodes=${NODES:-2} cpus=${CPUS:-8} memory=${MEMORY_MIB:-8000} gpus=${GPUS:-4} port=${BASE_PORT:-26800} accounting=${ACCOUNTING:-0}
remember=${REMEMBER_S:-300}
# A cluster that is there keeps the shape that it was made with.
[ -s "$root/etc/shape" ] && . "$root/etc/shape"
here=$(dirname "$(realpath "$0")")
host=$(hostname -s)
. "$here/daemons.sh"

[ "$(id -u)" = 0 ] || fail "Slurm's daemons want root"
programs=(munged munge slurmctld slurmd sbatch scontrol) more=""
if [ "$accounting" = 1 ]; then
  programs+=(slurmdbd mariadbd mariadb-install-db mariadb)
  more=" slurmdbd slurm-wlm-mysql-plugin mariadb-server-core mariadb-client-core"
fi
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || fail "$program is not installed (Debian: apt install munge slurm-client slurmctld slurmd$more)"
done

mkdir -p "$root"/{etc,log,run,state,spool,devices}
root=$(realpath "$root")
# Users other than root call sbatch as well; and munged refuses a folder that others may write to.
chmod 755 "$root" "$root"/{etc,log,run,state,spool,devices}
echo "nodes=$nodes cpus=$cpus memory=$memory gpus=$gpus port=$port accounting=$accounting remember=$remember" >"$root/etc/shape"
for n in $(seq "$nodes"); do mkdir -p "$root/spool/n$n"; done
for n in $(seq 0 $((gpus - 1))); do ln -sfn /dev/null "$root/devices/gpu$n"; done # any character device will do

if [ "$accounting" = 1 ]; then
  storage="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$((port + 3))
AccountingStoragePass=$root/run/munge.socket
AccountingStorageTRES=gres/gpu"
else
  storage="AccountingStorageType=accounting_storage/none"
fi
gres="" types=""
if [ "$gpus" -gt 0 ]; then
  # With a type: a job that asks for gpu:N must not meet a second kind of resource on the same device.
  gres="Gres=gpu:fake:$gpus" types="GresTypes=gpu"
  echo "NodeName=n[1-$nodes] Name=gpu Type=fake File=$root/devices/gpu[0-$((gpus - 1))]" >"$root/etc/gres.conf"
else
  : >"$root/etc/gres.conf"
fi
cat >"$root/etc/slurm.conf" <<END
ClusterName=grafico
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A credential that expires soon lets a requeued job start after some seconds instead of two minutes.
AuthInfo=socket=$root/run/munge.socket,cred_expire=5
SlurmctldPort=$((port + 1))
SlurmdPort=$((port + 2))
StateSaveLocation=$root/state
SlurmdSpoolDir=$root/spool/%n
SlurmctldPidFile=$root/run/slurmctld.pid
SlurmdPidFile=$root/run/slurmd.%n.pid
SlurmctldLogFile=$root/log/slurmctld.log
SlurmdLogFile=$root/log/slurmd.%n.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# Without it, one job takes all of a node's memory.
DefMemPerCPU=500
# More CPUs than the machine has.
SlurmdParameters=config_overrides
$types
ReturnToService=2
SchedulerParameters=sched_interval=2,bf_interval=2,sched_min_interval=0,batch_sched_delay=0
JobCompType=jobcomp/none
KillWait=5
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
MinJobAge=$remember
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
$storage
NodeName=n[1-$nodes] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 10))-$((port + 9 + nodes))] CPUs=$cpus RealMemory=$memory $gres State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10
PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=20
END
# Nothing here uses control groups; this keeps slurmd from the plugin for version 2, which wants D-Bus.
echo "CgroupPlugin=cgroup/v1" >"$root/etc/cgroup.conf"
echo "export SLURM_CONF=$root/etc/slurm.conf" >"$root/env.sh"
. "$root/env.sh"

if ! runs munged; then
  [ -s "$root/etc/munge.key" ] || (umask 077 && head -c 1024 /dev/urandom >"$root/etc/munge.key")
  munged --key-file="$root/etc/munge.key" --socket="$root/run/munge.socket" --pid-file="$root/run/munged.pid" \
    --log-file="$root/log/munged.log" --seed-file="$root/state/munge.seed" --force 2>/dev/null
  wait_for 10 sh -c "munge -n -S '$root/run/munge.socket' | unmunge -S '$root/run/munge.socket'"
fi

if [ "$accounting" = 1 ]; then
  if ! runs mariadbd; then
    mkdir -p "$root/database"
    [ -d "$root/database/mysql" ] || mariadb-install-db --no-defaults --user=root --datadir="$root/database" --skip-test-db \
      --auth-root-authentication-method=normal >"$root/log/mariadb-install.log" 2>&1
    cat >"$root/etc/database.sql" <<'END'
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS 'slurm'@'%' IDENTIFIED BY 'slurm';
GRANT ALL ON slurm_acct_db.* TO 'slurm'@'%';
END
    setsid mariadbd --no-defaults --user=root --datadir="$root/database" --socket="$root/run/database.socket" \
      --bind-address=127.0.0.1 --port=$((port + 4)) --skip-name-resolve --init-file="$root/etc/database.sql" \
      --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 \
      >"$root/log/mariadbd.log" 2>&1 </dev/null &
    echo $! >"$root/run/mariadbd.pid"
    disown
    wait_for 30 mariadb --no-defaults -S "$root/run/database.socket" -uroot -e "select 1"
  fi
  if ! runs slurmdbd; then
    (umask 077 && cat >"$root/etc/slurmdbd.conf") <<END
AuthType=auth/munge
AuthInfo=socket=$root/run/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=$((port + 3))
SlurmUser=root
LogFile=$root/log/slurmdbd.log
PidFile=$root/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$((port + 4))
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
END
    : >"$root/log/slurmdbd.log"
    slurmdbd
    wait_for 30 grep -q started "$root/log/slurmdbd.log"
  fi
fi

if ! runs slurmctld; then
  slurmctld
  wait_for 20 scontrol ping
fi
for n in $(seq "$nodes"); do runs "slurmd.n$n" || slurmd -N "n$n"; done
all_up() { [ "$(sinfo -h -N -p main -o %t | grep -cE '^(idle|mix|alloc|comp)$')" = "$nodes" ]; }
wait_for 30 all_up || { sinfo -N -l >&2; tail -n 5 "$root"/log/slurmd.*.log >&2; exit 1; }
echo "Slurm is up: . $root/env.sh"

#!/usr/bin/env bash
# Stop what up.sh started under ROOT, its jobs first; with --purge, remove ROOT. Does no harm where nothing runs.
#
#   tests/slurm/down.sh ROOT [--purge]
set -uo pipefail
root=${1:?usage: down.sh ROOT [--purge]}
[ -d "$root" ] || { echo "there is nothing at $root"; exit 0; }
root=$(realpath "$root")
. "$(dirname "$(realpath "$0")")/daemons.sh"
export SLURM_CONF=$root/etc/slurm.conf

if runs slurmctld; then # a slurmd that is stopped leaves its jobs running
  jobs=$(squeue -h -o %A | sort -u)
  # shellcheck disable=SC2086  # one argument a job
  [ -n "$jobs" ] && scancel --quiet $jobs
  wait_for 8 sh -c '[ -z "$(squeue -h)" ]' 2>/dev/null
fi
for file in "$root"/run/slurmd.*.pid; do
  [ -e "$file" ] && stop "$(basename "$file" .pid)"
done
for pid in $(with "SLURM_CONF=$root/etc/slurm.conf"); do # what a job left behind; only jobs know their node
  node=$({ tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | sed -n 's/^SLURMD_NODENAME=//p')
  [ -n "$node" ] && kill_steps "SLURMD_NODENAME=$node"
done
for name in slurmctld slurmdbd mariadbd munged; do stop "$name"; done
[ "${2:-}" = --purge ] && rm -rf "$root"
echo "Slurm is down"

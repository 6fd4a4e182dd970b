#!/usr/bin/env bash
# A node dies: its slurmd, its jobs and all of their processes are killed at once, and nothing says goodbye.
#
#   tests/slurm/kill_node.sh ROOT NODE        up.sh ROOT brings it back
set -uo pipefail
root=$(realpath "${1:?usage: kill_node.sh ROOT NODE}")
node=${2:?usage: kill_node.sh ROOT NODE}
. "$(dirname "$(realpath "$0")")/daemons.sh"
runs "slurmd.$node" || fail "no node $node runs under $root"
kill -9 "$(cat "$root/run/slurmd.$node.pid")"
kill_steps "SLURMD_NODENAME=$node"

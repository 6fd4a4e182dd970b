# Read by up.sh, down.sh and kill_node.sh: the daemons of one cluster, known by the files of their pids under $root/run.

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

runs() { # runs NAME: its process is there, is no zombie, and is what the file is named after (pids are used again)
  local file="$root/run/$1.pid"
  [ -s "$file" ] && ps -o stat=,comm= -p "$(cat "$file")" 2>/dev/null | grep -q "^[^Z][^ ]* *${1%%.*}\$"
}

wait_for() { # wait_for SECONDS COMMAND ...: until it succeeds
  local tenths=$(($1 * 10))
  shift
  for _ in $(seq "$tenths"); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done
  echo "$(basename "$0"): gave up waiting for: $*" >&2
  return 1
}

gone() { # gone PID
  ! ps -o stat= -p "$1" 2>/dev/null | grep -q '^[^Z]'
}

stop() { # stop NAME: in order, or after ten seconds with force
  local file="$root/run/$1.pid" pid
  if runs "$1"; then
    pid=$(cat "$file")
    kill "$pid" 2>/dev/null || true
    wait_for 10 gone "$pid" 2>/dev/null || kill -9 "$pid" 2>/dev/null || true
  fi
  rm -f "$file"
}

with() { # with VARIABLE=VALUE ...: pids of the processes that have all of these in their environment
  local folder entry
  for folder in /proc/[0-9]*; do
    for entry in "$@"; do grep -qzxF -- "$entry" "$folder/environ" 2>/dev/null || continue 2; done
    echo "${folder#/proc/}"
  done
}

kill_steps() { # kill_steps VARIABLE=VALUE ...: processes of Slurm jobs at once, and the slurmstepds that look after them
  local pid parent
  for pid in $(with "SLURM_CONF=$root/etc/slurm.conf" "$@"); do
    parent=$(ps -o ppid= -p "$pid" 2>/dev/null | tr -d ' ') || true
    [ -n "$parent" ] && [ "$(ps -o comm= -p "$parent" 2>/dev/null)" = slurmstepd ] && kill -9 "$parent" 2>/dev/null
    kill -9 "$pid" 2>/dev/null || true
  done
}

"""Batch scripts: of one host of a pool, of a controller, of an allocation. Text only; nothing is submitted here.

What a profile says becomes `#SBATCH` lines, which sbatch reads and no shell, and a command, each word of which is
quoted. A script names files that hold secrets, never a secret.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from grafico.cluster.pool import Pool
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.settings import SlurmSettings
from grafico.errors import ProfileError

__all__ = [
    "allocation_script",
    "check_script",
    "controller_script",
    "host_command",
    "host_script",
    "job_name",
    "log_of_host",
    "python_of",
]

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,60}")
EXPANDED = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")


def host_script(profile: Profile, pool_name: str, folder: Path, label: str) -> str:
    """Return the script of one host of a pool: set-up lines, then the host's launcher.

    Parameters
    ----------
    profile
        Of kind ``slurm``.
    pool_name
        Which pool.
    folder
        The cluster's folder, seen by the hosts under the same path.
    label
        What the host is called.

    Raises
    ------
    ProfileError
        The folder's path cannot stand in a Slurm option.
    """
    pool, settings = profile.pool(pool_name), profile.slurm_of(profile.pool(pool_name))
    lines = [
        f"--job-name={job_name(folder, pool_name, label)}",
        f"--output={_path(log_of_host(folder, pool_name, label))}",
        *_of_site(settings),
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={pool.cpus}",
        *([] if settings.memory is False else [f"--mem={pool.memory_mib}M"]),
        *_gpus(settings, pool.gpus if isinstance(pool.gpus, int) else 0, nodes=1),
        "--no-requeue",  # a host that is lost is replaced by a new one; its old self would come as a stranger
    ]
    return _script(lines, settings, host_command(profile, pool_name, folder, label))


def host_command(profile: Profile, pool_name: str, folder: Path, label: str) -> str:
    """Return the shell lines that turn a machine into a host; also for ``srun … bash -c``."""
    if not LABEL.fullmatch(label):
        raise ProfileError(f"a host cannot be called {label!r}: letters, digits, dots, dashes and underscores only")
    pool = profile.pool(pool_name)
    words = [python_of(profile, pool), "-P", "-m", "grafico.cluster.host"]
    words += ["--folder", str(folder), "--pool", pool_name, "--label", label]
    command = " ".join([*map(_shell_word, shlex.split(pool.container)), *map(shlex.quote, words)])
    # Where this Python finds its modules is wrong for another one; what a job file brings along travels with its tasks.
    other = ["unset PYTHONPATH PYTHONHOME"] if pool.container or profile.python is not None else []
    return "\n".join([*other, *profile.setup, *pool.setup, f"exec {command}"])


def controller_script(profile: Profile, command: Sequence[str], *, name: str, log: Path) -> str:
    """Return the script of the small job that runs a controller, whose hosts are jobs of their own.

    Parameters
    ----------
    profile
        Of kind ``slurm``, elastic.
    command
        What runs the controller: words, each of which is quoted.
    name
        For the job's name: the run's.
    log
        File that gets what it prints; a requeued job appends to it.
    """
    controller, settings = profile.controller, profile.slurm_of_controller()
    lines = [
        f"--job-name=grafico-{_name(name)}",
        f"--output={_path(log)}",
        "--open-mode=append",
        *_of_site(settings),
        "--nodes=1",
        "--ntasks=1",
        f"--cpus-per-task={controller.cpus}",
        *([] if settings.memory is False else [f"--mem={controller.memory_mib}M"]),
        *_ends_well(profile),
    ]
    return _script(lines, settings, _controller(profile, command))


def allocation_script(profile: Profile, command: Sequence[str], *, name: str, log: Path) -> str:
    """Return the script of a job that holds all hosts of a run, and its controller.

    Pools that take what there is (``auto``) take whole nodes; numbers are asked for as they stand, all pools together
    on each node. The parameters are those of :func:`controller_script`; `profile` has ``workers: allocation``.
    """
    settings = profile.slurm
    for pool in profile.pools:
        settings = settings.under(pool.slurm)
    nodes = profile.pools[0].scale.max
    cpus = [pool.cpus for pool in profile.pools]
    memory = [pool.memory_mib for pool in profile.pools]
    counts = [
        pool.gpus if isinstance(pool.gpus, int) else len(pool.gpus) for pool in profile.pools if pool.gpus != "auto"
    ]
    lines = [
        f"--job-name=grafico-{_name(name)}",
        f"--output={_path(log)}",
        "--open-mode=append",
        *_of_site(settings),
        f"--nodes={nodes}",
        "--ntasks-per-node=1",
        "--no-kill",  # a node that dies takes its own hosts with it, not the others
    ]
    if "auto" in cpus:
        lines.append("--exclusive")
    else:
        lines.append(f"--cpus-per-task={sum(int(count) for count in cpus)}")
    if settings.memory is not False:
        lines.append("--mem=0" if "auto" in memory else f"--mem={sum(int(amount) for amount in memory)}M")
    lines += [*_gpus(settings, sum(counts), nodes=nodes), *_ends_well(profile)]
    return _script(lines, settings, _controller(profile, command))


def check_script(text: str) -> None:
    """Have bash read a script without running it.

    Raises
    ------
    ProfileError
        It is no shell script, which is a fault of the profile's own shell lines; says what bash says. Where there is
        no bash, nothing is said: the hosts have one.
    """
    bash = shutil.which("bash")
    if bash is None:
        return
    done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, timeout=20, check=False)
    if done.returncode or done.stderr.strip():
        said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[0]
        raise ProfileError(
            f"the profile's set-up lines make no shell script: {said[:300]}",
            hint="`grafico cluster check` prints the script; look at `setup`",
        )


def job_name(folder: Path, pool_name: str, label: str) -> str:
    """Return the name of a host's job: what people recognize, and a part that only this cluster has."""
    place = folder.parent if folder.name == "cluster" else folder
    digest = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:6]
    return f"grafico-{_name(place.name)}-{digest}-{pool_name}-{label}"


def log_of_host(folder: Path, pool_name: str, label: str) -> Path:
    """Return the file that gets what a host's job prints."""
    return folder / "logs" / f"{pool_name}-{label}.log"


def python_of(profile: Profile, pool: Pool | None = None) -> str:
    """Return the Python that a job of a profile is started with."""
    if profile.python is not None:
        return os.path.expanduser(profile.python)  # noqa: PTH111 - it may be a bare name, found on PATH
    return "python3" if pool is not None and pool.container else sys.executable


# -- parts -------------------------------------------------------------------------------------------------------


def _script(lines: Sequence[str], settings: SlurmSettings, body: str) -> str:
    kept = [line for line in lines if not any(line.startswith(prefix) for prefix in settings.omit)]
    header = [f"#SBATCH {line}" for line in (*kept, *settings.directives)]
    return "\n".join(["#!/bin/bash", *header, "", body, ""])


def _of_site(settings: SlurmSettings) -> list[str]:
    options = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "reservation": settings.reservation,
        "constraint": settings.constraint,
        "time": settings.walltime,
    }
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def _gpus(settings: SlurmSettings, count: int, *, nodes: int) -> list[str]:
    """Return how GPUs are asked for, `count` of them on each node."""
    style = settings.gpu_style or "gres"
    if count == 0 or style == "none":
        return []
    kind = f"{settings.gpu_type}:" if settings.gpu_type else ""
    if style == "gres":
        return [f"--gres=gpu:{kind}{count}"]
    return [f"--{style}={kind}{count * nodes if style == 'gpus' else count}"]


def _ends_well(profile: Profile) -> list[str]:
    """Return the lines with which a controller is warned before its end, and may be queued again."""
    controller = profile.controller
    return ["--requeue" if controller.requeue else "--no-requeue", f"--signal=B:USR1@{controller.warn_s}"]


def _controller(profile: Profile, command: Sequence[str]) -> str:
    # exec: the signal goes to the batch shell alone, whose place the controller takes.
    return "\n".join([*profile.setup, *profile.controller.setup, f"exec {shlex.join(command)}"])


def _path(path: Path) -> str:
    """Return an absolute path as a value of an option: sbatch expands % and ends words at spaces."""
    text = str(path.absolute())
    if not text.isprintable() or any(c in "\"'\\`$" for c in text):
        raise ProfileError(
            f"the path {text!r} holds a character that no Slurm option can (quotes, $, backslashes, control characters)",
            hint="put runs elsewhere: --runs-dir FOLDER",
        )
    text = text.replace("%", "%%")
    return f'"{text}"' if any(c.isspace() or c == "#" for c in text) else text


def _name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("_")[:60] or "run"


def _shell_word(word: str) -> str:
    """Quote a word of a container's prefix; variables such as $HOME are expanded, commands are not."""
    quoted, at = "", 0
    for match in EXPANDED.finditer(word):
        quoted += (shlex.quote(word[at : match.start()]) if match.start() > at else "") + f'"{match.group()}"'
        at = match.end()
    return quoted + (shlex.quote(word[at:]) if at < len(word) or not word else "")

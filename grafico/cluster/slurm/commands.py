"""Slurm's commands, each with a time-out, and each of which may be missing, forbidden or unreadable: then it says so.

Options and formats are those that Slurm 20.11 to 25 share; no ``--json``, whose layout changes with each release.
"""

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from grafico.calculations import Model
from grafico.errors import ProfileError

__all__ = [
    "ENDED",
    "HOPELESS",
    "JobState",
    "Partition",
    "Said",
    "accounting",
    "call",
    "cancel",
    "clean_environment",
    "job_id_in",
    "partitions",
    "queue",
    "show_job",
    "submission_environment",
    "submit",
    "transient",
    "try_script",
    "user_name",
    "version",
    "words_of",
]

TIMEOUT_S = 30.0
"""A slurmctld under load answers within ten seconds or so, or lets the command time out by itself (MessageTimeout)."""

ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "GONE",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    }
)
"""States that a job does not leave any more; GONE, which is ours, is a job that Slurm has forgotten."""

HOPELESS = re.compile(
    r"BadConstraints|PartitionTimeLimit|InvalidAccount|InvalidQOS|DependencyNeverSatisfied"
    r"|ReservationDeleted|\w+Per(Job|Node)(Limit)?$|\w+WallDurationPerJob\w*"
)
"""Reasons for which a queued job waits for ever, unless somebody changes it or the site's rules (squeue's manual)."""

TRANSIENT = re.compile(
    r"timed out|unable to contact|connection|communication|slurm_persist|zero bytes|temporarily|try again|busy"
    r"|limit|down, drained|backup controller|in standby|did not answer",
    re.IGNORECASE,
)
"""Refusals that may be over in a while: a controller that does not answer, limits on how many jobs one may have."""

QUICK_S = 10.0
"""For what is asked only to tell people."""

HABITS = ("SQUEUE_", "SACCT_", "SCONTROL_", "SCANCEL_", "SINFO_")
"""Variables by which people make a command show only some partition or state, print in columns of their own, or ask
before it cancels. What is read by a program has to be all, and as it was asked for."""

OVERRIDE = {
    "--mem": ("MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE"),
    "--requeue": ("NO_REQUEUE", "REQUEUE"),
    "--no-requeue": ("NO_REQUEUE", "REQUEUE"),
    "--time": ("TIMELIMIT",),
    "-A": ("ACCOUNT",),
    "-C": ("CONSTRAINT",),
    "-G": ("GPUS",),
    "-p": ("PARTITION",),
    "-q": ("QOS",),
    "-t": ("TIMELIMIT",),
}
"""Variables of sbatch that are not called like the option of a script that they override, without their SBATCH_."""

NEVER = ("SBATCH_ARRAY_INX", "SBATCH_ERROR", "SBATCH_WAIT")
"""Variables of sbatch under which there would be many jobs, no log that is read here, or no answer until a job ends."""

KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS")
LINE = re.compile(r"^(?:sbatch|squeue|sacct|scontrol|scancel|sinfo)(?:: (?:error|fatal|warning))?: ", re.MULTILINE)


class Said(NamedTuple):
    """What a command answered."""

    out: str = ""
    problem: str = ""
    """Why there is no answer, in one line, in Slurm's own words where it has some; empty if all is well."""

    @property
    def ok(self) -> bool:
        """Whether it answered."""
        return not self.problem


class JobState(NamedTuple):
    """How a job stands."""

    job_id: str
    state: str
    """PENDING, RUNNING, COMPLETING …, or one of :data:`ENDED`."""
    reason: str = ""
    """Why it waits, or why it ended; empty if Slurm gives none."""
    nodes: str = ""

    @property
    def ended(self) -> bool:
        """Whether it has ended for good."""
        return self.state in ENDED


class Partition(Model):
    """One kind of nodes of a partition, as ``sinfo`` groups them."""

    name: str
    default: bool
    available: bool
    walltime: str
    nodes: int
    idle: int
    cpus: str
    memory_mib: str
    gres: str


def call(
    program: str, *arguments: str, timeout_s: float = TIMEOUT_S, stdin: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Said:  # fmt: skip
    """Run one of Slurm's commands."""
    path = shutil.which(program)
    if path is None:
        return Said(problem=f"{program} is not there")
    # Dates, states and messages are read by programs: no translations, no colors, nobody's own format or selection.
    environment = {
        name: text
        for name, text in (environ or os.environ).items()
        if not name.endswith("_FORMAT") and not name.startswith(HABITS)
    }
    environment |= {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            [path, *arguments], input=stdin if stdin is not None else "", capture_output=True, timeout=timeout_s,
            check=False, env=environment, encoding="utf-8", errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Said(problem=f"{program} did not answer within {timeout_s:g} s")
    except OSError as error:
        return Said(problem=f"{program} cannot be run: {error.strerror or error}")
    if done.returncode:
        said = words_of(done.stderr) or words_of(done.stdout) or f"exit code {done.returncode}"
        return Said(done.stdout, f"{program}: {said}")
    return Said(done.stdout)


def words_of(text: str) -> str:
    """Return what a command said as one line, without its own name before each."""
    lines = [line.strip() for line in LINE.sub("", text).splitlines()]
    return "; ".join(dict.fromkeys(line for line in lines if line))[:500]


def transient(problem: str) -> bool:
    """Whether a refused submission may be taken in a while."""
    return TRANSIENT.search(problem) is not None


def clean_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment to submit from, without what the job that we may be in was given.

    Inside a job, sbatch would hand its memory, devices and steps on to the new job, where they are wrong.
    """
    return {
        name: text
        for name, text in environ.items()
        if name in KEPT
        or not name.startswith(("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_", "CUDA_VISIBLE", "GPU_DEVICE"))
    }


def submission_environment(script: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return an environment to submit a script from, in which the script has the last word on what it asks for.

    sbatch counts variables such as ``SBATCH_PARTITION`` more than the script. They stay the user's defaults for what the
    script does not say.
    """
    overridden = set(NEVER)
    for option in re.findall(r"^#SBATCH (--[a-z-]+|-[A-Za-z])", script, re.MULTILINE):
        names = OVERRIDE.get(option, (option[2:].upper().replace("-", "_"),))
        overridden |= {f"SBATCH_{name}" for name in names}
    return {name: text for name, text in clean_environment(environ).items() if name not in overridden}


def job_id_in(output: str) -> str | None:
    """Return the number of the job that sbatch says it has submitted, whatever the site prints around it."""
    found = re.search(r"Submitted batch job (\d+)", output) or re.search(r"^(\d+)(?:;\S+)?\s*$", output, re.MULTILINE)
    return found.group(1) if found else None


def submit(script: Path) -> str:
    """Submit a script file and return the job's number.

    Raises
    ------
    ProfileError
        Slurm refuses it, or is not there; says so in Slurm's own words.
    """
    environ = submission_environment(script.read_text(encoding="utf-8"))
    said = call("sbatch", "--parsable", str(script), environ=environ, timeout_s=60.0)
    job_id = job_id_in(said.out) if said.ok else None
    if job_id is None:
        problem = said.problem or f"sbatch gave no job number: {words_of(said.out)[:200] or 'nothing'}"
        raise ProfileError(f"the job was not submitted: {problem}", hint=f"the script is {script}")
    return job_id


def try_script(text: str) -> str:
    """Return why Slurm would refuse a script, in its own words; empty if it would not, or cannot be asked.

    ``sbatch --test-only`` submits nothing. It does not know every limit; and nodes that are down or busy now are no
    reason to refuse.
    """
    said = call("sbatch", "--test-only", stdin=text, environ=submission_environment(text))
    if said.ok or transient(said.problem) or said.problem.endswith("is not there"):
        return ""
    return said.problem


def queue(
    job_ids: Iterable[str] = (), *, names: Iterable[str] = (), timeout_s: float = TIMEOUT_S
) -> dict[str, JobState] | str:
    """Return how one's own jobs stand, those too that ended a short while ago; or why nobody can tell.

    Parameters
    ----------
    job_ids
        Which jobs to look for; none: all of the user's.
    names
        Only jobs of these names.
    timeout_s
        Seconds to wait for an answer.
    """
    wanted = set(job_ids)
    arguments = ["-h", "-u", user_name(), "-t", "all", "-o", "%A|%T|%N|%r"]
    called = ",".join(names)
    said = call("squeue", *arguments, *([f"--name={called}"] if called else []), timeout_s=timeout_s)
    if not said.ok:
        return said.problem
    states = {}
    for line in said.out.splitlines():
        fields = line.split("|", 3)
        if len(fields) == 4 and fields[0].isdigit() and (not wanted or fields[0] in wanted):
            reason = "" if fields[3] in {"None", "(null)", ""} else fields[3]
            states[fields[0]] = JobState(fields[0], fields[1], reason, fields[2])
    return states


def accounting(job_ids: Iterable[str], timeout_s: float = TIMEOUT_S) -> dict[str, JobState] | str:
    """Return how jobs stand by Slurm's accounting, which lags a few seconds; or why it cannot be read.

    A job in an array is ``12_3``.
    """
    wanted = sorted(set(job_ids))
    if not wanted:
        return {}
    columns = "JobID,State,NodeList,ExitCode"
    said = call("sacct", "-n", "-P", "-X", "-D", "-j", ",".join(wanted), "-o", columns, timeout_s=timeout_s)
    if not said.ok:
        return said.problem
    states = {}
    for line in said.out.splitlines():
        fields = line.split("|")
        if len(fields) == 4 and fields[0] in wanted and fields[1]:
            # "CANCELLED by 1000": who did it is the reason.
            state, _, more = fields[1].partition(" ")
            code = f"exit code {fields[3]}" if fields[3] not in {"0:0", ""} else ""
            states[fields[0]] = JobState(fields[0], state, more or code, fields[2])
    return states


def show_job(job_id: str, timeout_s: float = TIMEOUT_S) -> dict[str, str] | str:
    """Return what ``scontrol`` knows of a job, by field; or why it cannot be told."""
    said = call("scontrol", "show", "job", "-o", job_id, timeout_s=timeout_s)
    if not said.ok:
        return said.problem
    return dict(word.split("=", 1) for word in said.out.split() if "=" in word)


def cancel(job_ids: Iterable[str], timeout_s: float = TIMEOUT_S) -> str:
    """Cancel jobs; return why it could not be done. Jobs that are gone already are no problem."""
    wanted = sorted(set(job_ids), key=int)
    if not wanted:
        return ""
    problem = call("scancel", *wanted, timeout_s=timeout_s).problem
    return "" if re.search(r"invalid job id|already completing or completed", problem, re.IGNORECASE) else problem


def version() -> Said:
    """Return Slurm's version, such as ``22.05.8``."""
    said = call("sinfo", "--version", timeout_s=QUICK_S)
    found = re.search(r"\d+\.\d+\S*", said.out)
    return Said(found.group() if found else said.out.strip(), said.problem)


def partitions() -> tuple[Partition, ...] | str:
    """Return the partitions that one can see, one entry for each kind of node; or why not."""
    said = call("sinfo", "-h", "-e", "-o", "%P|%a|%l|%F|%c|%m|%G", timeout_s=QUICK_S)
    if not said.ok:
        return said.problem
    found = []
    for line in said.out.splitlines():
        fields = line.split("|")
        counts = fields[3].split("/") if len(fields) == 7 else []  # allocated/idle/other/total
        if len(counts) == 4 and all(count.isdigit() for count in counts):
            found.append(
                Partition(
                    name=fields[0].removesuffix("*"),
                    default=fields[0].endswith("*"),
                    available=fields[1] == "up",
                    walltime=fields[2],
                    nodes=int(counts[3]),
                    idle=int(counts[1]),
                    cpus=fields[4],
                    memory_mib=fields[5],
                    gres="" if fields[6] == "(null)" else fields[6],
                )
            )
    return tuple(found)


def user_name() -> str:
    """Return who one is here; a number where nobody knows a name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may know no name for the user
        return str(os.getuid())

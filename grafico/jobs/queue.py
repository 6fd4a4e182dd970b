"""Runs that were submitted to Slurm: which job carries a run out, and how that job stands in the queue."""

import getpass
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import Field, ValidationError

from grafico.calculations import Model
from grafico.errors import GraficoError, RunError
from grafico.runs import RunPaths, RunStatus
from grafico.runs.files import disk_errors, read_bytes, write_atomic
from grafico.runs.run import read_manifest

__all__ = [
    "Standing",
    "Submission",
    "read_submission",
    "standing",
    "standings",
    "take_out",
    "words",
    "write_submission",
]

OPEN = frozenset({RunStatus.CREATED, RunStatus.RUNNING, RunStatus.INTERRUPTED})
"""What may still begin or go on."""


class Submission(Model):
    """As what a run was submitted."""

    job: str = Field(pattern=r"^\d+(_\d+)?$", description="number of the Slurm job; of a job in an array, `12_3`")
    submitted: str = Field(description="UTC, ISO 8601")
    host: str = Field(description="where it was submitted")


class Standing(Model):
    """How a Slurm job stands."""

    job: str
    state: str = Field(description="PENDING, RUNNING …; empty where the queue does not know it any more")
    reason: str = Field(default="", description="why it waits")
    start: str = Field(default="", description="when Slurm expects to start it, or did; local time")
    problem: str = Field(default="", description="why nobody can tell")

    @property
    def waits(self) -> bool:
        """Whether it is in the queue and has not begun, or not begun again."""
        return self.state in {"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"}

    @property
    def over(self) -> bool:
        """Whether it has ended for good."""
        from grafico.cluster.slurm.commands import ENDED

        return not self.problem and (not self.state or self.state in ENDED)

    @property
    def hopeless(self) -> bool:
        """Whether it waits for what does not come by itself."""
        from grafico.cluster.slurm.commands import HOPELESS

        return self.waits and HOPELESS.search(self.reason) is not None


def write_submission(paths: RunPaths, submission: Submission) -> None:
    """Remember as what a run was submitted."""
    with disk_errors("the number of the Slurm job could not be kept", paths.submission):
        write_atomic(paths.submission, (submission.model_dump_json(indent=2) + "\n").encode())


def read_submission(paths: RunPaths) -> Submission | None:
    """Return as what a run was submitted; ``None`` if it was not, or the record cannot be read."""
    try:
        data = read_bytes(paths.submission)
        return None if data is None else Submission.model_validate_json(data)
    except (OSError, ValidationError):
        return None


def standing(jobs: Iterable[str]) -> dict[str, Standing]:
    """Return how each of these Slurm jobs stands; one call of ``squeue`` for all, and one of ``sacct`` for the rest.

    The queue forgets a job some minutes after its end, and accounting does not. Where neither can be read, each says so.
    """
    wanted = list(jobs)
    if not wanted:
        return {}
    from grafico.cluster.slurm.commands import QUICK_S, accounting, call

    # With --array, each task of an array has a line; with `all`, jobs that ended some minutes ago have one, too.
    said = call("squeue", "--noheader", "--array", "--states=all", f"--user={_user()}", "--format=%i|%T|%r|%S")
    found = {}
    for line in said.out.splitlines() if said.ok else ():
        fields = line.strip().split("|")
        if len(fields) == 4:
            job, state, reason, start = fields
            reason = "" if reason in {"None", "(null)"} else reason
            found[job] = Standing(job=job, state=state, reason=reason, start="" if start == "N/A" else start)
    missing = [job for job in wanted if job not in found]
    remembered = accounting(missing, QUICK_S)
    for job, known in remembered.items() if isinstance(remembered, dict) else ():
        # It lags: what the queue does not list any more is over, whatever it says.
        if known.ended or not said.ok:
            found[job] = Standing(job=job, state=known.state)
    return {job: found.get(job) or Standing(job=job, state="", problem=said.problem) for job in wanted}


def standings(runs: Iterable[Path]) -> dict[Path, Standing]:
    """Return how the Slurm jobs of runs stand that were submitted and have not ended, by the runs' folders."""
    submitted: dict[Path, str] = {}
    for path in runs:
        paths = RunPaths(path)
        submission = read_submission(paths)
        if submission is None:
            continue
        with suppress(GraficoError):
            if read_manifest(paths).status in OPEN:
                submitted[path] = submission.job
    found = standing(submitted.values())
    return {path: found[job] for path, job in submitted.items()}


def words(stands: Standing, *, begun: bool) -> str:
    """Return how a run's job stands, in words.

    Parameters
    ----------
    stands
        The job.
    begun
        Whether the run has begun already.
    """
    again = " again" if begun else ""
    if stands.problem:
        return f"submitted as Slurm job {stands.job} (how that stands cannot be told: {stands.problem})"
    if stands.waits:
        why = (
            f" ({stands.reason}{', which does not pass by itself' if stands.hopeless else ''})" if stands.reason else ""
        )
        soon = f", expected to start at {stands.start.replace('T', ' ')}" if stands.start else ""
        return f"queued{again} as Slurm job {stands.job}{why}{soon}"
    if stands.over:
        state = f" ({stands.state.lower().replace('_', ' ')})" if stands.state else ""
        return f"its Slurm job {stands.job} is over{state}"
    return f"Slurm job {stands.job} is {stands.state.lower()}"


def take_out(job: str) -> None:
    """Cancel a Slurm job, in the queue or running; one that is over is no problem.

    Raises
    ------
    RunError
        Slurm does not do it.
    """
    from grafico.cluster.slurm.commands import call

    problem = call("scancel", job).problem
    if problem and not re.search(r"invalid job id|already completing or completed", problem, re.IGNORECASE):
        raise RunError(f"Slurm job {job} was not cancelled: {problem}", hint=f"scancel {job}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may know no name for the user
        return str(os.getuid())

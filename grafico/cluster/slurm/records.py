"""Which jobs a cluster has submitted, on disk, so that none is left in the queue by a server that was killed."""

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from grafico.cluster.slurm.commands import ENDED, TIMEOUT_S, JobState, accounting, cancel, queue, show_job

__all__ = ["HostRecords", "cancel_left", "end_jobs", "look_up"]

PAUSE_S = 0.5

LEAST_S = 2.0
"""A command gets at least so long, although the time for all of them is over."""

SHOWN = 12

FORGOTTEN = "Invalid job id"


class HostRecords:
    """Which jobs a cluster has submitted, on disk: whoever comes after a killed server can take them out of the queue.

    A script is written before it is submitted and a number after, so that a kill in between leaves the script, whose
    job is found by its name.

    Parameters
    ----------
    folder
        The cluster's folder.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "slurm"

    def script(self, name: str) -> Path:
        """Return the file of a host's script."""
        return self.root / f"{name}.sbatch"

    def number(self, name: str) -> Path:
        """Return the file that holds the number of a host's job."""
        return self.root / f"{name}.job"

    def write(self, path: Path, text: str) -> None:
        """Write one of the two, for the owner's eyes only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

    def forget(self, name: str) -> None:
        """Remove what was kept of a job that has ended."""
        self.number(name).unlink(missing_ok=True)
        self.script(name).unlink(missing_ok=True)

    def left(self) -> Iterator[tuple[str, str, str]]:
        """Yield each host that was not seen to end: its name, its job's number (or nothing), its job's name."""
        for path in sorted(self.root.glob("*.sbatch")):
            with contextlib.suppress(OSError):
                name = path.stem
                number = self.number(name)
                job_id = number.read_text().strip() if number.is_file() else ""
                found = re.search(r"^#SBATCH --job-name=(\S+)$", path.read_text(), re.MULTILINE)
                yield name, job_id if job_id.isdigit() else "", found.group(1) if found else ""

    def highest(self) -> int:
        """Return the highest number that a label ever had here; scripts of ended hosts are gone, their logs stay."""
        logs = self.root.parent / "logs"
        names = [path.stem for folder in (self.root, logs) if folder.is_dir() for path in folder.iterdir()]
        return max((int(m.group(1)) for name in names if (m := re.search(r"-(\d+)$", name))), default=0)


def look_up(job_ids: Iterable[str], within_s: float = 3 * TIMEOUT_S) -> tuple[dict[str, JobState], str]:
    """Return how jobs stand, by squeue, sacct or scontrol, whichever can be read; and what could not be.

    A job that squeue, where it can be read, does not list any more and that nobody else remembers is ``GONE``.

    Parameters
    ----------
    job_ids
        Which.
    within_s
        Seconds for all of it, about: where Slurm's controller is gone, each command waits for it.
    """
    wanted = set(job_ids)
    if not wanted:
        return {}, ""
    ends = time.monotonic() + within_s
    states: dict[str, JobState] = {}
    problem = ""
    listed = queue(wanted, timeout_s=_patience(ends))
    if isinstance(listed, str):
        problem = listed
    else:
        states = listed
    missing = wanted - set(states)
    if missing and isinstance(remembered := accounting(missing, _patience(ends)), dict):
        # Accounting lags: what it still calls running and the queue does not list is over.
        states |= {i: s for i, s in remembered.items() if s.ended or problem}
    silent = False
    for job_id in sorted(wanted - set(states), key=int):
        # The first that gets no answer speaks for all: a controller that is gone is so for each of them.
        fields = "" if silent else show_job(job_id, _patience(ends))
        if isinstance(fields, dict) and "JobState" in fields:
            reason = fields.get("Reason", "None")
            states[job_id] = JobState(job_id, fields["JobState"], "" if reason == "None" else reason)
        elif not problem or (isinstance(fields, str) and FORGOTTEN in fields):
            states[job_id] = JobState(job_id, "GONE")
        silent = silent or (isinstance(fields, str) and FORGOTTEN not in fields)
    return states, problem


def _patience(ends: float) -> float:
    """Return how long one command may take where all of them have to be over by then."""
    return min(TIMEOUT_S, max(LEAST_S, ends - time.monotonic()))


def end_jobs(job_ids: Iterable[str], within_s: float) -> dict[str, str]:
    """Cancel jobs and see them end; return those that did not, with their state or why nobody knows.

    Where neither `scancel` nor the queue gets an answer, that is so for the time being: it is not asked again.
    """
    left = dict.fromkeys(job_ids, "")
    ends = time.monotonic() + within_s
    while left:
        problem = cancel(left, _patience(ends))
        states, blind = look_up(left, ends - time.monotonic())
        seen = {i: states[i].state if i in states else problem or blind for i in left}
        left = {i: said for i, said in seen.items() if said not in ENDED}
        if not left or time.monotonic() > ends or (problem and blind):
            break
        time.sleep(PAUSE_S)
    return left


def cancel_left(folder: Path, within_s: float = 60.0) -> str:
    """Take out of the queue what an earlier server of a cluster folder left there; return what could not be.

    Parameters
    ----------
    folder
        The cluster's folder; nothing is done where it has submitted nothing.
    within_s
        Seconds for which jobs are waited for; a host ends within a few.
    """
    records, ends = HostRecords(folder), time.monotonic() + within_s
    jobs: dict[str, set[str]] = {}
    unnumbered: dict[str, str] = {}
    for name, job_id, job_name in records.left():
        if job_id:
            jobs[name] = {job_id}
        elif job_name:
            unnumbered[name] = job_name
    if unnumbered and isinstance(found := queue(names=unnumbered.values(), timeout_s=_patience(ends)), dict):
        # Whichever belongs to which: all of them are of this folder, and all are to go.
        jobs |= {name: set(found) for name in unnumbered}
    left = end_jobs({job_id for numbers in jobs.values() for job_id in numbers}, ends - time.monotonic())
    for name, numbers in jobs.items():
        if not numbers & set(left):
            records.forget(name)
    alike: dict[str, list[str]] = {}
    for job_id in sorted(left, key=int):
        alike.setdefault(left[job_id], []).append(job_id)
    return "; ".join(f"{_jobs(ids)}: {said}" for said, ids in alike.items())


def _jobs(ids: Sequence[str]) -> str:
    """Return jobs in words; their scripts in the cluster's folder name them all."""
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return f"job{'s' * (len(ids) > 1)} {', '.join(ids[:SHOWN])}{more}"

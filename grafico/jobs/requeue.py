"""The end of our own Slurm job: hearing that it comes, knowing when, and going back into the queue before it.

``#SBATCH --signal=B:USR1@120`` has Slurm send SIGUSR1 to the controller before its time is over. Slurm looks only now
and then: the signal may come a minute earlier, or half a minute later.
"""

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

__all__ = ["OwnJob", "listen_early", "own_job", "take_early"]

UNKNOWN_S = 60.0
"""Seconds that are left after the signal, where nobody can tell."""
SPARE_S = 20.0
"""Seconds before the end that ending processes, the last journal entries and the way back into the queue need."""
PATIENCE_S = 15.0
"""Seconds for Slurm to answer; it is busy now and then."""

_heard = False


def listen_early() -> None:
    """Remember SIGUSR1 from now on: until the run has begun, it would end this process."""
    with suppress(ValueError, AttributeError):  # not in the main thread, or no such signal
        signal.signal(signal.SIGUSR1, _hear)


def _hear(number: int, frame: object) -> None:  # noqa: ARG001 - Python's signature
    global _heard  # noqa: PLW0603 - a signal belongs to the process
    _heard = True


def take_early() -> bool:
    """Return whether SIGUSR1 came before anybody could act on it."""
    global _heard
    heard, _heard = _heard, False
    return heard


@dataclass(frozen=True)
class OwnJob:
    """The Slurm job that this process runs in."""

    number: str
    """As Slurm's commands want it: of an array, ``12_3`` and not the number of the whole."""
    restart: int = 0
    ends: float | None = None
    """End of its time, seconds since the epoch, where the environment says it (Slurm 23.02 and later)."""

    def seconds_left(self) -> float | None:
        """Return the seconds that are left to work in; ``None`` where Slurm does not say. Takes a moment."""
        # The environment does not hear of it when somebody gives the job more time, or less.
        asked = self._ask()
        ends = self.ends if asked is None else asked
        return None if ends is None else ends - time.time() - SPARE_S

    def _ask(self) -> float | None:
        from grafico.cluster.slurm.commands import call

        said = call("squeue", "--noheader", "--format=%e", f"--jobs={self.number}", timeout_s=PATIENCE_S)
        try:
            # In the time zone of this host, as Slurm prints it.
            return datetime.fromisoformat(said.out.strip()).timestamp() if said.ok else None
        except ValueError:
            return None  # a job without a time limit

    def requeue(self) -> str:
        """Put the job back into the queue; Slurm then ends what is left of it.

        Returns
        -------
        str
            Empty, or why that was not possible.
        """
        from grafico.cluster.slurm.commands import call

        return call("scontrol", "requeue", self.number, timeout_s=PATIENCE_S).problem


def own_job(environ: Mapping[str, str] = os.environ) -> OwnJob | None:
    """Return the Slurm job that we are in, ``None`` outside of one."""
    number = environ.get("SLURM_JOB_ID", "")
    if not number:
        return None
    array, task = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
    restart, ends = environ.get("SLURM_RESTART_COUNT", ""), environ.get("SLURM_JOB_END_TIME", "")
    return OwnJob(
        number=f"{array}_{task}" if array and task else number,
        restart=int(restart) if restart.isdecimal() else 0,
        ends=float(ends) if re.fullmatch(r"\d+", ends) else None,
    )

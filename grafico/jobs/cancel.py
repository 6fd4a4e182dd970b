"""Asking the controller of a run, which is another process, to stop."""

import os
import signal
import time
from pathlib import Path

from grafico.calculations import Json
from grafico.cluster.private import end_left
from grafico.errors import RunError
from grafico.jobs.queue import standings, take_out
from grafico.jobs.stopping import cancel_marker
from grafico.runs import Run, RunStatus, read_run
from grafico.runs.lock import Holder, read_holder
from grafico.runs.owned import refuse_others

__all__ = ["cancel"]

LOOK_S = 0.1


def cancel(path: Path, wait_s: float) -> dict[str, Json]:
    """Stop a run.

    The controller on this host is sent SIGTERM; one on another host finds a marker in the run's folder. A Slurm job that
    has not begun with the run, or not gone on with it yet, is taken out of the queue. What a controller that was killed
    left running on a cluster that stays up is ended.

    Parameters
    ----------
    path
        The run.
    wait_s
        Seconds to wait until it has let go of the run.

    Returns
    -------
    ``run``, ``stopped`` and a ``message`` for people.

    Raises
    ------
    RunError
        The marker cannot be written, or Slurm does not cancel the job; or the folder is one that others can write to.
    """
    run = Run.open(path)
    refuse_others(run.paths.root, "no run is cancelled there")  # it says which process and which Slurm job to end
    holder = read_holder(run.paths)
    if (taken := _out_of_the_queue(run, holder)) is not None:
        return taken
    if holder is None or holder.process.alive() is False:
        status = str(run.manifest.status)
        if run.manifest.status is RunStatus.RUNNING:
            status = "interrupted: its controller is gone"
        left = end_left(run.paths.root)
        ended = f"; {left} calculations that it had left on its cluster were ended" if left else ""
        return {"run": run.name, "stopped": True, "message": f"{run.name} is not running ({status}){ended}"}
    try:
        cancel_marker(run.paths.root).touch(mode=0o600)
    except OSError as error:
        raise RunError(f"{run.name} cannot be cancelled: {error}") from error
    if holder.process.alive():
        _signal(holder)
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        now = read_holder(run.paths)
        if now != holder or holder.process.alive() is False:
            status = read_run(run.paths.root).status
            going_on = f"stopped; `grafico resume {run.name}` goes on with it"
            words = going_on if status in {RunStatus.INTERRUPTED, RunStatus.RUNNING} else f"had ended before ({status})"
            return {"run": run.name, "stopped": True, "message": f"{run.name} {words}"}
        time.sleep(LOOK_S)
    return {"run": run.name, "stopped": False, "message": f"{holder} was asked to stop {run.name}, and has not yet"}


def _out_of_the_queue(run: Run, holder: Holder | None) -> dict[str, Json] | None:
    """Cancel the Slurm job that would begin or go on with a run; ``None`` where there is none, or it runs."""
    slurm = standings([run.paths.root]).get(run.paths.root)
    # A job that runs has a controller to be asked, but for the moments before that has taken the run.
    if slurm is None or slurm.over or not (slurm.waits or holder is None):
        return None
    take_out(slurm.job)
    what = f"Slurm job {slurm.job} was cancelled"
    if run.manifest.status is RunStatus.CREATED:
        message = f"{what} before it began with {run.name}; `grafico resume {run.name}` runs it from here"
    else:
        message = f"{what} before it went on with {run.name}; `grafico resume {run.name}` goes on with it"
    return {"run": run.name, "stopped": True, "message": message}


def _signal(holder: Holder) -> None:
    """Send SIGTERM to exactly this process: the descriptor pins it before its identity is checked."""
    try:
        handle = os.pidfd_open(holder.pid)
    except (OSError, AttributeError):
        return  # it ended, or the system has no such descriptors: the marker remains
    try:
        if holder.process.alive():
            signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)

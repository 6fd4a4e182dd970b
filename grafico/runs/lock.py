"""Who runs a run: a courtesy between controllers.

Whether the holder of a lock on another host is dead cannot be decided, so the lock only keeps well-meaning controllers
apart; what makes a replaced controller harmless is the fence in the journal.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from grafico.errors import RunLocked
from grafico.runs.files import another_folder, disk_errors, link_new, read_bytes, write_atomic
from grafico.runs.paths import RunPaths
from grafico.runs.processes import ProcessId, this_process
from grafico.runs.run import utc_now

__all__ = ["Holder", "RunLock", "read_holder"]


@dataclass(frozen=True, kw_only=True)
class Holder:
    """Who holds a run."""

    host: str
    pid: int
    start: str
    """When its process started, as a token; see ``processes.ProcessId``."""
    since: str
    """UTC, ISO 8601."""
    slurm_job: str = ""
    slurm_restart: int = 0
    root: str = ""
    """The run's folder; a copy of it has the lock's file as well, and nobody who holds it."""

    @property
    def process(self) -> ProcessId:
        """The process."""
        return ProcessId(self.host, self.pid, self.start)

    def __str__(self) -> str:
        slurm = f", Slurm job {self.slurm_job}" if self.slurm_job else ""
        return f"process {self.pid} on {self.host}{slurm}, since {self.since}"

    def gives_way_to(self, other: "Holder") -> str | None:
        """Return why ``other`` may take over without being told to, ``None`` if it may not."""
        if self.process.alive() is False:
            return f"{self} has ended"
        if self.slurm_job and self.slurm_job == other.slurm_job and other.slurm_restart > self.slurm_restart:
            return f"Slurm job {self.slurm_job} was requeued (restart {other.slurm_restart})"
        return None


class RunLock:
    """The lock of a run.

    Parameters
    ----------
    paths
        The run.
    environ
        Where ``SLURM_JOB_ID`` and ``SLURM_RESTART_COUNT`` stand; default the process's environment.
    """

    def __init__(self, paths: RunPaths, *, environ: Mapping[str, str] | None = None) -> None:
        self.paths = paths
        environ = os.environ if environ is None else environ
        own = this_process()
        restart = environ.get("SLURM_RESTART_COUNT", "")
        self.holder = Holder(
            host=own.host,
            pid=own.pid,
            start=own.start,
            since=utc_now(),
            slurm_job=environ.get("SLURM_JOB_ID", ""),
            slurm_restart=int(restart) if restart.isdecimal() else 0,
            root=str(paths.root),
        )
        self.held = False

    def acquire(self, *, take_over: bool = False) -> str | None:
        """Take the lock.

        Returns
        -------
        str or None
            Why an earlier holder was passed over, if there was one.

        Raises
        ------
        RunLocked
            Somebody else holds it, and may well be alive.
        """
        data = (json.dumps(asdict(self.holder), indent=2) + "\n").encode()
        path = self.paths.controller
        reason: str | None = None
        with disk_errors("the lock of the run could not be taken", path):
            if not link_new(path, data):
                holder = _written(self.paths)
                reason = _void(holder, self.paths) or (holder.gives_way_to(self.holder) if holder else None)
                if reason is None and take_over:
                    reason = f"told to take over from {holder}"
                if reason is None:
                    raise RunLocked(
                        f"the run {self.paths.name} is being run by {holder}",
                        hint=f"if that one is gone or stuck: `grafico resume {self.paths.name} --take-over`",
                    )
                write_atomic(path, data)
            held = read_holder(self.paths)
        if held != self.holder:
            raise RunLocked(f"the run {self.paths.name} was taken at the same moment by {held}")
        self.held = True
        return reason

    def release(self) -> None:
        """Give the lock back, unless somebody has taken it over."""
        if self.held and read_holder(self.paths) == self.holder:
            # One that stays behind is passed over: its process has ended.
            with suppress(OSError):
                self.paths.controller.unlink(missing_ok=True)
        self.held = False


def read_holder(paths: RunPaths) -> Holder | None:
    """Return who holds a run, ``None`` if nobody does, or the file cannot be read or was copied from another folder."""
    holder = _written(paths)
    return None if _void(holder, paths) else holder


def _void(holder: Holder | None, paths: RunPaths) -> str:
    """Return why what a lock's file says does not count; empty if it does."""
    if holder is None:
        return "it could not be read"
    return f"its lock was copied from {holder.root}" if another_folder(holder.root, paths.root) else ""


def _written(paths: RunPaths) -> Holder | None:
    """Return whom a lock's file names, ``None`` if there is none or it cannot be read."""
    try:
        data = read_bytes(paths.controller)
    except OSError:
        return None
    if data is None:
        return None
    try:
        return Holder(**json.loads(data))
    except (ValueError, TypeError):
        return None

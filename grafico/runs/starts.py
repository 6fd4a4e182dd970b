"""What workers themselves say about starts and ends: the evidence of what really ran, and of what still runs."""

import asyncio
import json
import os
import secrets
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grafico.runs.files import another_folder, disk_errors, write_all
from grafico.runs.paths import RunPaths
from grafico.runs.processes import ProcessId, host_name, this_process

__all__ = ["StartLog", "Started", "end_orphans", "orphans", "read_starts", "start_ids"]


@dataclass(frozen=True, kw_only=True)
class Started:
    """One start of a calculation, as the process that ran it wrote it."""

    id: str
    key: str
    attempt: int
    lane: str
    label: str
    process: ProcessId
    worker: str
    gpu: str
    slot: str
    started: float
    """Seconds since the epoch."""
    cluster: str = ""
    """Id of the standing cluster that ran it; empty for workers that end with their controller."""
    slurm_job: str = ""
    """Slurm job that held the worker."""
    root: str = ""
    """Folder of the run that it was started for; a copy of that has this record as well."""
    ended: float | None = None
    status: str = ""
    """``success``, a failure's kind, or empty while (or because) no end was written."""


class StartLog:
    """One process's record of what it started and ended, in a file of its own.

    Each line is one ``write`` to a file opened for appending, so a kill can tear the last line at most. Safe to use
    from several threads.
    """

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self._lock = threading.Lock()
        self._own: tuple[int, Path] | None = None

    def start(
        self,
        key: str,
        attempt: int,
        *,
        lane: str = "",
        label: str = "",
        worker: str = "",
        gpu: str = "",
        slot: str = "",
        process: ProcessId | None = None,
        cluster: str = "",
        slurm_job: str = "",
    ) -> Started:
        """Record that a calculation starts now, before it does.

        Parameters
        ----------
        key, attempt, lane, label
            As in the task.
        worker, gpu, slot
            Where it was placed.
        process
            The process that runs it; default the caller.
        cluster, slurm_job
            The standing cluster and the Slurm job that the worker belongs to, if any.

        Raises
        ------
        RunError
            It cannot be written; then the calculation must not start.
        """
        started = Started(
            id=secrets.token_hex(8),
            key=key,
            attempt=attempt,
            lane=lane,
            label=label,
            process=process or this_process(),
            worker=worker,
            gpu=gpu,
            slot=slot,
            started=time.time(),
            cluster=cluster,
            slurm_job=slurm_job,
            root=str(self.paths.root),
        )
        where = {"cluster": cluster, "slurm_job": slurm_job}
        self._append(
            {
                "start": started.id,
                "key": key,
                "attempt": attempt,
                "lane": lane,
                "label": label,
                "host": started.process.host,
                "pid": started.process.pid,
                "process_start": started.process.start,
                "worker": worker,
                "gpu": gpu,
                "slot": slot,
                "time": started.started,
                "root": started.root,
                **{name: value for name, value in where.items() if value},
            }
        )
        return started

    def end(self, started: Started, status: str) -> None:
        """Record that it ended: ``success`` or a failure's kind. Any process may write it."""
        self._append(
            {
                "end": started.id,
                "key": started.key,
                "attempt": started.attempt,
                "status": str(status),
                "time": time.time(),
            }
        )

    def _append(self, line: dict[str, Any]) -> None:
        path = self._own_path()
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        with self._lock, disk_errors("a start record could not be written", path):
            handle = os.open(path, flags, 0o600)
            try:
                if _torn(handle):
                    data = b"\n" + data
                write_all(handle, data)
            finally:
                # Whatever process dies, the system has it. It need not outlive the machine: what ran there ended too.
                os.close(handle)

    def _own_path(self) -> Path:
        pid = os.getpid()
        if self._own is None or self._own[0] != pid:  # a fork is another process
            self._own = (pid, self.paths.starts_of(host_name(), pid))
        return self._own[1]


def _torn(handle: int) -> bool:
    """Whether a file ends in the middle of a line (a process of the same number was killed there)."""
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"


def read_starts(paths: RunPaths) -> list[Started]:
    """Return every recorded start of a run, in order of time, with its end where one was written.

    Lines that were torn by a kill are passed over: what they would have said did not happen.
    """
    starts: dict[str, dict[str, Any]] = {}
    ends: dict[str, dict[str, Any]] = {}
    for path in sorted(paths.starts.glob("*.jsonl")):
        with disk_errors("the start records cannot be read", path):
            data = path.read_bytes()
        for line in data.split(b"\n"):
            entry = _parse(line)
            if "start" in entry:
                starts[entry["start"]] = entry
            elif "end" in entry:
                ends[entry["end"]] = entry
    found = [_started(entry, ends.get(number)) for number, entry in starts.items()]
    return sorted(found, key=lambda s: (s.started, s.id))


def start_ids(paths: RunPaths, key: str, attempt: int) -> set[str]:
    """Return the ids of the starts of one attempt at a content key.

    Lines about other calculations are not even parsed: a worker that is lost makes a controller ask for each of its
    calculations, of a run that may have started many thousands.
    """
    found = set()
    needle = key.encode()
    for path in paths.starts.glob("*.jsonl"):
        with disk_errors("the start records cannot be read", path), path.open("rb") as lines:
            for line in lines:
                entry = _parse(line) if needle in line else {}
                if "start" in entry and entry.get("key") == key and entry.get("attempt") == attempt:
                    found.add(str(entry["start"]))
    return found


def orphans(paths: RunPaths, spared: str = "") -> list[Started]:
    """Return the calculations that were started, not ended, and whose process is still alive on this host.

    Those of the standing cluster ``spared`` are none: whoever connects to it finds them again. Nor are those of the
    run of which this folder is a copy.
    """
    left = [s for s in read_starts(paths) if s.ended is None and s.process.alive()]
    left = [s for s in left if not another_folder(s.root, paths.root)]
    return [s for s in left if not s.cluster or s.cluster != spared]


async def end_orphans(paths: RunPaths, *, patience: float = 0.0, grace: float = 2.0, spared: str = "") -> list[Started]:
    """Wait for calculations that an earlier controller left running on this host, then end them.

    Parameters
    ----------
    paths
        The run.
    patience
        Seconds to let them finish by themselves.
    grace
        Seconds between asking (SIGTERM) and ending (SIGKILL).
    spared
        Id of the standing cluster whose calculations go on.

    Returns
    -------
    list of Started
        Those that were ended. Those that finished in time committed their outcome.
    """
    left = await _settle(paths, patience, spared)
    ended = left
    for number in (signal.SIGTERM, signal.SIGKILL):
        for started in left:
            _signal(started.process, number)
        left = await _settle(paths, grace, spared)
    return ended


async def _settle(paths: RunPaths, seconds: float, spared: str) -> list[Started]:
    deadline = time.monotonic() + seconds
    # A process that is no child of ours can only be polled.
    while (left := await asyncio.to_thread(orphans, paths, spared)) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(min(0.05, max(0.0, deadline - time.monotonic())))
    return left


def _signal(process: ProcessId, number: signal.Signals) -> None:
    """Send a signal to exactly this process: the descriptor pins it before its identity is checked."""
    try:
        if not hasattr(os, "pidfd_open"):
            if process.alive():
                os.kill(process.pid, number)
            return
        handle = os.pidfd_open(process.pid)
        try:
            if process.alive():
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except (ProcessLookupError, PermissionError):
        return


def _parse(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def _started(entry: dict[str, Any], end: dict[str, Any] | None) -> Started:
    return Started(
        id=entry["start"],
        key=entry["key"],
        attempt=entry["attempt"],
        lane=entry["lane"],
        label=entry["label"],
        process=ProcessId(entry["host"], entry["pid"], entry["process_start"]),
        worker=entry["worker"],
        gpu=entry["gpu"],
        slot=entry["slot"],
        started=entry["time"],
        cluster=entry.get("cluster", ""),
        slurm_job=entry.get("slurm_job", ""),
        root=entry.get("root", ""),
        ended=end["time"] if end else None,
        status=end["status"] if end else "",
    )

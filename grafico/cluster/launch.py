"""Starting worker processes and replacing those that die; the part of a cluster that knows processes, not tasks."""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distributed.core import Status
from distributed.deploy.spec import ProcessInterface

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.origin import Origin
from grafico.cluster.worker import UP, instructions

__all__ = ["LocalWorker", "Surroundings", "WorkerProcess", "last_words", "no_room", "python_path"]

TOO_MANY = 5
"""Starts in a row that came to nothing, after which a worker is given up."""

ROOM = 256 * 1024
"""Bytes that a log and a few small files need at least."""

PATIENCE_S = 2.0
"""Seconds that a worker has to end by itself."""


def python_path() -> str:
    """Return a ``PYTHONPATH`` with which another process finds the modules that this one finds."""
    return os.pathsep.join(str(Path(entry or ".").absolute()) for entry in sys.path if not entry.endswith(".zip"))


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What all workers of a host have in common."""

    scratch: Path
    """Folder on a local disk."""
    logs: Path
    max_tasks: int
    grace_s: float
    tls: Mapping[str, str] | None
    origin: Origin = field(default_factory=Origin)
    versions: Mapping[str, str] | None = None


class WorkerProcess:
    """One worker process on this machine, replaced when it dies.

    Parameters
    ----------
    scheduler
        Address of the scheduler.
    spec
        What the worker is.
    around
        What it shares with others.
    given_up
        Called with the name when it has died too often.
    """

    def __init__(self, scheduler: str, spec: WorkerSpec, around: Surroundings, given_up: Callable[[str], None]) -> None:
        self.name = spec.name
        self.spec = spec
        self.log = around.logs / f"{spec.name}.log"
        self.process: asyncio.subprocess.Process | None = None
        self._scheduler = scheduler
        self._around = around
        self._given_up = given_up
        self._generation = 0
        self._came_up = False
        self._log_from = 0
        self._keeper: asyncio.Task[None] | None = None

    @property
    def came_up(self) -> bool:
        """Whether the present process has reported to the scheduler."""
        if not self._came_up and self.process is not None:
            with contextlib.suppress(OSError), self.log.open("rb") as log:
                log.seek(self._log_from)
                self._came_up = UP.partition("{address}")[0].format(name=self.name).encode() in log.read()
        return self._came_up

    async def start(self) -> None:
        """Start the process; it reports to the scheduler by itself."""
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    def let_go(self) -> None:
        """Replace the process no more when it ends."""
        if self._keeper is not None:
            self._keeper.cancel()

    async def close(self) -> None:
        """End the process."""
        if self._keeper is not None:
            self.let_go()
            await asyncio.wait([self._keeper])
        if self.process is not None and self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()  # its lifeline
            try:
                await asyncio.wait_for(self.process.wait(), PATIENCE_S)
            except TimeoutError:
                self.kill()
                await self.process.wait()

    def kill(self) -> None:
        """End the present process at once; another takes its place unless it is being closed."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    async def _launch(self) -> None:
        self._generation += 1
        environment = {**os.environ, **self.spec.environment, "PYTHONPATH": python_path()}
        # The worker itself needs no CUDA and no threads of BLAS; its processes are told each their own.
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with self.log.open("ab") as log:
            self._came_up, self._log_from = False, log.tell()
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "grafico.cluster.worker",
                stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        around = self._around
        assert self.process.stdin is not None
        self.process.stdin.write(
            instructions(
                self.spec,
                parent=os.getpid(),
                scheduler=self._scheduler,
                scratch=around.scratch / f"{self.name}.{self._generation}",
                max_tasks=around.max_tasks,
                grace_s=around.grace_s,
                tls=around.tls,
                origin=around.origin,
                versions=around.versions,
            )
        )
        with contextlib.suppress(ConnectionError):
            await self.process.stdin.drain()

    async def _keep(self) -> None:
        """Replace the process whenever it dies, unless it never even starts."""
        failed = 0
        while True:
            assert self.process is not None
            await self.process.wait()
            failed = 0 if self.came_up else failed + 1
            if failed >= TOO_MANY:
                self._given_up(self.name)
                return
            await asyncio.sleep(0.1 * failed)
            await self._launch()


class LocalWorker(ProcessInterface):  # type: ignore[misc]  # distributed has no types
    """A worker process beside its controller, as ``SpecCluster`` wants it.

    Parameters
    ----------
    scheduler, spec, around, given_up
        As for :class:`WorkerProcess`.
    name
        Name of the worker, given by ``SpecCluster``.
    """

    def __init__(
        self,
        scheduler: str,
        *,
        name: str,
        spec: WorkerSpec,
        around: Surroundings,
        given_up: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.name = name
        self.worker = WorkerProcess(scheduler, spec, around, given_up)

    async def start(self) -> None:
        """Start the process; it reports to the scheduler by itself."""
        await self.worker.start()
        await super().start()

    async def close(self, **_: Any) -> None:
        """End the process."""
        await self.worker.close()
        if self.status != Status.closed:
            await super().close()


def last_words(logs: Path, names: str = "*") -> str:
    """Return in one sentence what the first log that says anything says last."""
    for log in sorted(logs.glob(f"{names}.log")):
        lines = log.read_text(errors="replace").strip().splitlines()
        if lines:
            return f"the log of {log.stem} ends: {lines[-1][:500]}"
    return f"their logs say nothing{no_room(logs)}"


def no_room(folder: Path) -> str:
    """Return, to be added to a message, that the disk of a folder is full; empty if it is not.

    Whoever dies of it can write neither a log nor a reason.
    """
    with contextlib.suppress(OSError):
        free = shutil.disk_usage(folder).free
        if free < ROOM:
            return f": the disk of {folder} is full ({free // 1024} KiB free)"
    return ""

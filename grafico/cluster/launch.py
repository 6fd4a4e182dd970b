"""Starting worker processes and replacing those that die; the part of a cluster that knows processes, not tasks."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from distributed.core import Status
from distributed.deploy.spec import ProcessInterface

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.worker import instructions

__all__ = ["LocalWorker", "python_path"]

TOO_MANY = 5
"""Starts in a row that came to nothing, after which a worker is given up."""


def python_path() -> str:
    """Return a ``PYTHONPATH`` with which another process finds the modules that this one finds."""
    return os.pathsep.join(str(Path(entry or ".").absolute()) for entry in sys.path if not entry.endswith(".zip"))


class LocalWorker(ProcessInterface):  # type: ignore[misc]  # distributed has no types
    """One worker process on this machine, replaced when it dies.

    Parameters
    ----------
    scheduler
        Address of the scheduler.
    name
        Name of the worker, given by ``SpecCluster``.
    spec, scratch, max_tasks, grace_s
        As in :func:`grafico.cluster.worker.instructions`.
    given_up
        Called with the name when it has died too often.
    """

    def __init__(
        self,
        scheduler: str,
        *,
        name: str,
        spec: WorkerSpec,
        scratch: Path,
        max_tasks: int,
        grace_s: float,
        given_up: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._spec = spec
        self._scratch = scratch
        self._max_tasks = max_tasks
        self._grace_s = grace_s
        self.name = name
        self.log = scratch / f"{name}.log"
        self.process: asyncio.subprocess.Process | None = None
        self._given_up = given_up
        self.came_up = False
        """Whether the present process has reported to the scheduler."""
        self._generation = 0
        self._keeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process; it reports to the scheduler by itself."""
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(), name=f"keep {self.name}")
        await super().start()

    async def close(self) -> None:
        """End the process."""
        if self._keeper is not None:
            self._keeper.cancel()
        if self.process is not None and self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()  # its lifeline
            try:
                await asyncio.wait_for(self.process.wait(), 2)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    self.process.kill()
                await self.process.wait()
        if self.status != Status.closed:
            await super().close()

    async def _launch(self) -> None:
        self._generation += 1
        self.came_up = False
        environment = {**os.environ, **self._spec.environment, "PYTHONPATH": python_path()}
        # The worker itself needs no CUDA and no threads of BLAS; its processes are told each their own.
        environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "grafico.cluster.worker",
                stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True,
            )  # fmt: skip
        assert self.process.stdin is not None
        self.process.stdin.write(
            instructions(
                self._spec,
                parent=os.getpid(),
                scheduler=self._scheduler,
                scratch=self._scratch / f"{self.name}.{self._generation}",
                max_tasks=self._max_tasks,
                grace_s=self._grace_s,
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

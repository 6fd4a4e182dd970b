"""The fleet of a standing cluster on one machine: a host beside the server, which ends with it."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from grafico.cluster.connection import ClusterFolder
from grafico.cluster.fleet import HostView, PoolStatus
from grafico.cluster.launch import no_room, python_path
from grafico.cluster.profile import Profile

if TYPE_CHECKING:
    from grafico.cluster.placement import Pending

__all__ = ["LocalFleet"]

LABEL = "local"
TOO_MANY = 5
"""Starts in a row that came to nothing, after which the host is given up."""

END_S = 10.0


class LocalFleet:
    """Keeps one host running beside the server.

    Parameters
    ----------
    profile
        Of kind ``local``.
    folder
        The cluster's folder.
    """

    def __init__(self, profile: Profile, folder: Path) -> None:
        self._profile = profile
        self._place = ClusterFolder(folder)
        self._log = self._place.logs / f"host-{LABEL}.log"
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._up: set[str] = set()
        self._came_up = False
        self._problem = ""
        self._hopeless = False

    async def start(self) -> None:
        """Start the host."""
        await self._launch()
        self._keeper = asyncio.create_task(self._keep(), name="keep the host")

    async def adjust(self, pending: Mapping[str, "Sequence[Pending]"], hosts: Sequence[HostView]) -> None:  # noqa: ARG002
        """Take note of what is up: this machine is neither larger nor smaller than it is."""
        self._up = {host.pool for host in hosts}
        if self._up:
            self._came_up, self._problem = True, ""

    def status(self) -> tuple[PoolStatus, ...]:
        """Return how the pools stand."""
        return tuple(
            PoolStatus(
                pool=pool.name,
                wanted=1,
                queued=int(pool.name not in self._up and not self._hopeless),
                up=int(pool.name in self._up),
                problem=self._problem,
                hopeless=self._hopeless,
            )
            for pool in self._profile.pools
        )

    async def close(self) -> None:
        """End the host."""
        if self._keeper is not None:
            self._keeper.cancel()
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            try:
                await asyncio.wait_for(process.wait(), END_S)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()  # its workers end with it

    async def _launch(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "grafico.cluster.host",
                "--folder", str(self._place.root), "--label", LABEL, "--parent", str(os.getpid()),
                stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "PYTHONPATH": python_path()}, start_new_session=True,
            )  # fmt: skip

    async def _keep(self) -> None:
        failed = 0
        while True:
            self._came_up = False
            began = time.monotonic()
            assert self._process is not None
            code = await self._process.wait()
            failed = 0 if self._came_up else failed + 1
            self._problem = f"the host ended with status {code} after {time.monotonic() - began:.0f} s: {self._words()}"
            if failed >= TOO_MANY or (code == 1 and not self._came_up):
                # Its workers have been tried again and again already.
                self._hopeless, self._problem = True, self._words()
                return
            await asyncio.sleep(0.2 * failed)
            await self._launch()

    def _words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else f"its log says nothing{no_room(self._place.logs)}"

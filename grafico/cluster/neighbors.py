"""GPU slots that other runs of this user hold on this machine, for a run that shares no scheduler with them.

Leases keep the count right by themselves. This keeps a calculation from being sent to a GPU on which it would wait for
another run, while a GPU beside it is idle.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.leases import holders, lease_folder
from grafico.errors import GraficoError

__all__ = ["Neighbors"]

LOOK_S = 0.5
NOTHING_KEPT = 2**31
"""A GPU shared among so many has no part that is kept for us. Where others have all GPUs, calculations are sent after a
moment all the same (``placement.backlog.CLAIM_S``), and wait there in line with theirs."""


class Neighbors:
    """Looks after what others hold.

    Parameters
    ----------
    workers
        Those of this run.
    shared
        Told by the name of a worker what others hold of it, and by how many runs it is shared.
    """

    def __init__(self, workers: Iterable[WorkerSpec], shared: Callable[[str, Mapping[str, int], int], None]) -> None:
        self._workers = [worker for worker in workers if worker.is_gpu]
        self._shared = shared

    def look(self, worker: WorkerSpec) -> None:
        """Look at one worker's GPU now."""
        if not worker.is_gpu:
            return
        others = [holder for holder in holders(lease_folder(), worker.gpu) if not _is_ours(holder.pid)]
        used = {"slot": len(others), "vram_mib": sum(holder.vram_mib for holder in others)} if others else {}
        self._shared(worker.name, used, NOTHING_KEPT)

    async def watch(self) -> None:
        """Look again and again."""
        while self._workers:
            for worker in self._workers:
                with contextlib.suppress(OSError, GraficoError):  # calculations say so, if it lasts
                    self.look(worker)
            await asyncio.sleep(LOOK_S)


def _is_ours(pid: int) -> bool:
    """Whether a calculation's process belongs to a worker of this process."""
    import psutil

    try:
        return psutil.Process(psutil.Process(pid).ppid()).ppid() == os.getpid()
    except (psutil.Error, ValueError):
        return False  # it has just ended, or is not to be seen from here

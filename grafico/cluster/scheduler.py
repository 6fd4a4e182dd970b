"""Dask's scheduler, which does not take its own absence for that of its workers."""

from time import time
from typing import Any

from distributed import Scheduler
from tornado.ioloop import PeriodicCallback

__all__ = ["PatientScheduler"]

LOOK_S = 2.0
STALL_S = 10.0
"""Whoever has not had a turn for so long was stopped, or the whole machine slept, or the loop was blocked."""


class PatientScheduler(Scheduler):  # type: ignore[misc]  # distributed has no types
    """A scheduler that may be stopped for a while, as by Ctrl-Z or the lid of a laptop.

    Dask gives workers up of which it has heard nothing for ``worker-ttl``. After a pause of its own it would give up all
    of them, with what they run, before it reads what they have sent meanwhile. So after a pause each has its time anew.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._grafico_turn = time()
        self.periodic_callbacks["grafico-turns"] = PeriodicCallback(self.note_pause, LOOK_S * 1000)

    def note_pause(self) -> None:
        """Forget the time in which nothing could be heard."""
        now = time()
        if now - self._grafico_turn > STALL_S:
            for worker in self.workers.values():
                worker.last_seen = now
        self._grafico_turn = now

    async def check_worker_ttl(self) -> None:
        """Give up workers that are silent although they were listened to."""
        self.note_pause()
        await super().check_worker_ttl()

"""How a run is stopped: first it starts nothing more, then it is killed.

Ctrl-C once: nothing more starts, what runs may finish and is journalled. Twice: what runs is killed. A third time ends
the process at once. SIGTERM, SIGHUP and `grafico cancel` are the first two in one, a moment apart.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from grafico.calculations import CalculationTask, Failure, FailureKind, Outcome
from grafico.graphs.protocols import Compute
from grafico.jobs.requeue import UNKNOWN_S, own_job, take_early

__all__ = ["GRACE_S", "Intake", "Stopper", "cancel_marker"]

GRACE_S = 2.0
"""Seconds that calculations have to finish after SIGTERM or a cancel."""
LOOK_S = 0.5
"""How often the controller looks whether another process asked it to stop."""


def cancel_marker(root: Path) -> Path:
    """Return the file by which another process, perhaps on another host, asks the controller to stop."""
    return root / "cancel"


class Stopper:
    """Listens for signals and for the cancel marker while a run goes.

    Parameters
    ----------
    root
        The run's folder.
    say
        Tells people what happens.
    """

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.marker = cancel_marker(root)
        self.say = say
        self.draining = asyncio.Event()
        self.killing = asyncio.Event()
        self.why = ""
        self.out_of_time = False
        """Whether it stops because the time of its Slurm job is nearly over."""
        self._presses = 0
        self._handled: list[signal.Signals] = []
        self._looking: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        with suppress(OSError):
            self.marker.unlink(missing_ok=True)
        loop = asyncio.get_running_loop()
        for number, handler in ((signal.SIGINT, self._interrupt), (signal.SIGTERM, self._terminate),
                                (signal.SIGHUP, self._terminate), (signal.SIGUSR1, self._warn)):  # fmt: skip
            # Under nohup, a hangup stays ignored.
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            # Signals reach the main thread only; elsewhere the cancel marker remains.
            with suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, handler, number)
                self._handled.append(number)
        self._looking = asyncio.create_task(self._look())
        if take_early():
            self._warn(signal.SIGUSR1)
        return self

    async def __aexit__(self, *error: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._handled:
            loop.remove_signal_handler(number)
        if self._timer is not None:
            self._timer.cancel()
        for task in (self._looking, self._asking):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        with suppress(OSError):
            self.marker.unlink(missing_ok=True)

    def _interrupt(self, number: signal.Signals) -> None:
        self._presses += 1
        if self._presses == 1:
            self.drain(number.name)
        elif self._presses == 2:
            self.kill()
        else:
            os._exit(130)

    def _terminate(self, number: signal.Signals) -> None:
        if self.draining.is_set():
            self.kill()
        else:
            self.drain("cancelled" if self.marker.exists() else number.name)
            self._kill_soon()

    def _warn(self, number: signal.Signals) -> None:
        if not self.draining.is_set():
            self.out_of_time = True
            self.drain(f"{number.name}: the time of this Slurm job is nearly over")
            self._kill_soon(UNKNOWN_S)
            self._asking = asyncio.create_task(self._ask())

    async def _ask(self) -> None:
        """Find out how much time there is, and use it."""
        job = own_job()
        left = await asyncio.to_thread(job.seconds_left) if job is not None else None
        if left is not None and not self.killing.is_set():
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._kill_soon(max(0.0, left))
            self.say(f"{max(0, round(left))} s are left for what runs")

    def drain(self, why: str) -> None:
        """Start nothing more."""
        if not self.draining.is_set():
            self.why = why
            self.draining.set()
            # Whoever presses Ctrl-C after a cancel wants it to end.
            self._presses = max(self._presses, 1)

    def kill(self) -> None:
        """Kill what runs."""
        self.drain("killed")
        self.killing.set()

    def _kill_soon(self, seconds: float = GRACE_S) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.kill)

    async def _look(self) -> None:
        while not self.draining.is_set():
            if await asyncio.to_thread(self.marker.exists):
                self.drain("cancelled")
                self._kill_soon()
            await asyncio.sleep(LOOK_S)


class Intake:
    """Compute that can be shut: what is asked for afterwards waits for ever.

    Parameters
    ----------
    compute
        Where calculations run.
    """

    def __init__(self, compute: Compute) -> None:
        self.compute = compute
        self.shut = False

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        """Run one attempt."""
        if self.shut:
            await asyncio.Event().wait()
        outcome = await self.compute.run(task)
        if self.shut and isinstance(outcome, Failure) and outcome.kind is FailureKind.WORKER_LOST:
            # It was stopped with the run: that is no failed attempt, which the journal would count.
            await asyncio.Event().wait()
        return outcome

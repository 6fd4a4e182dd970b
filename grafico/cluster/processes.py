"""Warm processes of one worker: pebble pools of one process each, kept between calculations, ended with all they started.

A pool of one, so that a process that is killed takes no neighbour's locks with it, and so that each can have its own
environment: threads and device are settled before any library is loaded.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, NamedTuple

from pebble import ProcessFuture, ProcessPool

from grafico.cluster import child
from grafico.cluster.orphans import Guardian, kill_family, resident_mib
from grafico.runs.processes import start_of

__all__ = ["ProcessKind", "Processes", "WarmProcess"]

START_S = 120.0
"""A process that has not answered after so long has not started."""

FAT_MIB = 400
"""What an engine's process may hold when it has just been imported, MiB."""

STARTS = 4
"""Times that starting a process is tried: it may be killed meanwhile like any other."""

_environment_lock = threading.Lock()


class ProcessKind(NamedTuple):
    """Processes of one kind are interchangeable."""

    family: str
    threads: int
    device: str


class Spawned(SpawnProcess):
    """A spawned process whose environment differs from its parent's."""

    def __init__(self, variables: Mapping[str, str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.variables = dict(variables)

    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name is multiprocessing's
        with _environment_lock, _variables(process_obj.variables):
            return SpawnProcess._Popen(process_obj)  # noqa: SLF001 - its hook for this


class Context(SpawnContext):
    """Spawns processes with some variables set before they start."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__()
        self.variables = variables

    def Process(self, *args: Any, **kwargs: Any) -> Spawned:  # type: ignore[override]  # noqa: N802 - theirs
        return Spawned(self.variables, *args, **kwargs)


@contextlib.contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(eq=False)
class WarmProcess:
    """One process, between or in the middle of calculations."""

    kind: ProcessKind
    pool: ProcessPool
    pid: int
    start: str
    """When it was started, which tells it from a later process of the same number."""
    done: int = 0
    since: float = field(default_factory=time.monotonic)
    """When it was last given back."""
    cpus: tuple[int, ...] = ()
    """CPUs that it was last bound to."""

    def schedule(self, function: Callable[..., Any], *args: Any) -> ProcessFuture[Any]:
        """Have it call a function of :mod:`grafico.cluster.child`."""
        return self.pool.schedule(function, args=args)


class Processes:
    """The processes of a worker.

    Parameters
    ----------
    limit
        How many there may be, busy and idle together.
    max_tasks
        A process is replaced after so many calculations.
    variables
        The environment of a kind of process.
    guardian
        Told about each, so that nothing outlives the worker.
    before_end
        Called with the process id of one that is about to be killed.
    """

    def __init__(
        self,
        limit: int,
        max_tasks: int,
        variables: Callable[[ProcessKind], Mapping[str, str]],
        guardian: Guardian,
        before_end: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._limit = limit
        self._max_tasks = max_tasks
        self._variables = variables
        self._guardian = guardian
        self._before_end = before_end
        self._lock = threading.Lock()
        self._idle: list[WarmProcess] = []
        self._busy: set[WarmProcess] = set()
        # The kernel ends a process with the thread that started it, so threads that stay start them all.
        self._starter = ThreadPoolExecutor(min(8, limit), thread_name_prefix="grafico-starter")

    def take(self, kind: ProcessKind, memory_mib: int) -> WarmProcess:
        """Return an idle process of this kind, or start one.

        Parameters
        ----------
        kind
            What it is for.
        memory_mib
            The share of its next calculation. A process that still holds half of that from earlier ones is replaced:
            the new one would be ended for what the old ones left.

        Raises
        ------
        ChildProcessError
            It did not start, or was ended at once, several times.
        """
        surplus = None
        with self._lock:
            match = sorted((warm for warm in self._idle if warm.kind == kind), key=lambda w: w.since)
            while match:
                warm = match.pop()
                self._idle.remove(warm)
                ended = start_of(warm.pid) != warm.start  # by somebody else
                if ended or resident_mib(warm.pid) > max(FAT_MIB, memory_mib // 2):
                    self._dispose(warm)
                    continue
                self._busy.add(warm)
                return warm
            if self._idle and len(self._idle) + len(self._busy) >= self._limit:
                surplus = min(self._idle, key=lambda w: w.since)
                self._idle.remove(surplus)
        if surplus is not None:
            self._dispose(surplus)
        warm = self._starter.submit(self._start, kind).result()
        with self._lock:
            self._busy.add(warm)
        return warm

    def _start(self, kind: ProcessKind) -> WarmProcess:
        context = Context(self._variables(kind))
        for left in reversed(range(STARTS)):
            pool = ProcessPool(max_workers=1, initializer=child.begin, initargs=(os.getpid(),), context=context)
            try:
                pid = pool.schedule(child.who).result(timeout=START_S)
                self._guardian.watch(pid)
                return WarmProcess(kind, pool, pid, start_of(pid) or "")
            except Exception as error:
                pool.stop()
                pool.join()
                if not left or isinstance(error, TimeoutError):
                    raise ChildProcessError(f"a process for calculations did not start: {error}") from error
        raise AssertionError

    def give(self, warm: WarmProcess, *, healthy: bool) -> None:
        """Take a process back; one that failed or has done enough is replaced when the next is needed."""
        warm.done += 1
        keep = healthy and warm.done < self._max_tasks
        with self._lock:
            self._busy.discard(warm)
            if keep:
                warm.since = time.monotonic()
                self._idle.append(warm)
        if not keep:
            self._dispose(warm)

    def end(self, warm: WarmProcess) -> None:
        """End a process and all that it started, now."""
        self._before_end(warm.pid)
        warm.pool.stop()  # first, or the pool would start another
        kill_family(warm.pid)

    def retire_idle(self) -> None:
        """End the idle ones: what they hold of a GPU is invisible to admission."""
        with self._lock:
            idle, self._idle = self._idle, []
        for warm in idle:
            self._dispose(warm)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            everything = [*self._idle, *self._busy]
            self._idle.clear()
        for warm in everything:
            self.end(warm)
        self._starter.shutdown(wait=False)

    def _dispose(self, warm: WarmProcess) -> None:
        self.end(warm)
        threading.Thread(target=self._bury, args=(warm,), name="grafico-bury", daemon=True).start()

    def _bury(self, warm: WarmProcess) -> None:
        warm.pool.join()
        self._guardian.forget(warm.pid)

"""CPUs of its own for each calculation: which ones, and how a process is moved to them.

Without this the kernel moves the threads of twelve calculations over all CPUs of a node, and their caches with them;
and an engine that starts more threads than it was given takes the neighbors' CPUs.

A CPU that a calculation has is locked in a file on this host, like a GPU's slot: other workers and other runs of the
same user take others while there are any. Who has one holds a shared lock; it is free if an exclusive one can be had.
The locks end with the worker.
"""

import contextlib
import fcntl
import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["CpuSet", "Cpus", "bind", "own_cpus"]

TOPOLOGY = Path("/sys/devices/system/cpu")
ROUNDS = 20
"""Times that a process is looked through for threads that were started meanwhile."""


class CpuSet(NamedTuple):
    """CPUs that one calculation has."""

    cpus: tuple[int, ...]
    locks: tuple[int, ...] = ()


def own_cpus() -> tuple[int, ...]:
    """Return the CPUs that this process may use; none where the system does not tell (macOS)."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


class Cpus:
    """The CPUs that a worker gives out to its calculations.

    Parameters
    ----------
    cpus
        Their numbers.
    folder
        Where the locks are, shared with other workers of this host.
    """

    def __init__(self, cpus: Sequence[int], folder: Path) -> None:
        self._cpus = tuple(sorted(cpus, key=_place))
        self._folder = folder
        self._uses: Counter[int] = Counter()
        self._guard = threading.Lock()

    def take(self, count: int, before: Sequence[int] = ()) -> CpuSet:
        """Return as many CPUs as there are threads, free ones as far as there are any.

        Parameters
        ----------
        count
            How many; of more than there are, all.
        before
            Those that the process had last: its caches may still be warm there.
        """
        with self._guard:
            locks: dict[int, int] = {}
            for cpu in self._ranked(count, before):
                if len(locks) == count:
                    break
                if (lock := _lock(self._folder / f"cpu-{cpu}", free=True)) is not None:
                    locks[cpu] = lock
            busy = sorted((cpu for cpu in self._cpus if cpu not in locks), key=lambda cpu: self._uses[cpu])
            for cpu in busy[: max(0, count - len(locks))]:
                lock = _lock(self._folder / f"cpu-{cpu}", free=False)
                assert lock is not None
                locks[cpu] = lock
            self._uses.update(locks.keys())
            return CpuSet(tuple(sorted(locks)), tuple(locks.values()))

    def give(self, taken: CpuSet) -> None:
        """Take CPUs back."""
        with self._guard:
            self._uses.subtract(taken.cpus)
            for lock in taken.locks:
                os.close(lock)

    def _ranked(self, count: int, before: Sequence[int]) -> Iterable[int]:
        """Return all CPUs, the best first: those from before, then neighbors that are free together."""
        free = [cpu for cpu in self._cpus if not self._uses[cpu]]
        if len(before) == count and set(before) <= set(free):
            return [*before, *(cpu for cpu in free if cpu not in before)]
        for start in range(len(free) - count + 1):
            run = free[start : start + count]
            if _place(run[0])[0] == _place(run[-1])[0]:  # on one package
                return [*run, *(cpu for cpu in free if cpu not in run)]
        return free


def bind(pid: int, cpus: Iterable[int]) -> None:
    """Move a process, with all threads that it has by now, to CPUs; threads and programs that it starts follow it."""
    wanted = set(cpus)
    if not wanted or not hasattr(os, "sched_setaffinity"):
        return
    done: set[int] = set()
    for _ in range(ROUNDS):
        new = set(_threads(pid)) - done
        if not new:
            return
        for thread in new:
            # It may have ended, and a CPU may have been taken from this host (a control group's doing).
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, wanted)
        done |= new


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - plain names are enough
    except OSError:
        return []


def _place(cpu: int) -> tuple[int, int, int]:
    """Return package, core and number of a CPU, so that neighbors come together."""
    folder = TOPOLOGY / f"cpu{cpu}" / "topology"
    try:
        return (int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text()), cpu)
    except (OSError, ValueError):
        return (0, cpu, cpu)


def _lock(path: Path, *, free: bool) -> int | None:
    """Lock a CPU's file, shared; with ``free`` only if nobody else has it, else ``None``."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    if free:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            return None
    fcntl.flock(file, fcntl.LOCK_SH)  # waits no longer than another one needs for this line
    return file

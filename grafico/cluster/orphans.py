"""No process outlives the one that it works for.

Three nets, for a kill that gives nobody time to tidy up:

1. the kernel ends a child when its parent ends (``PR_SET_PDEATHSIG``), also while C code runs;
2. a thread of each process watches its parent, for systems without that call;
3. a calculation's process leads a session of its own, and a *guardian* beside each worker ends every process of those
   sessions when the worker is gone: external programs that a calculation had started are in there.

This module uses the standard library alone, because the guardian runs it as a script without grafico.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

__all__ = ["Guardian", "ProcessRow", "die_with_parent", "family", "kill_family", "process_table", "resident_mib"]

PR_SET_PDEATHSIG = 1
WATCH_S = 0.5
PROC = Path("/proc")


class ProcessRow(NamedTuple):
    """What is needed of one process."""

    parent: int
    session: int
    resident: int
    """Resident memory, bytes."""


def die_with_parent(parent: int, *, watch: bool = True) -> None:
    """See to it that this process ends when ``parent``, which started it, does.

    Parameters
    ----------
    parent
        The process id that the parent says it has: if another one is the parent by now, it is dead already.
    watch
        Have a thread watch it as well, for systems where the kernel does not; not for what another program replaces.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    if watch:
        threading.Thread(target=_watch, args=(parent,), name="grafico-parent-watch", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(WATCH_S)
    os.kill(os.getpid(), signal.SIGKILL)


def process_table() -> dict[int, ProcessRow]:
    """Return all processes that can be seen, by id; those that ended and wait to be reaped are left out."""
    if not (PROC / "self").exists():
        return _table_elsewhere()
    page = os.sysconf("SC_PAGE_SIZE")
    table = {}
    for name in os.listdir(PROC):  # noqa: PTH208 - many times a second; plain calls are twice as quick
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if fields[0] not in "ZXx":
            table[int(name)] = ProcessRow(int(fields[1]), int(fields[3]), int(fields[21]) * page)
    return table


def _table_elsewhere() -> dict[int, ProcessRow]:
    """Return the same where there is no ``/proc`` (macOS)."""
    import psutil

    table = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE:
                memory = process.memory_info().rss
                table[process.pid] = ProcessRow(process.ppid(), os.getsid(process.pid), memory)
    return table


def resident_mib(pid: int) -> int:
    """Return the resident memory of one process, MiB; 0 if it is gone."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 2**20
    except OSError:
        row = _table_elsewhere().get(pid) if not (PROC / "self").exists() else None
        return row.resident // 2**20 if row else 0


def family(leader: int, table: dict[int, ProcessRow]) -> set[int]:
    """Return the processes of a session, and all their descendants even if those opened sessions of their own."""
    members = {pid for pid, row in table.items() if leader in {pid, row.session}}
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    waiting = [leader, *members]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in members:
                members.add(child)
                waiting.append(child)
    return members


def kill_family(leader: int) -> None:
    """End a calculation's process and all that it started. Repeats until nothing new appears."""
    for _ in range(20):
        members = family(leader, process_table()) - {os.getpid()}
        if not members:
            return
        # The leader first: if a program that it waits for ended before it, it could take that for a result.
        for pid in sorted(members, key=lambda pid: pid != leader):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


class Guardian:
    """A small process that survives its worker for a moment, to end what the worker left behind.

    Parameters
    ----------
    folder
        The worker's scratch folder, removed at the end as well.
    controller
        The worker's parent. If it is gone too, nobody else removes the folder that all workers share.
    """

    def __init__(self, folder: Path, controller: int) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(folder), str(controller)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
        )

    def watch(self, leader: int) -> None:
        """Add a session to those that end with the worker."""
        self._say(f"+{leader}\n")

    def forget(self, leader: int) -> None:
        """Remove a session whose processes have ended: its number may be given out again."""
        self._say(f"-{leader}\n")

    def close(self) -> None:
        """End it; it ends what is still watched."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock, contextlib.suppress(OSError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()


def guard(folder: str, controller: int) -> None:
    """Read sessions from standard input until its writer is gone, then end them (the guardian's whole life)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    watched: set[int] = set()
    for line in sys.stdin.buffer:
        leader = int(line[1:])
        (watched.add if line[:1] == b"+" else watched.discard)(leader)
    for leader in watched:
        kill_family(leader)
    shutil.rmtree(folder, ignore_errors=True)
    if controller not in process_table():
        shutil.rmtree(os.path.dirname(folder), ignore_errors=True)  # noqa: PTH120 - as light as can be


if __name__ == "__main__":
    guard(sys.argv[1], int(sys.argv[2]))

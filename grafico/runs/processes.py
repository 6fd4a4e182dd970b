"""Who a process is, so that a number that was given out again is not taken for it."""

import os
import socket
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["ProcessId", "machine_token", "start_of", "this_process"]

PROC = Path("/proc")


class ProcessId(NamedTuple):
    """A process, for ever: host, number and when it was started."""

    host: str
    pid: int
    start: str
    """``<boot>.<namespace>.<clock ticks>``; only ever compared as a whole or part by part."""

    def alive(self) -> bool | None:
        """Whether it still runs; ``None`` if that cannot be known from here (another host or container)."""
        if self.host != host_name():
            return None
        boot, namespace, _ = split(self.start)
        here_boot, here_namespace = machine()
        if boot != here_boot:
            return False  # the host was started again since
        if namespace != here_namespace:
            return None
        return start_of(self.pid) == self.start

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


def this_process() -> ProcessId:
    """Return the identity of the calling process."""
    pid = os.getpid()
    return ProcessId(host_name(), pid, start_of(pid) or "")


def split(start: str) -> tuple[str, str, str]:
    """Return boot, namespace and ticks."""
    boot, _, rest = start.partition(".")
    namespace, _, ticks = rest.partition(".")
    return boot, namespace, ticks


@lru_cache(maxsize=1)
def host_name() -> str:
    """Return this host's name as it stands in file names."""
    name = socket.gethostname() or "localhost"
    return "".join(c if c.isalnum() or c in "-." else "-" for c in name)


@lru_cache(maxsize=1)
def machine() -> tuple[str, str]:
    """Return what tells this boot and this process namespace from others."""
    try:
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
        namespace = (PROC / "self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        import psutil

        return f"{psutil.boot_time():.0f}", "0"
    return boot, namespace


@lru_cache(maxsize=1)
def machine_token() -> str:
    """Return eight digits that stand for this boot of this host and this process namespace, in names of files."""
    return f"{zlib.crc32('.'.join((host_name(), *machine())).encode()):08x}"


def start_of(pid: int) -> str | None:
    """Return when the process of this number was started; ``None`` if there is none that runs."""
    boot, namespace = machine()
    try:
        stat = (PROC / str(pid) / "stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None if (PROC / "self").exists() else _start_elsewhere(pid, boot, namespace)
    # The command's name may hold spaces and parentheses; the fields start after the last one.
    fields = stat.rpartition(")")[2].split()
    if fields[0] in {"Z", "X", "x"}:
        return None  # ended, waiting to be reaped
    return f"{boot}.{namespace}.{fields[19]}"


def _start_elsewhere(pid: int, boot: str, namespace: str) -> str | None:
    """Return the same where there is no ``/proc`` (macOS)."""
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return f"{boot}.{namespace}.{process.create_time():.2f}"
    except psutil.Error:
        return None

"""The lock of a store: short, bounded, fair; readers together, a writer alone.

Two files are locked with ``flock``: everybody passes the turnstile first, so that a stream of readers cannot starve a
writer, and the store is opened by one process at a time (RocksDB rotates its log when it is opened).
"""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from grafico.errors import KnowledgeError

__all__ = ["DEFAULT_WAIT_S", "locked"]

DEFAULT_WAIT_S = 120.0


@contextlib.contextmanager
def locked(folder: Path, *, write: bool, wait_s: float = DEFAULT_WAIT_S) -> Iterator["Turnstile"]:
    """Hold the lock of the store in ``folder``.

    Yields
    ------
    Turnstile
        Call its ``open()`` once the store is open, so that the next reader may come.

    Raises
    ------
    KnowledgeError
        The lock was not to be had within ``wait_s`` seconds.
    """
    deadline = time.monotonic() + wait_s
    turnstile = Turnstile(_acquire(folder / "turnstile", fcntl.LOCK_EX, deadline, wait_s, write=write))
    try:
        mode = fcntl.LOCK_EX if write else fcntl.LOCK_SH
        descriptor = _acquire(folder / "lock", mode, deadline, wait_s, write=write)
        try:
            if write:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
            yield turnstile
        finally:
            os.close(descriptor)
    finally:
        turnstile.open()


class Turnstile:
    """Lets the next one in, once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def open(self) -> None:
        """Release the turnstile; harmless when done before."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open(path: Path, *, write: bool) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        # A store that may only be read can be; its lock is held for reading as well.
        if write or error.errno not in (errno.EROFS, errno.EACCES) or not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _acquire(path: Path, mode: int, deadline: float, wait_s: float, *, write: bool) -> int:
    try:
        descriptor = _open(path, write=write)
    except OSError as error:
        raise KnowledgeError(
            f"the lock file {path} cannot be opened: {error.strerror}",
            hint="set GRAFICO_KB to a folder on a local disk that you may write to",
        ) from error
    pause = 0.002
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                holder = _holder(path.with_name("lock"))
                os.close(descriptor)
                raise KnowledgeError(
                    f"the knowledge base {path.parent} has been in use for {wait_s:g} s (last writer: {holder})",
                    hint="try again; if that process hangs, end it",
                ) from error
        except OSError as error:
            os.close(descriptor)
            raise KnowledgeError(
                f"the knowledge base {path.parent} cannot be locked: {error.strerror}",
                hint="set GRAFICO_KB to a folder on a local disk",
            ) from error
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def _holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")[:200] or "unknown"
    except (OSError, UnicodeDecodeError):
        return "unknown"

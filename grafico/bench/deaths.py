"""When processes died that were killed: told by the kernel, noted in a thread of its own."""

import math
import os
import select
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

__all__ = ["Deaths"]

NOTICED_LATE_S = 0.05
"""So much later than it happened a death may be noted, where the machine is busy."""


class Deaths:
    """Watches processes until they are gone; a context manager."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._handles: dict[int, int] = {}
        self._died: dict[int, list[float]] = {}
        self._lock = threading.Lock()
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="deaths", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._thread.join()
        for handle in self._handles:
            os.close(handle)

    def watch(self, pids: Iterable[int]) -> None:
        """Note when these processes end."""
        with self._lock:
            for pid in pids:
                try:
                    handle = os.pidfd_open(pid)
                except ProcessLookupError:
                    self._died.setdefault(pid, []).append(time.time())
                    continue
                self._handles[handle] = pid
                self._poll.register(handle, select.POLLIN)

    def of(self, pid: int, after: float) -> float:
        """Return when a process died that was alive at a time, seconds since the epoch; ``inf`` if it did not."""
        with self._lock:
            later = [died for died in self._died.get(pid, []) if died >= after]
        return max(after, min(later) - NOTICED_LATE_S) if later else math.inf

    def unknown(self, pid: int) -> bool:
        """Whether nobody was ever told that a process died."""
        with self._lock:
            return pid not in self._died

    def _serve(self) -> None:
        while not self._over:
            for handle, _ in self._poll.poll(100):
                with self._lock:
                    self._died.setdefault(self._handles.pop(handle), []).append(time.time())
                    self._poll.unregister(handle)
                    os.close(handle)

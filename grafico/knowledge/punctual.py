"""Connections that end in time: a time-out of a socket starts anew with each byte, so a server that drips never meets it."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

__all__ = ["in_time", "punctual_pools"]


@contextlib.contextmanager
def in_time(connection: Any, seconds: float) -> Iterator[threading.Event]:
    """Shut a socket or a response down after some seconds; yields what tells whether that was done."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        with contextlib.suppress(Exception):
            connection.shutdown(*([socket.SHUT_RDWR] if isinstance(connection, socket.socket) else []))

    timer = threading.Timer(max(seconds, 0.001), stop)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


@cache
def punctual_pools() -> dict[str, Any]:
    """Return the kinds of connection pools of urllib3, by scheme, that keep the time until the answer's head is there."""
    from urllib3 import connection, connectionpool

    class Http(connection.HTTPConnection):
        def getresponse(self) -> Any:
            return _in_time(self, super().getresponse)

    class Https(connection.HTTPSConnection):
        def getresponse(self) -> Any:
            return _in_time(self, super().getresponse)

    class HttpPool(connectionpool.HTTPConnectionPool):
        ConnectionCls = Http

    class HttpsPool(connectionpool.HTTPSConnectionPool):
        ConnectionCls = Https

    return {"http": HttpPool, "https": HttpsPool}


def _in_time(made: Any, answer: Any) -> Any:
    with in_time(made.sock, made.timeout) as late:
        try:
            found = answer()
        except Exception:
            found = None
            if not late.is_set():
                raise
    if late.is_set():
        # A head that was cut off here looks like one that has ended.
        raise TimeoutError("the head of the answer came too slowly")
    return found

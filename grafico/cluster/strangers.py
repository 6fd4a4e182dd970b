"""Those who knock and have not shown yet who they are: anybody who reaches a port, every user of the host on loopback.

Each connection costs a file descriptor, and a process has few. So they get little room and little time: when there are
too many, the one that has knocked longest is shown out, which leaves those that have the key (a handshake takes
milliseconds) to get in. And what they try is written nowhere: a log that others can fill fills its owner's disk.
"""

import asyncio
import logging
import resource
from typing import Any

from distributed.comm import registry
from distributed.comm.tcp import TLSBackend, TLSListener

__all__ = ["Waiting", "bound_strangers", "room"]

LOG = logging.getLogger("grafico.cluster")

LEAST, MOST = 64, 512
"""Connections of strangers to one port."""

PATIENCE_S = 30.0
"""For a handshake; the owner's own may come from a host with much to do."""


def room() -> int:
    """Return how many connections strangers may hold on one port: a part of the files that the process may have open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if limit == resource.RLIM_INFINITY else max(LEAST, min(MOST, limit // 8))


class Waiting:
    """Connections to one port whose other end is not known yet, oldest first.

    Parameters
    ----------
    most
        So many at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._streams: dict[Any, None] = {}
        self._told = False

    def add(self, stream: Any) -> None:
        """Let one more wait, in place of the oldest where there is no room."""
        if len(self._streams) >= self._most:
            self._streams = {each: None for each in self._streams if not each.closed()}
        while len(self._streams) >= self._most:
            if not self._told:
                self._told = True  # once: whoever does it does it often
                LOG.warning("more than %d connections by nobody knows whom: the oldest of them are closed", self._most)
            oldest = next(iter(self._streams))
            self.known(oldest)
            oldest.close()
        self._streams[stream] = None

    def known(self, stream: Any) -> None:
        """Count out one that has shown who it is, or that has gone."""
        self._streams.pop(stream, None)


class Listener(TLSListener):  # type: ignore[misc]  # distributed has no types
    """Dask's, which waits for ever for handshakes, for any number of them, and writes a line about each that fails."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting = Waiting(room())

    async def _prepare_stream(self, stream: Any, address: str) -> Any:  # noqa: ARG002 - Dask's signature
        self._waiting.add(stream)
        try:
            await asyncio.wait_for(stream.wait_for_handshake(), PATIENCE_S)
        except (OSError, TimeoutError):
            stream.close()
            return None
        finally:
            self._waiting.known(stream)
        return stream


class Backend(TLSBackend):  # type: ignore[misc]  # distributed has no types
    """Dask's, with that listener."""

    _listener_class = Listener


def bound_strangers() -> None:
    """Have every TLS port that Dask opens in this process from now on keep strangers within bounds."""
    registry.backends["tls"] = Backend()

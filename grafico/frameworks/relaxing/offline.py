"""Keeps a library from reaching for the network while it loads a model: weights are on disk, or there are none."""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

from grafico.errors import MissingExtra

__all__ = ["without_network"]

_EVENTS = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg"})
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
"""What libraries that have their own threads for downloads heed."""


class _Closed(threading.local):
    doing = ""


_closed = _Closed()
_hooked = threading.Lock()
_hooks: list[Any] = []


def _refuse(event: str, given: tuple[Any, ...]) -> None:
    if event not in _EVENTS or not _closed.doing:
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        family = getattr(given[0], "family", None) if given else None
        if family == getattr(socket, "AF_UNIX", object()):
            return
    raise MissingExtra(
        f"{_closed.doing} tried to reach the network ({event})",
        hint="nothing is downloaded: put the weights on disk, and give their path",
    )


@contextlib.contextmanager
def without_network(doing: str) -> Iterator[None]:
    """Let this thread open no connection within the block, whatever library tries to.

    An audit hook sees the connections of all libraries in Python, `urllib`, `requests` and their kin; it stays once set,
    and refuses only here.

    Parameters
    ----------
    doing
        Subject of the error: "loading mace-mof".

    Raises
    ------
    MissingExtra
        Something tried.
    """
    with _hooked:
        if not _hooks:
            sys.addaudithook(_refuse)
            _hooks.append(_refuse)
    before, _closed.doing = _closed.doing, doing
    variables = {name: os.environ.get(name) for name in _OFFLINE}
    os.environ.update(dict.fromkeys(_OFFLINE, "1"))
    try:
        yield
    finally:
        _closed.doing = before
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""Libraries that talk: what they print, log and warn about is kept from the console, and their time is bounded."""

import contextlib
import io
import logging
import signal
import threading
import time
import types
import warnings
from collections.abc import Iterator

__all__ = ["OutOfTime", "quiet", "time_limit"]


class OutOfTime(BaseException):
    """Time is up. No ``Exception``, so that a library that catches all of those does not swallow it."""


_lock = threading.Lock()
_entered = 0
_silence = contextlib.ExitStack()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what Python code prints, logs and warns about from the console, and logging as it was.

    Console and logging belong to the process. Where several threads are quiet at once, the first one silences them and
    the last one brings them back.
    """
    global _entered  # noqa: PLW0603 - what is silenced is global too
    with _lock:
        if not _entered:
            _silence.enter_context(_silenced())
        _entered += 1
    try:
        yield
    finally:
        with _lock:
            _entered -= 1
            if not _entered:
                _silence.close()


@contextlib.contextmanager
def _silenced() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, disabled = list(root.handlers), root.level, root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            # mofstructure configures the root logger when it is imported.
            for handler in [handler for handler in root.handlers if handler not in handlers]:
                root.removeHandler(handler)
            root.setLevel(level)
            logging.disable(disabled)


AGAIN_S = 1.0
"""Seconds after which an alarm rings again."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """End the block after some seconds, where it runs in the main thread.

    That is where a worker runs calculations. In another thread, or where there are no alarms, the walltime of the
    calculation is the only bound. An alarm that was set before goes on afterwards, with the time that was left.

    Raises
    ------
    OutOfTime
        Time was up.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    running = True

    def ring(number: int, frame: types.FrameType | None) -> None:  # noqa: ARG001 - as signal.signal calls it
        if running:
            raise OutOfTime

    left, interval = signal.getitimer(signal.ITIMER_REAL)
    before, began = signal.signal(signal.SIGALRM, ring), time.monotonic()
    # It rings until it is heard: what is raised in a callback, as of the garbage collector, is lost.
    signal.setitimer(signal.ITIMER_REAL, seconds, min(AGAIN_S, max(0.1, seconds)))
    try:
        yield
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(1e-3, left - (time.monotonic() - began)), interval)

"""Writing the journal: one thread, group commit, and the fence against a controller that has been replaced.

A record that is acted on is *committed*: the caller waits until it is on disk. Others are *appended* and ride along with
the next batch, at most 10 ms later. While one batch is being written the next one gathers, so many lanes share one
``fsync``. Before a batch is acknowledged, the writer looks whether a later controller has opened a segment; the later
one fenced first and read afterwards, so what was acknowledged before is never lost, and what comes after is never acted on.
"""

import asyncio
import errno
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grafico.calculations import unfit
from grafico.errors import GraficoError, RunBroken, RunError, StaleController, UnfitRecord
from grafico.runs.files import disk_error, disk_errors, sync_folder, write_all
from grafico.runs.paths import RunPaths
from grafico.runs.segments import LOST, JournalRead, Tail, encode, frame, read_journal

__all__ = ["Journal"]

LONGEST_WAIT = 0.010
"""Seconds that an appended record may wait for company."""
MOST_WAITING = 20_000
"""Records that may wait to be written before appending waits too."""


class Journal:
    """The journal of a run, open for writing by this controller.

    Parameters
    ----------
    paths
        The run.
    who
        What the header says of this controller: host, pid, versions.
    """

    def __init__(self, paths: RunPaths, who: Mapping[str, Any]) -> None:
        self.paths = paths
        self.who = dict(who)
        self.epoch = 0
        self._handle = -1
        self._number = 0
        self._changed = threading.Condition()
        self._bodies: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._urgent = False
        self._closing = False
        self._failure: GraficoError | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> JournalRead:
        """Open the next segment, which fences off every earlier controller, and read what counts before it.

        Raises
        ------
        JournalDamaged
            A line that is neither whole nor a torn last one.
        StaleController
            A later controller opened its segment meanwhile.
        RunError
            The segment cannot be written.
        """
        if lost := self.paths.lost():
            raise RunError(lost, hint=LOST)
        with disk_errors("the journal could not be written", self.paths.journal):
            self.epoch, self._handle = self._create()
            sync_folder(self.paths.journal)
        try:
            # Only now: whatever an earlier controller acknowledged, it wrote before the fence stood.
            before = read_journal(self.paths, below=self.epoch)
            self._write([encode({"segment": self._header(before.tail)})])
        except BaseException:
            os.close(self._handle)
            self._handle = -1
            raise
        self._thread = threading.Thread(target=self._serve, name=f"journal-{self.epoch}", daemon=True)
        self._thread.start()
        return before

    def append(self, body: Mapping[str, Any]) -> None:
        """Take a record along with the next batch, without waiting.

        Raises
        ------
        RunError
            The journal cannot be written any more; says why.
        """
        line = _encode(body)
        with self._changed:
            self._check()
            self._bodies.append(line)
            if len(self._bodies) == 1:
                self._changed.notify()

    async def commit(self, body: Mapping[str, Any]) -> None:
        """Write a record and return when it cannot be lost any more.

        Raises
        ------
        StaleController
            A later controller has taken over; the record does not count.
        RunError
            It could not be written.
        """
        await self._flush([_encode(body)])

    async def flush(self) -> None:
        """Return when everything that was appended cannot be lost any more."""
        await self._flush([])

    def check_fence(self) -> None:
        """Look whether a later controller has opened a segment.

        Raises
        ------
        StaleController
            It has: nothing that others see may be changed any more.
        RunBroken
            The run's folder is not where it was; who has it now may have taken over there.
        """
        own, later = self.paths.segment(self.epoch), self.paths.segment(self.epoch + 1)
        with disk_errors("the journal cannot be read", later):
            fenced = _exists(later)
            gone = not fenced and not _exists(own)
        if fenced:
            raise StaleController(
                f"another controller has taken over the run {self.paths.name} (journal segment {self.epoch + 1}); "
                "this one stops, and nothing it does from here on counts",
                hint=f"`grafico watch {self.paths.name}` follows the other one",
            )
        if gone:
            raise RunBroken(
                f"the journal of the run {self.paths.name} is gone ({own}): the run's folder was deleted or moved while "
                "it was carried out; this controller stops",
                hint="where the folder was moved, `grafico resume NEW_PATH` goes on with it",
            )

    @property
    def tail(self) -> Tail:
        """Where the journal ends on disk, as this controller has written it."""
        path = self.paths.segment(self.epoch)
        with disk_errors("the journal cannot be read", path):
            return Tail(self.epoch, path.stat().st_size)

    @property
    def crowded(self) -> bool:
        """Whether so much waits to be written that the caller should :meth:`flush` first."""
        return len(self._bodies) > MOST_WAITING

    def close(self) -> None:
        """Write what is left and close.

        Raises
        ------
        RunError
            Something that was appended could not be written.
        """
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._thread = None
        os.close(self._handle)
        self._handle = -1
        if self._failure is not None:
            raise self._failure

    def _create(self) -> tuple[int, int]:
        epoch = max(self.paths.segments(), default=0) + 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_DSYNC
        while True:
            try:
                return epoch, os.open(self.paths.segment(epoch), flags, 0o600)
            except FileExistsError:
                epoch += 1  # another controller is starting as well; without gaps, the fence is one look

    def _header(self, tail: Tail) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "previous": tail.epoch,
            "continues": tail.size,
            "time": round(time.time(), 3),
            **self.who,
        }

    async def _flush(self, lines: list[bytes]) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._changed:
            self._check()
            self._bodies += lines
            self._waiting.append(future)
            self._urgent = True
            self._changed.notify()
        await future

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._thread is None or self._closing:
            raise RunError("the journal is closed")

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not (self._bodies or self._waiting or self._closing):
                    self._changed.wait()
                if not (self._urgent or self._closing):
                    self._changed.wait_for(lambda: self._urgent or self._closing, LONGEST_WAIT)
                bodies, self._bodies = self._bodies, []
                waiting, self._waiting = self._waiting, []
                self._urgent = False
                last = self._closing
            try:
                self._write(bodies)
            except GraficoError as error:
                self._fail(error, waiting)
                return
            except BaseException as error:  # noqa: BLE001 - nobody may wait for ever, whatever happened here
                self._fail(RunError(f"the journal's writer failed: {error!r}"), waiting)
                return
            _settle(waiting, None)
            if last:
                return

    def _fail(self, error: GraficoError, waiting: list[asyncio.Future[None]]) -> None:
        with self._changed:
            self._failure = error
            waiting += self._waiting
            self._waiting = []
            self._bodies = []
        _settle(waiting, error)

    def _write(self, bodies: list[bytes]) -> None:
        number = self._number
        data = b"".join([frame(number + i, body) for i, body in enumerate(bodies)])
        path = self.paths.segment(self.epoch)
        try:
            write_all(self._handle, data)  # O_DSYNC: durable when it returns
        except OSError as error:
            raise disk_error("the journal could not be written", path, error) from error
        self.check_fence()
        self._number = number + len(bodies)


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise
    return True


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return encode(body)
    except (TypeError, ValueError) as error:
        data = body.get("data", body)
        raise UnfitRecord(
            f"{unfit(data) or str(error)}, which cannot be written to the journal",
            hint="records hold JSON: finite numbers, strings, lists and string-keyed dicts",
        ) from error


def _settle(waiting: list[asyncio.Future[None]], error: GraficoError | None) -> None:
    """Wake those who wait: one call into each event loop, however many wait there."""
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for future in waiting:
        loops.setdefault(future.get_loop(), []).append(future)
    for loop, futures in loops.items():
        try:
            loop.call_soon_threadsafe(_resolve, futures, error)
        except RuntimeError:
            continue  # the loop is closed: nobody waits there any more


def _resolve(futures: list[asyncio.Future[None]], error: GraficoError | None) -> None:
    for future in futures:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

"""What remembers a run while it is walked: the graphs' ``Recorder``, on the journal.

``graphs/`` is not imported here. A position is kept as its text, and recalled records are built by a factory that the
caller gives (``RunRecorder(run, make_record=Record)``).
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from grafico import __version__
from grafico.calculations import ArtifactRef, Json, Success
from grafico.errors import RunError, StaleController
from grafico.runs.commit import ArtifactStore, OutcomeStore
from grafico.runs.files import disk_errors, make_folder, sweep_drafts, write_atomic
from grafico.runs.invalidate import ResumePlan, make_plan
from grafico.runs.journal import Journal
from grafico.runs.lock import RunLock
from grafico.runs.replay import Effective
from grafico.runs.run import Run, RunStatus, utc_now
from grafico.runs.segments import Tail
from grafico.runs.view import RunWatcher

__all__ = ["RunRecorder"]


class RecordLike(Protocol):
    """What is needed of a record."""

    @property
    def kind(self) -> str: ...
    @property
    def position(self) -> Any: ...
    @property
    def data(self) -> Mapping[str, Json]: ...


class RunRecorder:
    """The recorder of a run: an async context manager that holds the run while it is open.

    Parameters
    ----------
    run
        The run.
    make_record
        Called with kind, position and data to build what :meth:`recall` returns.
    take_over
        Take the run from a controller that may still be alive; that one is fenced off.

    Raises
    ------
    RunLocked
        Another controller has the run (on entering).
    JournalDamaged
        The journal cannot be read (on entering).
    """

    def __init__(
        self, run: Run, *, make_record: Callable[[str, Any, Mapping[str, Json]], Any], take_over: bool = False
    ) -> None:
        self.run = run
        self.artifacts = ArtifactStore(run.paths)
        self.outcomes = OutcomeStore(run.paths)
        self.problems: list[str] = []
        """What was found odd on opening: torn lines, what a stale controller wrote, who was passed over."""
        self._make_record = make_record
        self._take_over = take_over
        self._lock = RunLock(run.paths)
        self._journal = Journal(run.paths, {})
        self._state = Effective()
        self._tails: tuple[Tail, ...] = ()

    async def __aenter__(self) -> Self:
        passed_over = self._lock.acquire(take_over=self._take_over)
        try:
            holder = self._lock.holder
            who = {"host": holder.host, "pid": holder.pid, "grafico": __version__, "slurm_job": holder.slurm_job}
            self._journal = Journal(self.run.paths, who)
            before = self._journal.open()
            self._state = Effective(before.entries)
            self._tails = (before.tail, self._journal.tail)
            self.problems += before.problems
            if passed_over:
                self.problems.insert(0, f"took over the run: {passed_over}")
                self._journal.append(_note("taken_over", "@0.0", {"reason": passed_over}))
            if before.entries:
                await asyncio.to_thread(sweep_drafts, self.run.paths.writable())
            manifest = self.run.manifest
            self.run.update(
                status=RunStatus.RUNNING,
                started=manifest.started or utc_now(),
                finished=None,
                host=holder.host,
                grafico=__version__,
                resumed=manifest.resumed + (1 if manifest.started else 0),
            )
        except BaseException:
            self._lock.release()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._journal.close()
            if not isinstance(error, StaleController):
                await asyncio.to_thread(self._sum_up)
        except StaleController:
            if error is None:
                raise
        except RunError:
            # A journal that failed while it was walked has been reported already.
            if error is None:
                raise
        finally:
            self._lock.release()

    @property
    def epoch(self) -> int:
        """Which controller of the run this is, from 1."""
        return self._journal.epoch

    @property
    def resumed(self) -> bool:
        """Whether an earlier controller left records."""
        return bool(len(self._state))

    def recall(self, position: object, kind: str) -> Any | None:
        """Return what an earlier controller recorded at this position, unless it was invalidated."""
        fact = self._state.get(str(position), kind)
        return None if fact is None else self._make_record(kind, position, fact.data)

    def last(self, lane: str, step: int) -> int:
        """Return the highest ordinal at which an earlier controller has a record in a step, -1 if it has none."""
        return self._state.last(lane, step)

    def climbed(self, key: str) -> Mapping[str, Json] | None:
        """Return how far an earlier controller climbed the recovery ladder of a key before it was killed."""
        return self._state.climbed(key)

    async def record(self, record: RecordLike, *, durable: bool = True) -> None:
        """Remember; with ``durable``, return only after it cannot be lost.

        Raises
        ------
        StaleController
            Another controller has taken over.
        RunError
            The journal cannot be written.
        """
        body = {"time": round(time.time(), 3), "record": record.kind, "at": str(record.position), "data": record.data}
        if durable:
            await self._journal.commit(body)
        else:
            self._journal.append(body)
            if self._journal.crowded:
                await self._journal.flush()

    async def note(self, kind: str, position: object, data: Mapping[str, Json]) -> None:
        """Remember something for the story alone; never replayed."""
        self._journal.append(_note(kind, str(position), data))
        if self._journal.crowded:
            await self._journal.flush()

    def check_fence(self) -> None:
        """Look whether another controller has taken over; for whoever is about to change a file of the run.

        Raises
        ------
        StaleController
            One has.
        """
        self._journal.check_fence()

    async def flush(self) -> None:
        """Return when everything recorded so far cannot be lost any more."""
        await self._journal.flush()

    def committed(self, key: str, output_type: type[Any]) -> Success[Any] | None:
        """Return the committed outcome of a content key, wherever in the run it came from.

        One that is damaged, or refers to an artifact that is not there any more, is moved aside, and the journal says so.
        """
        known = len(self.outcomes.damaged)
        found = self.outcomes.read(key, output_type)
        for damage in self.outcomes.damaged[known:]:
            self._journal.append(_note("damaged", "@0.0", {"key": key, "reason": damage}))
        return found

    async def retire(self, key: str, why: str) -> None:
        """Set a committed outcome aside, so that it is computed anew; journalled first. Before the walk begins."""
        await self._journal.commit(_note("retired", "@0.0", {"key": key, "reason": why}))
        await asyncio.to_thread(self.outcomes.retire, key)

    async def publish(self, name: str, content: bytes | ArtifactRef) -> None:
        """Put a file under ``results/``, whole or not at all.

        Raises
        ------
        RunError
            The name would leave ``results/``; or the file cannot be written; or the artifact is damaged.
        StaleController
            Another controller has taken over.
        """
        path = self.run.paths.result(name)
        if await asyncio.to_thread(self._publish, path, content):
            await self.note("published", "@0.0", {"name": name})

    def now(self) -> str:
        """Return the current UTC time, ISO 8601."""
        return utc_now()

    def entropy(self) -> int:
        """Return 64 random bits."""
        return secrets.randbits(64)

    def plan(
        self,
        *,
        lane: str | Sequence[str] | None = None,
        from_node: str | None = None,
        keep_failures: bool = False,
        stale: Collection[str] = (),
    ) -> ResumePlan:
        """Work out what to do again, as ``plan_resume`` does, from what was read on opening."""
        return make_plan(
            self._state, self._tails[0], lane=lane, from_node=from_node, keep_failures=keep_failures, stale=stale
        )

    async def invalidate(self, plan: ResumePlan) -> None:
        """Let a plan's records no longer count; before the walk begins.

        Raises
        ------
        RunError
            The run went on since the plan was made.
        """
        if plan.tail not in self._tails:
            raise RunError(
                f"the run {self.run.name} went on since this plan was made", hint="plan again with the recorder open"
            )
        if plan.empty:
            return
        await self._journal.commit({"time": round(time.time(), 3), "invalidate": plan.body()})
        self._state.supersede(plan.supersedes)

    def _sum_up(self) -> None:
        view = RunWatcher(self.run.paths.root).view(None)
        versions = view.versions
        self._journal.check_fence()
        self.run.update(
            status=view.status,
            finished=utc_now() if view.ended else None,
            counts=view.counts.flat(),
            versions=versions,
        )

    def _publish(self, path: Path, content: bytes | ArtifactRef) -> bool:
        """Write a result unless it is there already, as it is in a replay."""
        data = content if isinstance(content, bytes) else self.artifacts.read(content)
        results = self.run.paths.results
        with disk_errors(f"the result {path.name} could not be published", path):
            make_folder(path.parent)
            # A link that somebody put under results/ must not lead a file out of it.
            if os.path.commonpath([results.resolve(), path.parent.resolve()]) != str(results.resolve()):
                raise RunError(f"cannot publish {path.name!r}: {path.parent} leads out of {results}")
            if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
                return False
            self._journal.check_fence()
            write_atomic(path, data)
        return True


def _note(kind: str, at: str, data: Mapping[str, Json]) -> dict[str, Any]:
    return {"time": round(time.time(), 3), "note": kind, "at": at, "data": data}

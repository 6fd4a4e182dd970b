"""One attempt on its way: sent to a worker, watched, found again after a break, and what came of it if it was lost."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grafico.calculations import CalculationTask, Failure, FailureKind, Outcome, load_calculation
from grafico.cluster.code import NOTHING, code_of
from grafico.cluster.execute import execute, execute_several
from grafico.cluster.link import Link
from grafico.cluster.order import Reply
from grafico.cluster.placement import Demand
from grafico.cluster.tickets import Attempt, attempt_of, ticket_name
from grafico.errors import GraficoError
from grafico.runs import OutcomeStore, RunPaths, read_starts, start_ids

__all__ = ["Sender", "Work"]

RESENDS = 3
"""A calculation that never began on workers that were lost is sent again so often, without counting as an attempt."""

CUTS = 20
"""So often it is sent again when the worker's host ended in order while it ran, with its allocation say."""

LARGEST_PARCEL = 8
LONGEST_PARCEL_S = 0.04
"""Calculations that together take no longer than this may go in one parcel."""

ENDED_BY = frozenset({signal.SIGTERM, signal.SIGKILL, signal.SIGINT})
"""Signals by which Slurm ends all of a job."""


@dataclass(eq=False)
class Work:
    """One attempt that somebody waits for."""

    task: CalculationTask
    need: Demand
    done: "asyncio.Future[Outcome[Any]]"
    waiting: int = 1
    """Lanes that share it: the same content key is calculated once."""
    worker: str = ""
    part: dict[str, int] = field(default_factory=dict)
    ticket: str = ""
    future: Any = None
    sent: int = 0
    sent_at: float = 0.0
    cuts: int = 0
    adopted: bool = False
    """Whether an earlier controller had sent it."""
    seen: set[str] = field(default_factory=set)
    """Starts of it that are accounted for."""
    dropped: bool = False
    """Whether we have cancelled it ourselves."""
    parcel: "Parcel | None" = None
    """What it was sent in together with others."""


@dataclass(eq=False)
class Parcel:
    """Short attempts of one kind that go to a worker as one Dask task, which costs about as much as one of them."""

    ticket: str
    works: list[Work]
    replies: dict[str, str] = field(default_factory=dict)
    """By ticket, once they have come."""


class Sender:
    """Sends attempts over a link and watches them.

    Parameters
    ----------
    paths
        The run.
    run
        By what it is known on the cluster.
    finished
        Called with what came of an attempt (``None``: it has to be sent again) and the seconds that it took.
    failed
        Called when the machinery is at fault.
    lasts
        Tells how many seconds a calculation of a kind is expected to take.
    """

    def __init__(
        self,
        paths: RunPaths,
        run: str,
        finished: Callable[[Work, Outcome[Any] | None, float | None], None],
        failed: Callable[[Work, Exception], None],
        lasts: Callable[[Demand], float],
    ) -> None:
        self.link: Link | None = None
        self.sent: set[Work] = set()
        self.draining = False
        self._paths = paths
        self._run = run
        self._finished = finished
        self._failed = failed
        self._lasts = lasts
        self._watches: set[asyncio.Task[None]] = set()
        self._outbox: dict[tuple[str, frozenset[tuple[str, int]], str], list[Work]] = {}
        self._earlier: frozenset[str] = frozenset()
        """Starts of which earlier controllers have written."""
        self._left: dict[Attempt, tuple[str, str]] = {}
        """What an earlier controller of the run had sent and nobody has asked for yet: ticket and worker."""

    def connect(self, link: Link, left: Mapping[str, str]) -> None:
        """Take over a link, and what the cluster still holds of the run: by ticket, the worker."""
        self.link = link
        self._earlier = frozenset(started.id for started in read_starts(self._paths))
        for ticket, worker in left.items():
            about = attempt_of(ticket)
            if about is not None:
                self._left[about] = (ticket, worker)

    def send(self, work: Work, address: str) -> None:
        """Put an attempt into the post for the worker that it was given; :meth:`post` sends it."""
        assert self.link is not None
        work.sent += 1
        work.ticket = ticket_name(work.task, self._run, work.sent)
        # Workers that were started from here find what is found here.
        code = code_of(work.task.reference) if self.link.standing else NOTHING
        place = (address, frozenset(work.part.items()), code.model_dump_json() if code else "")
        self._outbox.setdefault(place, []).append(work)

    def post(self) -> None:
        """Send what is in the post: attempts of one kind for one worker together, which costs about as much as one."""
        assert self.link is not None
        outbox, self._outbox = self._outbox, {}
        now = time.time()
        for (address, part, code), works in outbox.items():
            parcels = list(self._parcels(works))
            several = any(len(parcel) > 1 for parcel in parcels)
            tasks: list[Any] = [[work.task.model_dump_json() for work in parcel] for parcel in parcels]
            tickets = [parcel[0].ticket for parcel in parcels]
            futures = self.link.client.map(
                execute_several if several else execute,
                tickets,
                tasks if several else [task for (task,) in tasks],
                run=str(self._paths.root),
                code=code,
                key=tickets,
                workers=[address],
                allow_other_workers=False,
                resources=dict(part),
                retries=0,
                pure=False,
            )
            for parcel, future in zip(parcels, futures, strict=True):
                shared = Parcel(parcel[0].ticket, parcel) if several else None
                for work in parcel:
                    work.future, work.parcel = future, shared
                    self._begin_watch(work, now)

    def _parcels(self, works: Sequence[Work]) -> Iterator[list[Work]]:
        """Share out what goes to one worker: short ones several at a time, as long as all are soon back."""
        assert self.link is not None
        # A controller that comes later finds again what a cluster holds by its ticket, so there each keeps its own.
        seconds = LONGEST_PARCEL_S if self.link.standing else self._lasts(works[0].need)
        size = max(1, min(LARGEST_PARCEL, int(LONGEST_PARCEL_S / max(seconds, 1e-4)), (len(works) + 1) // 2))
        for start in range(0, len(works), size):
            yield list(works[start : start + size])

    def adopt(self, work: Work) -> bool:
        """Take over what an earlier controller of the run had sent: the same attempt goes on, another one ends."""
        if self.link is None or not self._left:
            return False
        about = Attempt.at(work.task)
        for other in [each for each in self._left if each.key == about.key and each != about]:
            self.drop(self.link.future(self._left.pop(other)[0]))
        found = self._left.pop(about, None)
        if found is None:
            return False
        work.ticket, work.worker = found
        work.future = self.link.future(work.ticket)
        work.sent, work.adopted = 1, True
        self._begin_watch(work, 0.0)
        return True

    def abandon(self, work: Work) -> None:
        """Have Dask forget an attempt that nobody waits for; in a parcel, once nobody waits for any of it."""
        work.dropped = True
        others = work.parcel.works if work.parcel is not None else ()
        if all(other.dropped or other not in self.sent for other in others):
            self.drop(work.future)

    def drop(self, future: Any) -> None:
        """Have Dask forget a task, also one that is kept without a controller; the worker ends the process then."""
        dropping = asyncio.ensure_future(future.cancel(force=True))
        dropping.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def end(self) -> None:
        """End what is left of an earlier controller, and wait until all that was dropped is over."""
        for ticket, _ in self._left.values():
            assert self.link is not None
            self.drop(self.link.future(ticket))
        self._left.clear()
        if self._watches:
            await asyncio.wait(self._watches, timeout=5)

    async def leave(self) -> None:
        """Stop watching; what runs goes on."""
        for watch in self._watches:
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches, timeout=5)

    def _begin_watch(self, work: Work, at: float) -> None:
        work.sent_at = at
        self.sent.add(work)
        watch = asyncio.create_task(self._watch(work), name=work.ticket)
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, work: Work) -> None:
        """Wait for one answer."""
        seconds: float | None = None
        outcome: Outcome[Any] | None = None
        try:
            while True:
                try:
                    reply = Reply.model_validate_json(await self._reply(work))
                    seconds = reply.seconds or None
                    outcome = await self._answer(work, reply)
                    break
                except (asyncio.CancelledError, Exception) as error:  # whatever Dask says of a task that it lost
                    here = asyncio.current_task()
                    if isinstance(error, GraficoError) or (here is not None and here.cancelling()):
                        raise
                    if work.waiting and not work.dropped and await self._found_again(work):
                        continue
                    outcome = await self._lost(work, error) if work.waiting else None
                    break
        except Exception as error:  # noqa: BLE001 - a fault of the machinery: the caller is told
            self._failed(work, error)
        self._end_watch(work, outcome, seconds)

    async def _reply(self, work: Work) -> str:
        """Wait until a task is done, and return what it returned: as its worker said it, or else fetched from there."""
        assert self.link is not None
        parcel = work.parcel
        await work.future._state.wait()  # noqa: SLF001 - the public way fetches the result in a message of its own
        if parcel is not None and work.ticket in parcel.replies:
            return parcel.replies[work.ticket]
        heard = self.link.heard(parcel.ticket if parcel is not None else work.ticket)
        text: str = heard if heard is not None and work.future.status == "finished" else await work.future
        if parcel is None:
            return text
        if not parcel.replies:
            parcel.replies = dict(zip((other.ticket for other in parcel.works), json.loads(text), strict=True))
        return parcel.replies[work.ticket]

    def _end_watch(self, work: Work, outcome: Outcome[Any] | None, seconds: float | None) -> None:
        if work.future is not None:
            with contextlib.suppress(RuntimeError):
                work.future.release()
            work.future = None
        self._finished(work, outcome, seconds)

    async def _found_again(self, work: Work) -> bool:
        """Whether it was only the way to the scheduler that was lost, and the task is still there.

        Raises
        ------
        GraficoError
            The cluster is gone.
        """
        assert self.link is not None
        if self.link.connected:
            return False
        tickets = await self.link.restored()
        if work.ticket not in tickets:
            return False
        work.future = self.link.future(work.ticket)
        return True

    async def _answer(self, work: Work, reply: Reply) -> Outcome[Any] | None:
        """Return the outcome of an answer; ``None`` if it is to be done again through no fault of its own."""
        failure = reply.failure
        ended = failure is not None and failure.kind is FailureKind.CRASH and failure.signal in ENDED_BY
        return None if ended and await self._cut(work) else await self._outcome(work.task, reply)

    async def _outcome(self, task: CalculationTask, reply: Reply) -> Outcome[Any] | None:
        if reply.failure is not None:
            return reply.failure
        calculation = load_calculation(task.reference)
        if reply.outcome is not None:
            return calculation.outcome_type.model_validate_json(json.dumps(reply.outcome))
        store = OutcomeStore(self._paths)
        return await asyncio.to_thread(store.read, task.key, calculation.output_type)

    async def _cut(self, work: Work) -> bool:
        """Whether a calculation ended because its worker's host did, in order: that is no fault of it."""
        assert self.link is not None
        if self.draining or work.cuts >= CUTS or not await self.link.why_gone(work.worker):
            return False
        work.cuts += 1
        work.seen |= await asyncio.to_thread(self._starts_of, work)
        return True

    async def _lost(self, work: Work, error: BaseException) -> Outcome[Any] | None:
        """Return what became of a calculation whose worker is gone: its outcome may have been committed."""
        committed = await self._outcome(work.task, Reply(key=work.task.key))
        if committed is not None:
            return committed
        if await self._cut(work):
            return None
        began = await asyncio.to_thread(self._began, work)
        if not began and work.sent - work.cuts <= RESENDS and not self.draining:
            return None
        said = f"{work.task.name}: the worker {work.worker} was lost while it ran"
        if not isinstance(error, asyncio.CancelledError):
            said += f" ({type(error).__name__}: {str(error).partition(chr(10))[0][:200]})"
        return Failure(
            kind=FailureKind.WORKER_LOST,
            message=said,
            where=work.task.name,
            details={"worker": work.worker, "error": f"{type(error).__name__}: {error}"[:500]},
        )

    def _began(self, work: Work) -> bool:
        """Whether a calculation began where it was sent last: by who wrote it down, as clocks of hosts differ."""
        known = work.seen if work.adopted else work.seen | self._earlier
        return bool(self._starts_of(work) - known)

    def _starts_of(self, work: Work) -> set[str]:
        return start_ids(self._paths, work.task.key, work.task.attempt)

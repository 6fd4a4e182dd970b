"""The controller's side of a cluster: what waits, what was sent where, and what came of it. Implements ``Compute``."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grafico.calculations import CalculationTask, Failure, FailureKind, Json, Outcome, Resources, load_calculation
from grafico.cluster.execute import execute
from grafico.cluster.fleet import PoolStatus
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.link import Link
from grafico.cluster.order import Reply
from grafico.cluster.placement import Backlog, Demand, Pending, Placed, WorkerView, demand, placed, refusal, taken
from grafico.cluster.presence import Presence
from grafico.cluster.profile import Profile
from grafico.cluster.tickets import Attempt, attempt_of, run_id, ticket_name
from grafico.errors import GraficoError
from grafico.runs import OutcomeStore, RunPaths, read_starts

__all__ = ["Cluster"]

READY_S = 120.0
LOST_S = 1.0
"""After a worker is gone, Dask says so of each of its tasks; those it forgets are given up after this."""

RESENDS = 3
"""A calculation that never began on workers that were lost is sent again so often, without counting as an attempt."""

CUTS = 20
"""So often it is sent again when the worker's host ended in order while it ran, with its allocation say."""


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
    dropped: bool = False
    """Whether we have cancelled it ourselves."""


class Cluster:
    """Workers of a profile, at a run's service. Made by :func:`grafico.cluster.open_cluster`."""

    def __init__(
        self,
        profile: Profile,
        specs: Sequence[WorkerSpec],
        run_root: Path,
        last_words: Callable[[str], str] = lambda _: "their logs say nothing",
    ) -> None:
        self.profile = profile
        self.specs = tuple(specs)
        self.report: Callable[[], Json] = dict
        """Asked for what the run says of itself, for the page; whoever walks the graph sets it."""
        self.presence = Presence(profile.name, specs, last_words)
        self.run_id = run_id(RunPaths(run_root).root)
        self._paths = RunPaths(run_root)
        self._backlog: Backlog[Work] = Backlog()
        self._works: dict[tuple[str, int], Work] = {}
        self._sent: set[Work] = set()
        self._watches: set[asyncio.Task[None]] = set()
        self._left: dict[Attempt, tuple[str, str]] = {}
        """What an earlier controller of the run had sent and nobody has asked for yet: ticket and worker."""
        self._link: Link | None = None
        self._draining = False
        self._pumping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._first = asyncio.Event()

    @property
    def dashboard_link(self) -> str | None:
        """Link to the page, with its token."""
        return self._link.dashboard_link if self._link is not None else None

    def admit(self, resources: Resources) -> None:
        """Check that some worker of the profile can ever give what is asked for.

        Raises
        ------
        ProfileError
            None can; names the nearest.
        """
        error = refusal(resources, self.specs, self.profile.name)
        if error is not None:
            raise error

    async def run(self, task: CalculationTask) -> Outcome[Any]:
        """Run one attempt and return its outcome; see ``graphs.protocols.Compute``.

        Cancelling the caller ends the calculation's process, unless another lane waits for the same one.

        Raises
        ------
        GraficoError
            The cluster is gone, or its profile gets no host that could do it.
        """
        refused = refusal(task.resources, self.specs, self.profile.name)
        if refused is not None:
            said = f"{refused.message} ({refused.hint})"
            return Failure(kind=FailureKind.REFUSED, message=said, where=task.name)
        hopeless = self.presence.hopeless(task)
        if hopeless is not None:
            return hopeless
        name = (task.key, task.attempt)
        work = self._works.get(name)
        if work is None:
            task = task.model_copy(update={"resources": placed(task.resources, self.specs)})
            need = demand(task.resources, self.specs)
            work = Work(task, need, asyncio.get_running_loop().create_future())
            self._works[name] = work
            if not self._adopt(work):
                self._backlog.add(need, work)
                self._pump_soon()
        else:
            work.waiting += 1
        try:
            return await asyncio.shield(work.done)
        except asyncio.CancelledError:
            work.waiting -= 1
            if work.waiting == 0 and not work.done.done():
                self._abandon(work)
            raise

    async def drain(self) -> None:
        """Stop starting calculations; return when those that run have ended. What waits goes on waiting."""
        self._draining = True
        await self._idle.wait()

    async def kill(self) -> None:
        """Stop starting, end all processes of calculations, and cancel whoever waits for them."""
        self._draining = True
        for work in list(self._works.values()):
            self._abandon(work)
        for ticket, _ in self._left.values():
            assert self._link is not None
            self._drop(self._link.future(ticket))
        self._left.clear()
        if self._watches:
            await asyncio.wait(self._watches, timeout=5)

    async def leave(self) -> None:
        """Stop watching without ending anything: another controller has the run, or will have."""
        self._draining = True
        for watch in self._watches:
            watch.cancel()
        if self._watches:
            await asyncio.wait(self._watches, timeout=5)

    def snapshot(self) -> list[WorkerView]:
        """Return how the workers stand, those that are there and those that were expected by name."""
        views = []
        known = {spec.name: spec for spec in self.specs} if self._link is None or not self._link.standing else {}
        stations = self._backlog.stations
        for name in sorted(known | stations):
            station = stations.get(name)
            spec = station.spec if station is not None else known[name]
            here = sorted((w for w in self._sent if w.worker == name), key=lambda w: w.sent_at)
            used = station.taken(station.first) if station is not None else 0
            views.append(
                WorkerView(
                    name=name,
                    pool=spec.pool,
                    gpu=spec.gpu,
                    alive=station is not None and station.alive,
                    busy=min(used, spec.places),
                    total=spec.places,
                    labels=tuple(work.task.label or work.task.name for work in here),
                )
            )
        return views

    def statuses(self) -> dict[str, Json]:
        """Return what the run says of itself, for the page: the source of a cluster with one controller."""
        return {self.run_id: self.report()}

    @property
    def waiting(self) -> int:
        """How many calculations have not been sent to a worker yet."""
        return len(self._backlog)

    def pending(self) -> list[Pending]:
        """Return what has not been sent yet, by kind; nothing once nothing more is started."""
        return [] if self._draining else self._backlog.pending()

    @property
    def awaited(self) -> str:
        """What keeps everything from going on, in words for people; empty if nothing does."""
        there = [station.spec for station in self._backlog.stations.values() if station.alive]
        return self.presence.awaited(self._backlog.pending(), there)

    # -- workers come and go -------------------------------------------------------------------------------------

    def connect(self, link: Link, left: Mapping[str, str] | None = None) -> None:
        """Take over a cluster that is up, and what it still holds of the run: by ticket, the worker."""
        self._link = link
        for ticket, worker in (left or {}).items():
            about = attempt_of(ticket)
            if about is not None:
                self._left[about] = (ticket, worker)
        self._pump_soon()

    async def ready(self) -> None:
        """Wait for the first worker.

        Raises
        ------
        GraficoError
            None came; says what their logs say.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), READY_S)
        if not self.presence.addresses:
            words = next(iter(self.presence.given_up.values()), "their logs say nothing")
            raise GraficoError(f"no worker of the profile {self.profile.name!r} started", hint=words)

    def worker_up(self, spec: WorkerSpec, address: str, ends_at: float | None = None) -> None:
        """Count a worker in."""
        self.presence.up(spec.name, address)
        self._backlog.up(spec, ends_at=ends_at)
        self._first.set()
        self._pump_soon()

    def worker_down(self, name: str, address: str) -> None:
        """Count a worker out; its calculations are lost, unless they were committed."""
        if not self.presence.down(name, address):
            return
        self._backlog.down(name)
        lost = [work for work in self._sent if work.worker == name]
        for work in lost:
            work.part = {}  # the station has forgotten what it had given out
        end = self._link.ending(name) if self._link is not None else None
        asyncio.get_running_loop().call_later(LOST_S, self._give_up, lost, end)

    def worker_shared(self, name: str, used: Mapping[str, int], controllers: int) -> None:
        """Take note of what other controllers hold on a worker; never more than leaves us our share of it."""
        station = self._backlog.stations.get(name)
        if station is None or not station.alive:
            return
        ours = {key: amount // max(1, controllers) for key, amount in station.capacity.items()}
        counted = {key: min(amount, station.capacity.get(key, 0) - ours.get(key, 0)) for key, amount in used.items()}
        if counted != station.elsewhere:
            self._backlog.elsewhere(name, counted)
            self._pump_soon()

    def worker_given_up(self, name: str, words: str = "") -> None:
        """Take note that a worker dies whenever it is started; what only it could do has failed."""
        if name in self.presence.given_up:
            return
        self.presence.give_up(name, words)
        if self.presence.none_starts:
            self._first.set()
        self._hopeless_now()

    def pools(self, statuses: Sequence[PoolStatus]) -> None:
        """Take note of how the pools of hosts stand."""
        before = {pool.pool for pool in self.presence.pools if pool.hopeless}
        self.presence.pools = tuple(statuses)
        if {pool.pool for pool in statuses if pool.hopeless} != before:
            self._hopeless_now()

    def gone(self, error: GraficoError) -> None:
        """Take note that the cluster itself is gone: whoever waits is told."""
        self._draining = True
        for work in list(self._works.values()):
            self._fail(work, error)
        self._idle.set()

    def _hopeless_now(self) -> None:
        for work in list(self._works.values()):
            if work in self._sent:
                continue
            try:
                hopeless = self.presence.hopeless(work.task)
            except GraficoError as error:
                self._backlog.remove(work.need, work)
                self._fail(work, error)
                continue
            if hopeless is not None:
                self._backlog.remove(work.need, work)
                self._settle(work, hopeless)

    # -- calculations come and go --------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._draining or self._link is None or not self._link.connected:
            return
        for found in self._backlog.place():
            self._send(found)
        if len(self._backlog):
            self._link.nudge()

    def _send(self, placed: Placed[Work]) -> None:
        work = placed.item
        work.worker, work.part = placed.worker, placed.part
        work.sent += 1
        assert self._link is not None
        work.ticket = ticket_name(work.task, self.run_id, work.sent)
        work.future = self._link.client.submit(
            execute,
            work.ticket,
            work.task.model_dump_json(),
            str(self._paths.root),
            key=work.ticket,
            workers=[self.presence.addresses[placed.worker]],
            allow_other_workers=False,
            resources=placed.part,
            retries=0,
            pure=False,
        )
        self._begin_watch(work, time.time())

    def _adopt(self, work: Work) -> bool:
        """Take over what an earlier controller of the run had sent: the same attempt goes on, another one ends."""
        about = Attempt.at(work.task)
        if self._link is None or not self._left:
            return False
        for other in [each for each in self._left if each.key == about.key and each != about]:
            self._drop(self._link.future(self._left.pop(other)[0]))
        found = self._left.pop(about, None)
        if found is None:
            return False
        work.ticket, work.worker = found
        work.future = self._link.future(work.ticket)
        station = self._backlog.stations.get(work.worker)
        part = taken(work.need, station.spec) if station is not None and station.alive else None
        if part is not None:
            work.part = part
            self._backlog.occupy(work.worker, part, work.need)
        work.sent = 1
        self._begin_watch(work, 0.0)
        return True

    def _begin_watch(self, work: Work, at: float) -> None:
        work.sent_at = at
        self._sent.add(work)
        self._idle.clear()
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
                    reply = Reply.model_validate_json(await work.future)
                    seconds = reply.seconds or None
                    outcome = await self._outcome(work.task, reply)
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
            self._fail(work, error)
        self._finish(work, outcome, seconds)

    async def _found_again(self, work: Work) -> bool:
        """Whether it was only the way to the scheduler that was lost, and the task is still there.

        Raises
        ------
        GraficoError
            The cluster is gone.
        """
        assert self._link is not None
        if self._link.connected:
            return False
        tickets = await self._link.restored()
        if work.ticket not in tickets:
            return False
        work.future = self._link.future(work.ticket)
        return True

    async def _outcome(self, task: CalculationTask, reply: Reply) -> Outcome[Any] | None:
        if reply.failure is not None:
            return reply.failure
        calculation = load_calculation(task.reference)
        if reply.outcome is not None:
            return calculation.outcome_type.model_validate_json(json.dumps(reply.outcome))
        store = OutcomeStore(self._paths)
        return await asyncio.to_thread(store.read, task.key, calculation.output_type)

    async def _lost(self, work: Work, error: BaseException) -> Outcome[Any] | None:
        """Return what became of a calculation whose worker is gone: its outcome may have been committed."""
        committed = await self._outcome(work.task, Reply(key=work.task.key))
        if committed is not None:
            return committed
        assert self._link is not None
        if not self._draining:
            if await self._link.why_gone(work.worker) and work.cuts < CUTS:
                work.cuts += 1
                return None
            began = await asyncio.to_thread(self._began, work)
            if not began and work.sent - work.cuts <= RESENDS:
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
        task = work.task
        return any(
            s.key == task.key and s.attempt == task.attempt and s.started >= work.sent_at - 0.001
            for s in read_starts(self._paths)
        )

    def _finish(self, work: Work, outcome: Outcome[Any] | None, seconds: float | None) -> None:
        if work in self._sent:
            self._sent.discard(work)
            if work.part:
                self._backlog.done(work.worker, work.part, work.need, seconds)
        if work.future is not None:
            work.future.release()
            work.future = None
        if not self._sent:
            self._idle.set()
        if outcome is not None:
            self._settle(work, outcome)
        elif not work.done.done() and work.waiting > 0:
            try:
                hopeless = self.presence.hopeless(work.task)
            except GraficoError as error:
                self._fail(work, error)
                hopeless = None
            if hopeless is not None:
                self._settle(work, hopeless)
            elif not work.done.done():
                self._backlog.add(work.need, work)
        self._pump_soon()

    def _settle(self, work: Work, outcome: Outcome[Any]) -> None:
        self._works.pop((work.task.key, work.task.attempt), None)
        if not work.done.done():
            work.done.set_result(outcome)

    def _fail(self, work: Work, error: Exception) -> None:
        self._works.pop((work.task.key, work.task.attempt), None)
        if not work.done.done():
            work.done.set_exception(error)

    def _abandon(self, work: Work) -> None:
        """Nobody waits for it any more: take it out, or end its process."""
        self._works.pop((work.task.key, work.task.attempt), None)
        self._backlog.remove(work.need, work)
        work.waiting = 0
        work.done.cancel()
        if work.future is not None:
            work.dropped = True
            self._drop(work.future)

    def _give_up(self, lost: Sequence[Work], end: Callable[[], None] | None) -> None:
        if end is not None:
            end()  # Dask has lost it although its process is there: stopped, say
        for work in lost:
            if work in self._sent and not work.part and work.future is not None and not work.future.done():
                self._drop(work.future)

    def _drop(self, future: Any) -> None:
        """Have Dask forget a task, also one that is kept without a controller; the worker ends the process then."""
        dropping = asyncio.ensure_future(future.cancel(force=True))
        dropping.add_done_callback(lambda done: done.cancelled() or done.exception())

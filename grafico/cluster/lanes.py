"""The controller's side of a cluster: what waits, who may do it, and what came of it. Implements ``Compute``."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grafico.calculations import CalculationTask, Failure, FailureKind, Json, Outcome, Resources
from grafico.cluster.fleet import PoolStatus
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.link import Link
from grafico.cluster.placement import Backlog, Pending, WorkerView, demand, placed, refusal, taken
from grafico.cluster.presence import Presence
from grafico.cluster.profile import Profile
from grafico.cluster.sending import Sender, Work
from grafico.cluster.tickets import run_id
from grafico.errors import GraficoError
from grafico.runs import RunPaths

__all__ = ["Cluster"]

READY_S = 120.0
TOGETHER_S = 0.005
"""What becomes ready within this goes out together; a message costs more than what is in it."""

LATE_S = 0.03
"""The same while every worker has all that it can run, and more waiting there."""

LOST_S = 1.0
"""After a worker is gone, Dask says so of each of its tasks; those it forgets are given up after this."""


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
        paths = RunPaths(run_root)
        self.run_id = run_id(paths.root)
        self._backlog: Backlog[Work] = Backlog()
        self._works: dict[tuple[str, int], Work] = {}
        self._sender = Sender(paths, self.run_id, self._finish, self._fail, self._backlog.lasts)
        self._pumping: asyncio.TimerHandle | None = None
        self._pumping_late = False
        self._pumped = 0.0
        self._idle = asyncio.Event()
        self._idle.set()
        self._first = asyncio.Event()

    @property
    def _link(self) -> Link | None:
        return self._sender.link

    @property
    def _draining(self) -> bool:
        return self._sender.draining

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
            if self._sender.adopt(work):
                self._occupy(work)
            else:
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
        self._sender.draining = True
        await self._idle.wait()

    async def kill(self) -> None:
        """Stop starting, end all processes of calculations, and cancel whoever waits for them."""
        self._sender.draining = True
        for work in list(self._works.values()):
            self._abandon(work)
        await self._sender.end()

    async def leave(self) -> None:
        """Stop watching without ending anything: another controller has the run, or will have."""
        self._sender.draining = True
        await self._sender.leave()

    def snapshot(self) -> list[WorkerView]:
        """Return how the workers stand, those that are there and those that were expected by name."""
        views = []
        known = {spec.name: spec for spec in self.specs} if self._link is None or not self._link.standing else {}
        stations = self._backlog.stations
        for name in sorted(known | stations):
            station = stations.get(name)
            spec = station.spec if station is not None else known[name]
            here = sorted((w for w in self._sender.sent if w.worker == name), key=lambda w: w.sent_at)
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

    def crowded(self) -> int:
        """Return how many calculations wait while some worker, or one that would come, has nothing to do; see ``run_graph``."""
        if self._draining:
            return 0
        there = {each.spec.pool for each in self._backlog.stations.values() if each.alive}
        never = {pool.pool for pool in self.presence.pools if pool.hopeless}
        return self._backlog.crowded([spec for spec in self.specs if spec.pool not in there | never])

    @property
    def awaited(self) -> str:
        """What keeps everything from going on, in words for people; empty if nothing does."""
        now = time.time()
        there = [(each.spec, each.ends_at - now) for each in self._backlog.stations.values() if each.alive]
        return self.presence.awaited(self._backlog.pending(), there)

    # -- workers come and go -------------------------------------------------------------------------------------

    def connect(self, link: Link, left: Mapping[str, str] | None = None) -> None:
        """Take over a cluster that is up, and what it still holds of the run: by ticket, the worker."""
        self._sender.connect(link, left or {})
        self._mind_who_comes()
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
        self._mind_who_comes()
        self._first.set()
        self._pump_soon()

    def worker_down(self, name: str, address: str) -> None:
        """Count a worker out; its calculations are lost, unless they were committed."""
        if not self.presence.down(name, address):
            return
        self._backlog.down(name)
        lost = [work for work in self._sender.sent if work.worker == name]
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
        self._mind_who_comes()
        if self.presence.none_starts:
            self._first.set()
        self._hopeless_now()

    def pools(self, statuses: Sequence[PoolStatus]) -> None:
        """Take note of how the pools of hosts stand."""
        before = {(pool.pool, pool.hopeless, pool.life_s) for pool in self.presence.pools}
        self.presence.pools = tuple(statuses)
        if {(pool.pool, pool.hopeless, pool.life_s) for pool in statuses} != before:
            self._hopeless_now()

    def go_on(self) -> None:
        """Take note that the scheduler can be reached again."""
        self._pump_soon()

    def gone(self, error: GraficoError) -> None:
        """Take note that the cluster itself is gone: whoever waits is told."""
        self._sender.draining = True
        for work in list(self._works.values()):
            self._fail(work, error)
        self._idle.set()

    def _mind_who_comes(self) -> None:
        """Have workers of our own waited for, those that are only starting too, before what other runs have."""
        if self._link is not None and self._link.standing:
            self._backlog.claims = "any"  # its scheduler has one line for all
        else:
            there = self.presence.addresses.keys() | self.presence.given_up.keys()
            self._backlog.claims = "last" if all(spec.name in there for spec in self.specs) else "none"

    def _hopeless_now(self) -> None:
        for work in list(self._works.values()):
            if work in self._sender.sent:
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
        """Send what is ready: at once where a worker has room; while all have enough for a moment, some together."""
        loop = asyncio.get_running_loop()
        if self._pumping is not None and not self._pumping_late:
            return
        late = not any(
            station.alive and station.taken(station.first) < station.capacity[station.first]
            for station in self._backlog.stations.values()
        )
        if self._pumping is not None:
            if late:
                return
            self._pumping.cancel()
        self._pumping_late = late
        self._pumping = loop.call_at(self._pumped + (LATE_S if late else TOGETHER_S), self._pump)

    def _pump(self) -> None:
        self._pumping = None
        self._pumped = asyncio.get_running_loop().time()
        if self._draining or self._link is None or not self._link.connected:
            return
        for found in self._backlog.place():
            work = found.item
            work.worker, work.part = found.worker, found.part
            self._idle.clear()
            self._sender.send(work, self.presence.addresses[found.worker])
        self._sender.post()
        if self._backlog.again_s is not None:
            asyncio.get_running_loop().call_later(self._backlog.again_s, self._pump_soon)
        if len(self._backlog):
            self._link.nudge()

    def _occupy(self, work: Work) -> None:
        """Count in what runs already, sent by an earlier controller of the run."""
        self._idle.clear()
        station = self._backlog.stations.get(work.worker)
        part = taken(work.need, station.spec) if station is not None and station.alive else None
        if part is not None:
            work.part = part
            self._backlog.occupy(work.worker, part, work.need)

    def _finish(self, work: Work, outcome: Outcome[Any] | None, seconds: float | None) -> None:
        self._sender.sent.discard(work)
        if work.part:
            self._backlog.done(work.worker, work.part, work.need, seconds)
        if not self._sender.sent:
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
            self._sender.abandon(work)

    def _give_up(self, lost: Sequence[Work], end: Callable[[], None] | None) -> None:
        if end is not None:
            end()  # Dask has lost it although its process is there: stopped, say
        for work in lost:
            if work in self._sender.sent and not work.part and work.future is not None and not work.future.done():
                self._sender.drop(work.future)

"""The controller's side of a cluster: what waits, what was sent where, and what came of it. Implements ``Compute``."""

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grafico.calculations import CalculationTask, Failure, FailureKind, Json, Outcome, Resources, load_calculation
from grafico.cluster.dask_cluster import Running
from grafico.cluster.execute import execute
from grafico.cluster.launch import LocalWorker
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.order import Reply
from grafico.cluster.placement import Backlog, Demand, Placed, WorkerView, demand, placed, refusal
from grafico.cluster.profile import Profile
from grafico.errors import GraficoError
from grafico.runs import OutcomeStore, RunPaths, read_starts

__all__ = ["Cluster", "ticket_name"]

READY_S = 120.0
LOST_S = 1.0
"""After a worker is gone, Dask says so of each of its tasks; those it forgets are given up after this."""

RESENDS = 3
"""A calculation that never began on workers that were lost is sent again so often, without counting as an attempt."""


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
    future: Any = None
    sent: int = 0
    sent_at: float = 0.0


class Cluster:
    """Workers of a profile, at a run's service. Made by :func:`grafico.cluster.open_cluster`."""

    def __init__(self, profile: Profile, specs: Sequence[WorkerSpec], run_root: Path, scratch: Path) -> None:
        self.profile = profile
        self.specs = tuple(specs)
        self.dashboard_link: str | None = None
        self.report: Callable[[], Json] = dict
        """Asked for what the run says of itself, for the page; whoever walks the graph sets it."""
        self._paths = RunPaths(run_root)
        self._scratch = scratch
        self._run_id = hashlib.sha256(str(self._paths.root).encode()).hexdigest()[:8]
        self._backlog: Backlog[Work] = Backlog(specs)
        self._addresses: dict[str, str] = {}
        self._works: dict[tuple[str, int], Work] = {}
        self._sent: set[Work] = set()
        self._watches: set[asyncio.Task[None]] = set()
        self._client: Any = None
        self._workers: dict[str, LocalWorker] = {}
        self._draining = False
        self._pumping = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._first = asyncio.Event()
        self._given_up: set[str] = set()

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
        """
        refused = refusal(task.resources, self.specs, self.profile.name)
        if refused is not None:
            said = f"{refused.message} ({refused.hint})"
            return Failure(kind=FailureKind.REFUSED, message=said, where=task.name)
        hopeless = self._hopeless(task)
        if hopeless is not None:
            return hopeless
        name = (task.key, task.attempt)
        work = self._works.get(name)
        if work is None:
            task = task.model_copy(update={"resources": placed(task.resources, self.specs)})
            need = demand(task.resources, self.specs)
            work = Work(task, need, asyncio.get_running_loop().create_future())
            self._works[name] = work
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
        if self._watches:
            await asyncio.wait(self._watches, timeout=5)

    def snapshot(self) -> list[WorkerView]:
        """Return how the workers stand."""
        views = []
        for spec in self.specs:
            station = self._backlog.stations[spec.name]
            here = sorted((w for w in self._sent if w.worker == spec.name), key=lambda w: w.sent_at)
            used = station.used.get("slot" if spec.is_gpu else "cpu", 0)
            views.append(
                WorkerView(
                    name=spec.name,
                    pool=spec.pool,
                    gpu=spec.gpu,
                    alive=station.alive,
                    busy=min(used, spec.places),
                    total=spec.places,
                    labels=tuple(work.task.label or work.task.name for work in here),
                )
            )
        return views

    def statuses(self) -> dict[str, Json]:
        """Return what the run says of itself, for the page: the source of a cluster with one controller."""
        return {self._run_id: self.report()}

    @property
    def waiting(self) -> int:
        """How many calculations have not been sent to a worker yet."""
        return len(self._backlog)

    # -- workers come and go -------------------------------------------------------------------------------------

    def connect(self, running: Running) -> None:
        """Take over a cluster that has been started."""
        self._client = running.client
        self.dashboard_link = running.dashboard_link
        self._workers = running.workers
        for name in self._addresses:
            self._workers[name].came_up = True
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
        if not self._addresses:
            raise GraficoError(f"no worker of the profile {self.profile.name!r} started", hint=self._last_words())

    def worker_up(self, name: str, address: str) -> None:
        """Count a worker in."""
        self._addresses[name] = address
        if name in self._workers:
            self._workers[name].came_up = True
        self._backlog.up(next(spec for spec in self.specs if spec.name == name))
        self._first.set()
        self._pump_soon()

    def worker_down(self, name: str, address: str) -> None:
        """Count a worker out; its calculations are lost, unless they were committed."""
        if self._addresses.get(name) != address:
            return
        del self._addresses[name]
        self._backlog.down(name)
        lost = [work for work in self._sent if work.worker == name]
        for work in lost:
            work.part = {}  # the station has forgotten what it had given out
        keeper = self._workers.get(name)
        process = keeper.process if keeper is not None and keeper.came_up else None
        asyncio.get_running_loop().call_later(LOST_S, self._give_up, lost, process)

    def worker_given_up(self, name: str) -> None:
        """Take note that a worker dies whenever it is started; what only it could do has failed."""
        self._given_up.add(name)
        if len(self._given_up) == len(self.specs):
            self._first.set()
        for work in list(self._works.values()):
            if work not in self._sent and (hopeless := self._hopeless(work.task)) is not None:
                self._backlog.remove(work.need, work)
                self._settle(work, hopeless)

    def _hopeless(self, task: CalculationTask) -> Failure | None:
        """Return the failure of what only workers could do that do not start."""
        left = [spec for spec in self.specs if spec.name not in self._given_up]
        if len(left) == len(self.specs) or (left and refusal(task.resources, left, self.profile.name) is None):
            return None
        message = f"{task.name}: the workers that could run it do not start: {self._last_words()}"
        return Failure(kind=FailureKind.WORKER_LOST, message=message, where=task.name)

    def _last_words(self) -> str:
        for log in sorted(self._scratch.glob("*.log")):
            lines = log.read_text(errors="replace").strip().splitlines()
            if lines:
                return f"the log of {log.stem} ends: {lines[-1][:500]}"
        return "their logs say nothing"

    # -- calculations come and go --------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._draining or self._client is None:
            return
        for found in self._backlog.place():
            self._send(found)

    def _send(self, placed: Placed[Work]) -> None:
        work = placed.item
        work.worker, work.part = placed.worker, placed.part
        work.sent += 1
        work.sent_at = time.time()
        ticket = ticket_name(work.task, self._run_id, work.sent)
        self._sent.add(work)
        self._idle.clear()
        work.future = self._client.submit(
            execute,
            ticket,
            work.task.model_dump_json(),
            str(self._paths.root),
            key=ticket,
            workers=[self._addresses[placed.worker]],
            allow_other_workers=False,
            resources=placed.part,
            retries=0,
            pure=False,
        )
        watch = asyncio.create_task(self._watch(work), name=ticket)
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, work: Work) -> None:
        """Wait for one answer."""
        seconds: float | None = None
        outcome: Outcome[Any] | None = None
        try:
            try:
                reply = Reply.model_validate_json(await work.future)
                seconds = reply.seconds or None
                outcome = await self._outcome(work.task, reply)
            except (asyncio.CancelledError, Exception) as error:  # whatever Dask says of a task that it lost
                here = asyncio.current_task()
                if isinstance(error, GraficoError) or (here is not None and here.cancelling()):
                    raise
                outcome = await self._lost(work, error) if work.waiting else None
        except Exception as error:  # noqa: BLE001 - a fault of the machinery: the caller is told
            self._works.pop((work.task.key, work.task.attempt), None)
            if not work.done.done():
                work.done.set_exception(error)
        self._finish(work, outcome, seconds)

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
        began = await asyncio.to_thread(self._began, work)
        if not began and work.sent <= RESENDS and not self._draining:
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
            hopeless = self._hopeless(work.task)
            if hopeless is not None:
                self._settle(work, hopeless)
            else:
                self._backlog.add(work.need, work)
        self._pump_soon()

    def _settle(self, work: Work, outcome: Outcome[Any]) -> None:
        self._works.pop((work.task.key, work.task.attempt), None)
        if not work.done.done():
            work.done.set_result(outcome)

    def _abandon(self, work: Work) -> None:
        """Nobody waits for it any more: take it out, or end its process."""
        self._works.pop((work.task.key, work.task.attempt), None)
        self._backlog.remove(work.need, work)
        work.waiting = 0
        work.done.cancel()
        if work.future is not None:
            self._cancel(work)

    def _give_up(self, lost: Sequence[Work], process: "asyncio.subprocess.Process | None") -> None:
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()  # Dask has lost it although it is there: stopped, say
        for work in lost:
            if work in self._sent and not work.part and work.future is not None and not work.future.done():
                self._cancel(work)

    @staticmethod
    def _cancel(work: Work) -> None:
        """Have Dask forget its task; the worker ends the process then."""
        cancelling = asyncio.ensure_future(work.future.cancel())
        cancelling.add_done_callback(lambda done: done.cancelled() or done.exception())


def ticket_name(task: CalculationTask, run_id: str, sent: int) -> str:
    """Return the Dask key of a task: what people read first, then what makes it unique.

    Dask groups keys by what stands before the first word that is not made of letters: the calculation's name.
    """
    kind, _, rest = (task.label or task.name).partition(" · ")
    kind = "".join(c if c.isalnum() else "_" for c in kind).strip("_") or "calculation"
    people = f"· {rest.replace('-', '_')}-" if rest else ""
    return f"{kind}-{people}{task.key[:16]}.{task.attempt}.{sent}-{run_id}"

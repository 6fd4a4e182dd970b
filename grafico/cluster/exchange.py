"""What a standing cluster's scheduler knows of its controllers and tells them: who wants what, who holds what, who is there.

Lives in the scheduler as a plugin. Controllers call it about once a second; the server reads from it what its fleet has
to know. Everything that travels is JSON.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributed import SchedulerPlugin

from grafico.calculations import Json
from grafico.cluster.fleet import HostView, PoolStatus
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import Demand, Pending, taken
from grafico.cluster.tickets import run_of

__all__ = ["Controller", "Exchange"]

KEPT_UNWATCHED = "fire-and-forget"
"""Dask's name for the client that wants a task although its controller is gone."""

REMEMBERED_S = 900.0
"""How long it is remembered why a worker went."""


@dataclass
class Controller:
    """A process that carries out a run on this cluster."""

    client: str
    run: str
    who: Mapping[str, Json]
    """``run``, ``folder``, ``host``, ``pid``, for people."""
    since: float
    heard: float
    pending: tuple[Pending, ...] = ()
    status: Json = field(default_factory=dict)
    told: bool = False
    """Whether it knows that the cluster ends."""


class Exchange(SchedulerPlugin):  # type: ignore[misc]  # distributed has no types
    """The scheduler's side of controllers, hosts and whoever asks.

    Parameters
    ----------
    about
        What a controller is told when it joins: the cluster's id, name and versions.
    expected
        The workers that the profile means, to know which pool could do what.
    stop
        Called with a reason when the cluster is told to end.
    """

    name = "grafico-exchange"

    def __init__(self, about: Mapping[str, Json], expected: Sequence[WorkerSpec], stop: Callable[[str], None]) -> None:
        self._about = dict(about)
        self._expected = tuple(expected)
        self._stop = stop
        self._scheduler: Any = None
        self._controllers: dict[str, Controller] = {}
        self._gone: dict[str, tuple[str, float]] = {}
        self._ending: dict[str, str] = {}
        self._given_up: dict[str, str] = {}
        self._pool_of: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._busy_at: dict[tuple[str, str], float] = {}
        self._left_at = time.monotonic()
        self.pools: tuple[PoolStatus, ...] = ()
        """How the fleet says that its pools stand; the server keeps it fresh."""
        self.stopping = ""
        """Why the cluster ends, once it does."""
        self.news = asyncio.Event()
        """Set when something happened that the fleet should look at before its next turn."""

    # -- Dask's hooks ----------------------------------------------------------------------------------------------

    async def start(self, scheduler: Any) -> None:
        """Offer the calls."""
        self._scheduler = scheduler
        for call in (self.join, self.exchange, self.cancel_run, self.host, self.ending, self.status, self.stop):
            scheduler.handlers[f"grafico_{call.__name__}"] = call

    def update_graph(self, scheduler: Any, *, client: str, keys: Iterable[str], **_: Any) -> None:  # noqa: ARG002
        """Keep what a controller sends, also when the controller is gone."""
        scheduler.client_desires_keys(list(keys), KEPT_UNWATCHED)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """See a worker come."""
        name = self._names[worker] = str(scheduler.workers[worker].name)
        self._gone.pop(name, None)
        self._given_up.pop(name, None)
        self._ending.pop(name, None)
        self.news.set()

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:  # noqa: ARG002
        """See a worker go; remember why, if its host had said so."""
        name = self._names.pop(worker, "")
        if name in self._ending:
            self._gone[name] = (self._ending.pop(name), time.monotonic())
        self._forget()
        self.news.set()

    def remove_client(self, scheduler: Any, client: str) -> None:  # noqa: ARG002
        """See a controller go."""
        if self._controllers.pop(client, None) is not None:
            self._left_at = time.monotonic()
            self.news.set()

    # -- what controllers call -------------------------------------------------------------------------------------

    async def join(self, client: str, run: str, who: Mapping[str, Json]) -> dict[str, Json]:
        """Count a controller in; give it what is still there of its run."""
        now = time.monotonic()
        before = self._controllers.get(client)
        self._controllers[client] = Controller(client, run, who, before.since if before else now, now)
        live = [ts for ts in self._scheduler.tasks.values() if run_of(ts.key) == run and ts.run_spec is not None]
        # Wanted from now on, so that what ends before the answer arrives is not thrown away.
        self._scheduler.client_desires_keys([ts.key for ts in live], client)
        tickets = {ts.key: self._worker_of(ts) for ts in live}
        return {**self._about, "tickets": tickets, "stopping": self.stopping}

    async def exchange(
        self, client: str, run: str, pending: Sequence[Mapping[str, Any]], status: Json
    ) -> dict[str, Json]:
        """Hear what waits at a controller; tell it who is there and what others hold."""
        controller = self._controllers.get(client)
        if controller is None or controller.run != run:
            return {"unknown": True}
        waits = tuple(Pending.model_validate(each) for each in pending)
        if bool(waits) != bool(controller.pending):
            self.news.set()
        controller.told = bool(self.stopping)
        controller.pending, controller.status, controller.heard = waits, status, time.monotonic()
        self._forget()
        return {
            "workers": [self._view(state, client) for state in self._scheduler.workers.values() if _about(state)],
            "pools": [pool.model_dump(mode="json") for pool in self.pools],
            "given_up": dict(self._given_up),
            "gone": {name: why for name, (why, _) in self._gone.items()} | self._ending,
            "controllers": sum(bool(c.pending) or self._holds(c) for c in self._controllers.values()),
            "stopping": self.stopping,
        }

    async def cancel_run(self, run: str) -> int:
        """End all that is left here of a run that has gone elsewhere; returns how many tasks."""
        keys = [key for key in self._scheduler.tasks if run_of(key) == run]
        for key in keys:
            for owner in list(self._scheduler.tasks[key].who_wants or ()):
                self._scheduler.client_releases_keys([key], owner.client_key)
        return len(keys)

    # -- what hosts call -------------------------------------------------------------------------------------------

    async def host(self, label: str, workers: Mapping[str, str], given_up: Mapping[str, str]) -> dict[str, Json]:  # noqa: ARG002
        """Hear from a host of its workers and their pools, and of those that do not start (with their last words)."""
        for name, words in given_up.items():
            if name not in self._given_up:
                self.news.set()
            self._given_up[name] = words
            self._pool_of[name] = workers[name]
        return {"known": [name for name in workers if name in self._scheduler.aliases], "stopping": self.stopping}

    async def ending(self, workers: Sequence[str], reason: str) -> None:
        """Hear that workers will go in a moment, in order: what they run has to be done again, through no fault of it."""
        for name in workers:
            self._ending[name] = reason
            if name not in self._scheduler.aliases:
                self._gone[name] = (self._ending.pop(name), time.monotonic())

    # -- what people call ------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Json]:
        """Return how all of it stands."""
        views = [self._view(state, "") for state in self._scheduler.workers.values() if _about(state)]
        return {
            **self._about,
            "workers": views,
            "pools": [pool.model_dump(mode="json") for pool in self.pools],
            "given_up": dict(self._given_up),
            "controllers": self._who(),
            "left": dict(self._left()),
            "stopping": self.stopping,
        }

    async def stop(self, reason: str, force: bool) -> dict[str, Json]:
        """End the cluster, unless runs are on it and nobody insists."""
        controllers, left = self._who(), self._left()
        if (controllers or left) and not force:
            return {"stopping": "", "controllers": controllers, "left": dict(left)}
        self.stopping = reason
        self._stop(reason)
        return {"stopping": reason, "controllers": controllers, "left": dict(left)}

    def statuses(self) -> dict[str, Json]:
        """Return what each run says of itself; see ``dashboard.StatusSource``."""
        return {controller.run: controller.status for controller in self._controllers.values()}

    # -- what the server reads -------------------------------------------------------------------------------------

    async def tell(self, seconds: float) -> None:
        """Wait until all controllers have asked, and know that the cluster ends."""
        deadline = time.monotonic() + seconds
        # Each asks about once a second.
        while not all(c.told for c in self._controllers.values()) and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    def idle_s(self) -> float:
        """Return for how many seconds there has been neither a controller nor anything that runs."""
        if self._controllers or any(state.processing for state in self._scheduler.workers.values()):
            self._left_at = time.monotonic()
        return time.monotonic() - self._left_at

    def given_up_by_pool(self) -> dict[str, str]:
        """Return by pool what the log of a worker says that does not start."""
        return {self._pool_of[name]: f"{name} does not start: {words}" for name, words in self._given_up.items()}

    def pending(self) -> dict[str, list[Pending]]:
        """Return what waits, of all controllers together, at each pool that could run it."""
        sums: dict[Demand, tuple[int, float]] = {}
        for controller in self._controllers.values():
            for each in controller.pending:
                count, oldest = sums.get(each.need, (0, 0.0))
                sums[each.need] = (count + each.count, max(oldest, each.oldest_s))
        found: dict[str, list[Pending]] = {}
        for need, (count, oldest) in sums.items():
            for pool in {spec.pool for spec in self._expected if taken(need, spec) is not None}:
                found.setdefault(pool, []).append(Pending(need=need, count=count, oldest_s=oldest))
        return found

    def hosts(self) -> list[HostView]:
        """Return the hosts that have workers."""
        now = time.monotonic()
        groups: dict[tuple[str, str], list[Any]] = {}
        for state in self._scheduler.workers.values():
            if (about := _about(state)) is not None:
                groups.setdefault((about["host"], about["spec"]["pool"]), []).append(state)
        found = []
        for (label, pool), states in groups.items():
            busy = sum(len(state.processing) for state in states)
            if busy or (label, pool) not in self._busy_at:
                self._busy_at[label, pool] = now
            ends = [about["ends_at"] for state in states if (about := _about(state)) and about["ends_at"] is not None]
            found.append(
                HostView(
                    label=label,
                    pool=pool,
                    workers=tuple(sorted(str(state.name) for state in states)),
                    busy=busy,
                    idle_s=now - self._busy_at[label, pool],
                    ends_at=min(ends, default=None),
                )
            )
        self._busy_at = {key: self._busy_at[key] for key in groups}
        return found

    # -- its own ---------------------------------------------------------------------------------------------------

    def _view(self, state: Any, client: str) -> dict[str, Json]:
        """Return one worker, and what is taken of it by tasks that this client does not want."""
        about = _about(state) or {}
        used: dict[str, int] = {}
        tasks = []
        for ts in state.processing:
            if not any(owner.client_key == client for owner in ts.who_wants or ()):
                tasks.append(ts.key)
                for name, amount in (ts.resource_restrictions or {}).items():
                    used[name] = used.get(name, 0) + int(amount)
        view = {"name": str(state.name), "address": state.address, "used": used, **about}
        return view if client else {**view, "tasks": tasks}

    def _worker_of(self, ts: Any) -> str:
        return str(ts.processing_on.name) if ts.processing_on is not None else ""

    def _holds(self, controller: Controller) -> bool:
        owner = self._scheduler.clients.get(controller.client)
        return bool(owner is not None and owner.wants_what)

    def _who(self) -> list[Json]:
        return [
            {**c.who, "waiting": sum(each.count for each in c.pending), "held": self._held(c)}
            for c in self._controllers.values()
        ]

    def _held(self, controller: Controller) -> int:
        owner = self._scheduler.clients.get(controller.client)
        return sum(ts.state == "processing" for ts in owner.wants_what) if owner is not None else 0

    def _left(self) -> dict[str, int]:
        """Return how many tasks run for runs that have no controller now."""
        led = {controller.run for controller in self._controllers.values()}
        left: dict[str, int] = {}
        for state in self._scheduler.workers.values():
            for ts in state.processing:
                run = run_of(ts.key)
                if run not in led:
                    left[run] = left.get(run, 0) + 1
        return left

    def _forget(self) -> None:
        now = time.monotonic()
        self._gone = {name: entry for name, entry in self._gone.items() if now - entry[1] < REMEMBERED_S}


def _about(state: Any) -> dict[str, Any] | None:
    """Return what a worker said of itself when it came; ``None`` if it is none of ours."""
    about = (state.extra or {}).get("grafico")
    return about if isinstance(about, dict) else None

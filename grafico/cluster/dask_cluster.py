"""The Dask side of a local cluster: a scheduler and a client in this process, workers beside it, loopback only."""

import contextlib
import logging
import warnings
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from distributed import Client, SchedulerPlugin
from distributed.deploy.spec import SpecCluster

from grafico.cluster.aloud import ALOUD
from grafico.cluster.certificates import issue, security, tls_paths
from grafico.cluster.dashboard import StatusSource, dashboard_link, install, new_token
from grafico.cluster.launch import LocalWorker, Surroundings
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.profile import Profile
from grafico.cluster.scheduler import PatientScheduler

__all__ = ["CONFIG", "Running", "Watcher", "running_cluster"]

HOST = "127.0.0.1"
CONFIG = {
    "distributed.admin.low-level-log-length": 100,  # what workers say aloud is kept so long
    "distributed.deploy.lost-worker-timeout": "1h",  # LocalWorker replaces lost ones itself
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": "120s",
}


class Watcher(SchedulerPlugin):  # type: ignore[misc]  # distributed has no types
    """Tells the controller which workers come and go.

    Parameters
    ----------
    specs
        The workers that may come.
    up, down
        Called with a worker that has come and its address, and with the name and address of one that has gone.
    """

    name = "grafico-watcher"

    def __init__(
        self,
        specs: Sequence[WorkerSpec],
        up: Callable[[WorkerSpec, str], None],
        down: Callable[[str, str], None],
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._up = up
        self._down = down
        self._names: dict[str, str] = {}
        self.heard: dict[str, str] = {}
        """What workers said aloud that tasks came to, by ticket, until somebody takes it."""

    def log_event(self, topic: str, msg: Any) -> None:
        """Hear what a worker says that a task came to."""
        if topic == ALOUD:
            self.heard[msg["ticket"]] = msg["reply"]

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """See a worker come."""
        name = str(scheduler.workers[worker].name)
        if name in self._specs:
            self._names[worker] = name
            self._up(self._specs[name], worker)

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:  # noqa: ARG002 - Dask's signature
        """See a worker go."""
        name = self._names.pop(worker, None)
        if name is not None:
            self._down(name, worker)


@dataclass(frozen=True, slots=True)
class Running:
    """A cluster that runs beside its controller; a ``Link``."""

    client: Any
    workers: Mapping[str, LocalWorker]
    dashboard_link: str | None
    watcher: Watcher
    standing: bool = False

    def heard(self, ticket: str) -> str | None:
        """Return what a worker said aloud that a task came to, once."""
        return self.watcher.heard.pop(ticket, None)

    @property
    def connected(self) -> bool:
        """The scheduler is in this process."""
        return True

    def future(self, ticket: str) -> Any:
        """Return the future of a task."""
        from distributed import Future

        return Future(ticket, self.client)

    async def restored(self) -> Mapping[str, str]:
        """Return nothing: no other controller ever sent anything."""
        return {}

    async def why_gone(self, worker: str) -> str:  # noqa: ARG002
        """No worker goes in order before its controller."""
        return ""

    def ending(self, worker: str) -> Callable[[], None] | None:
        """Return how to end the process that a worker has just now, if that one had reported."""
        keeper = self.workers.get(worker)
        if keeper is None or keeper.worker.process is None or not keeper.worker.came_up:
            return None
        process = keeper.worker.process

        def end() -> None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()

        return end

    def nudge(self) -> None:
        """Nobody has to be told."""


@contextlib.asynccontextmanager
async def running_cluster(
    profile: Profile,
    specs: Sequence[WorkerSpec],
    watcher: Watcher,
    scratch: Path,
    given_up: Callable[[str], None],
    *,
    source: StatusSource,
) -> AsyncIterator[Running]:
    """Start the scheduler, ask for the workers, connect; stop all of it at the end.

    Workers report by themselves; nobody waits for them here. Everybody on this host can reach the loopback interface,
    so workers and scheduler show each other certificates there too.
    """
    shown = profile.dashboard != "off"
    port = profile.dashboard if shown else 0
    tls = None
    if profile.security == "tls":
        folder = scratch / "tls"
        folder.mkdir(mode=0o700)
        issue(folder)
        tls = tls_paths(folder)
    secure = security(tls)
    around = Surroundings(
        scratch=scratch,
        logs=scratch,
        max_tasks=profile.max_tasks_per_process,
        grace_s=profile.walltime_grace_s,
        tls=tls,
    )
    scheduler = {
        "cls": PatientScheduler,
        "options": {
            # Workers come over the loopback interface; the client is in this process and needs no socket.
            "host": [HOST, None],
            "port": [0, 0],
            "protocol": ["tls" if tls else "tcp", "inproc"],
            "security": secure,
            "dashboard": False,  # what is shown is put there below, behind a token
            "dashboard_address": f"{HOST}:{port}",
            "allowed_failures": 0,  # retries are the engine's, which counts and records them
            "plugins": [watcher],
        },
    }
    workers = {
        spec.name: {"cls": LocalWorker, "options": {"spec": spec, "around": around, "given_up": given_up}}
        for spec in specs
    }
    # That the page's port is taken, people are told in our words; this is for a line of the console.
    warnings.filterwarnings("ignore", r"\s*Port \d+ is already in use", UserWarning)
    routes: dict[str, list[str]] = {"distributed.scheduler.http.routes": []}
    # A worker that is stopped while it starts finds its folder gone, which is as it should be.
    logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)
    with dask.config.set({**CONFIG, **routes, "temporary-directory": str(scratch)}):
        cluster = SpecCluster(
            scheduler=scheduler,
            workers=workers,
            asynchronous=True,
            security=secure,
            silence_logs=logging.CRITICAL,
            name=f"grafico-{profile.name}",
        )
        async with cluster:
            link = None
            if shown:
                token = new_token()
                install(cluster.scheduler, token=token, source=source)
                link = dashboard_link(HOST, cluster.scheduler.http_server.port, token)
            else:
                cluster.scheduler.http_server.stop()  # Dask listens whether anything is served or not
            client = Client(
                cluster.scheduler.listeners[1].contact_address,
                asynchronous=True,
                set_as_default=False,
                direct_to_workers=True,
                security=secure,
                name="grafico",
            )
            async with client:
                yield Running(client, cluster.workers, link, watcher)

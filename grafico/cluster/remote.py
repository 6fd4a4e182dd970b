"""A controller's way to a standing cluster: connect, hear who is there, say what waits, and find again what was left."""

import asyncio
import contextlib
import logging
import os
import time
import warnings
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

from distributed.utils import silence_logging_cmgr

from grafico.calculations import Json
from grafico.cluster.certificates import security, tls_paths
from grafico.cluster.connection import ClusterFolder, Connection, find_connection
from grafico.cluster.fleet import PoolStatus
from grafico.cluster.lanes import Cluster
from grafico.cluster.lifecycle import check_fits, stop_server
from grafico.cluster.private import cluster_folder, private_server, remember
from grafico.cluster.profile import Profile
from grafico.cluster.worker import spec_of
from grafico.errors import ClusterLost, GraficoError, ProfileError, StaleController
from grafico.runs.processes import host_name

__all__ = ["Remote", "remote_cluster"]

CONNECT_S = 20.0
QUIET_S, EAGER_S = 1.0, 0.25
"""How often the scheduler is asked: while nothing waits, and while something does."""

SAID_S = 30.0
"""What is waited for is said again after so long, if it is still so."""

SETTLE_S = 1.0
"""So long after something was lost, the host has told why, if it could."""


@contextlib.asynccontextmanager
async def remote_cluster(profile: Profile, run_root: Path, say: Callable[[str], None]) -> AsyncIterator[Cluster]:
    """Connect to the cluster that a profile means; start it for the run where it is the run's own.

    Raises
    ------
    ProfileError
        It is not up, or does not fit this installation; or Slurm refuses what the profile asks for.
    """
    own = profile.kind == "slurm"
    if own:
        connection = await asyncio.to_thread(private_server, profile, run_root, say)
    else:
        assert profile.connect is not None
        connection = await asyncio.to_thread(find_connection, profile.connect)
    kept = False
    try:
        remember(run_root, connection)
        cluster = Cluster(connection.profile, connection.expected, run_root)
        # What Dask has to say of a connection that breaks, people are told in our words.
        with silence_logging_cmgr(logging.CRITICAL):
            async with Remote(connection, cluster, run_root, say) as remote:
                cluster.connect(remote, remote.left)
                try:
                    yield cluster
                except StaleController:
                    kept = True
                    raise
                finally:
                    await (cluster.leave() if kept else cluster.kill())
    finally:
        if own and not kept:
            with contextlib.suppress(GraficoError):
                ended = await asyncio.to_thread(stop_server, connection, reason="its run has ended")
                if ended["in_queue"]:
                    say(f"note: Slurm may still have jobs of this run: {ended['in_queue']}; scancel ends them")


class Remote:
    """A connection to a standing cluster; a ``Link``.

    Parameters
    ----------
    connection
        Which cluster.
    cluster
        The lanes, which are told who is there.
    run_root
        The run's folder.
    say
        Tells people what they should know.
    """

    standing = True

    def __init__(self, connection: Connection, cluster: Cluster, run_root: Path, say: Callable[[str], None]) -> None:
        self.connection = connection
        self.left: dict[str, str] = {}
        """What the cluster still has of the run: by ticket, the worker."""
        self._cluster = cluster
        self._run_root = run_root
        self._say = say
        self._client: Any = None
        self._present: dict[str, str] = {}
        self._gone: dict[str, str] = {}
        self._stopping = ""
        self._joined: Any = None
        """The stream to the scheduler on which it knows us: another one after the connection was made again."""
        self._joining = asyncio.Lock()
        self._talking: asyncio.Task[None] | None = None
        self._nudged = asyncio.Event()
        self._told_waiting = False
        self._said = ("", 0.0)

    @property
    def client(self) -> Any:
        """The Dask client."""
        return self._client

    @property
    def dashboard_link(self) -> str | None:
        """Link to the cluster's page, with its token."""
        return self.connection.dashboard or None

    @property
    def connected(self) -> bool:
        """Whether the scheduler can be reached, and has not said that it ends."""
        return self._reached and self._joined is self._client.scheduler_comm

    @property
    def _reached(self) -> bool:
        return bool(self._client is not None and self._client.status == "running" and not self._stopping)

    def heard(self, ticket: str) -> None:
        """Return nothing: workers of a cluster that several use say nothing aloud."""

    async def __aenter__(self) -> "Remote":
        """Connect, and hear who is there."""
        for each in check_fits(self.connection):
            self._say(f"note: the cluster {self.connection.name!r} has other engines: {each}; its own are used")
        if not self.connection.tls:
            self._say(
                f"note: the cluster {self.connection.name!r} has no security: whoever reaches it can run code as you"
            )
        await self._connect()
        try:
            self.left = await self._join()
            await self._exchange()
        except (OSError, TimeoutError) as error:
            await self._client.close()
            raise self._lost(error) from error
        if self.left:
            self._say(f"{len(self.left)} calculations of this run still go on in the cluster")
        self._talking = asyncio.create_task(self._talk(), name="exchange")
        return self

    async def __aexit__(self, *error: object) -> None:
        """Disconnect."""
        if self._talking is not None:
            self._talking.cancel()
            await asyncio.wait([self._talking])
        with contextlib.suppress(OSError, TimeoutError):
            await self._client.close()

    async def _connect(self) -> None:
        from distributed import Client

        paths = tls_paths(ClusterFolder(self.connection.folder).tls) if self.connection.tls else None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about versions, which have been compared
                self._client = await Client(
                    self.connection.scheduler,
                    asynchronous=True,
                    set_as_default=False,
                    direct_to_workers=True,
                    security=security(paths),
                    name="grafico",
                    timeout=CONNECT_S,
                )
        except (OSError, TimeoutError, ValueError) as error:
            raise ProfileError(
                f"the cluster {self.connection.name!r} does not answer at {self.connection.scheduler}: "
                f"{str(error).partition(chr(10))[0]}",
                hint=f"`grafico cluster status {self.connection.folder}`; its server was {self.connection.server}",
            ) from error

    # -- what lanes ask ----------------------------------------------------------------------------------------------

    def future(self, ticket: str) -> Any:
        """Return the future of a task that the scheduler has, sent by an earlier controller or connection."""
        from distributed import Future

        future = Future(ticket, self._client)
        # It may have ended before this client knew of it: asked again, the scheduler says so again.
        wish = {"op": "client-desires-keys", "keys": [ticket], "client": self._client.id}
        self._client._send_to_scheduler(wish)  # noqa: SLF001 - what Future does not send itself
        return future

    async def restored(self) -> Mapping[str, str]:
        """Wait until the scheduler can be reached again; return what it has of the run."""
        while self._client.status == "connecting" and not self._stopping:
            if self.connection.server.process.alive() is False:
                break
            await asyncio.sleep(0.05)
        if not self._reached:
            raise self._lost()
        async with self._joining:
            try:
                if not self.connected:
                    self.left = await self._join()
            except (OSError, TimeoutError) as error:
                raise self._lost(error) from error
        return self.left

    async def why_gone(self, worker: str) -> str:
        """Return why a worker went in order; empty if it did not."""
        await asyncio.sleep(SETTLE_S)
        with contextlib.suppress(OSError, TimeoutError):
            await self._exchange()
        return self._gone.get(worker, "")

    def ending(self, worker: str) -> Callable[[], None] | None:  # noqa: ARG002
        """Nothing: its host looks after it."""
        return None

    def nudge(self) -> None:
        """Ask more often: something waits."""
        self._nudged.set()

    # -- talking to the scheduler ------------------------------------------------------------------------------------

    async def _talk(self) -> None:
        while True:
            # That nothing waits any more is told soon as well, or hosts are asked for that nobody needs.
            if not self._cluster.waiting and not self._told_waiting:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._nudged.wait(), QUIET_S)
            await asyncio.sleep(EAGER_S)
            self._nudged.clear()
            try:
                if not self.connected:
                    await self.restored()
                    self._cluster.go_on()
                await self._exchange()
            except GraficoError as error:
                self._cluster.gone(error)
                return
            except (OSError, TimeoutError):
                continue  # the client finds out by itself whether that lasts
            except Exception as error:  # noqa: BLE001 - lanes would wait for ever for what nobody asks any more
                self._cluster.gone(self._lost(error))
                return
            if self._stopping:
                self._cluster.gone(self._lost())
                return
            self._tell()

    async def _join(self) -> dict[str, str]:
        who: dict[str, Json] = {
            "run": self._run_root.name,
            "folder": str(self._run_root),
            "host": host_name(),
            "pid": os.getpid(),
        }
        stream = self._client.scheduler_comm
        answer = await self._client.scheduler.grafico_join(client=self._client.id, run=self._cluster.run_id, who=who)
        if answer["id"] != self.connection.id:
            raise ProfileError(
                f"at {self.connection.scheduler} there is another cluster than {self.connection.name!r} by now",
                hint="start again: the new one is found then",
            )
        self._joined = stream
        return dict(answer["tickets"])

    async def _exchange(self) -> None:
        pending = [each.model_dump(mode="json") for each in self._cluster.pending()]
        self._told_waiting = bool(pending)
        answer = await self._patiently(
            self._client.scheduler.grafico_exchange(
                client=self._client.id, run=self._cluster.run_id, pending=pending, status=self._cluster.report()
            )
        )
        if answer.get("unknown"):
            await self._join()
            return
        self._stopping = str(answer["stopping"])
        self._gone = answer["gone"]
        self._hear(answer)

    async def _patiently(self, question: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Wait for an answer; tell people when that takes long."""
        asked, began = asyncio.ensure_future(question), time.monotonic()
        try:
            while not (await asyncio.wait({asked}, timeout=SAID_S))[0]:
                self._say(
                    f"the cluster {self.connection.name!r} has not answered for {time.monotonic() - began:.0f} s "
                    f"({self.connection.server}): waiting; what runs there goes on"
                )
            return asked.result()
        finally:
            asked.cancel()

    def _hear(self, answer: Mapping[str, Any]) -> None:
        cluster = self._cluster
        there = {view["name"]: view for view in answer["workers"]}
        for name, address in list(self._present.items()):
            if name not in there or there[name]["address"] != address:
                del self._present[name]
                cluster.worker_down(name, address)
        for name, view in there.items():
            if name not in self._present:
                self._present[name] = view["address"]
                cluster.worker_up(spec_of(view["spec"]), view["address"], view["ends_at"])
            cluster.worker_shared(name, view["used"], answer["controllers"])
        for name, words in answer["given_up"].items():
            cluster.worker_given_up(name, words)
        cluster.pools([PoolStatus.model_validate(pool) for pool in answer["pools"]])

    def _tell(self) -> None:
        """Tell people what everything waits for, once and then now and again."""
        text, at = self._cluster.awaited, time.monotonic()
        if text and (text != self._said[0] or at - self._said[1] > SAID_S):
            self._say(text)
            self._said = (text, at)
        elif not text:
            self._said = ("", 0.0)

    def _lost(self, error: BaseException | None = None) -> GraficoError:
        why = self._stopping or (str(error).partition("\n")[0] if error else "its server has gone")
        own = Path(self.connection.folder) == cluster_folder(self._run_root.absolute())
        again = "" if own else "once it is up again, "  # a run's own is started by the resume
        return ClusterLost(
            f"the cluster {self.connection.name!r} is gone: {why}",
            hint=f"what was committed is safe: {again}`grafico resume {self._run_root.name}` goes on",
        )

"""The server of a standing cluster: ``python -m grafico.cluster.server``; a Dask scheduler and the fleet of its hosts.

It outlives the controllers that use it. When it dies, its hosts end with it: those beside it at once, others when they
find the scheduler gone. Nothing of it has to survive: what was computed is in the run folders.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from grafico.cluster.connection import ClusterFolder, Connection, read_connection, this_server, versions_here
from grafico.cluster.fleet import Fleet, PoolStatus, fleet_for
from grafico.cluster.layout import lay_out
from grafico.cluster.profile import Profile
from grafico.errors import BadInput, GraficoError, ProfileError
from grafico.runs.files import write_atomic
from grafico.runs.run import utc_now

__all__ = ["main", "serve"]

LOG = logging.getLogger("grafico.cluster")
LOOPBACK = "127.0.0.1"
TURN_S = 1.0
"""How often the fleet is asked to look at what waits."""

LOOK_S = 3.0
"""How often the server looks whether its folder is still there."""

TELL_S = 3.0
"""Controllers have so long to hear why the cluster ends; they ask about once a second."""

SETTLE_S = 0.1
"""So long after news, so that one look serves several."""


def main() -> None:
    """Serve the cluster of a folder until told to stop."""
    parser = argparse.ArgumentParser(prog="grafico.cluster.server")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the folder's lock, held for life")
    given = parser.parse_args()
    os.umask(0o077)
    os.set_inheritable(given.lock, False)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    sys.exit(asyncio.run(serve(Path(given.folder))))


async def serve(folder: Path, ready: Callable[[Connection], None] = lambda _: None) -> int:
    """Serve until told to stop; returns the exit code. The caller holds the folder's lock.

    Parameters
    ----------
    folder
        The cluster's folder, made ready by ``lifecycle.prepare_folder``.
    ready
        Called when the hosts have been asked for.
    """
    place = ClusterFolder(folder)
    try:
        return await _serve(place, ready)
    except GraficoError as error:
        sys.stderr.write(f"grafico: {error.message}\n")
        said = {"bad_input": isinstance(error, BadInput), "message": error.message, "hint": error.hint}
        write_atomic(place.root / f"problem-{os.getpid()}.json", json.dumps(said).encode())
        return error.exit_code


async def _serve(place: ClusterFolder, ready: Callable[[Connection], None]) -> int:
    from grafico.cluster.exchange import Exchange

    profile, settings = place.read_profile(), json.loads(place.settings.read_bytes())
    stop = _Stop()
    expected = lay_out(profile)
    identity = secrets.token_hex(8)
    about = {"id": identity, "name": settings["name"], "versions": versions_here()}
    exchange = Exchange(about, expected, stop.now)
    async with _scheduler(profile, place, exchange) as (scheduler, dashboard):
        connection = Connection(
            id=identity,
            name=settings["name"],
            folder=str(place.root),
            scheduler=scheduler.address,
            tls=profile.security == "tls",
            dashboard=dashboard,
            server=this_server(),
            profile=profile,
            expected=expected,
            versions=versions_here(),
            started=utc_now(),
            linger_s=settings["linger_s"],
        )
        _publish(place, connection)
        fleet = fleet_for(profile, place.root, scheduler.address)
        try:
            await fleet.start()
            connection = connection.model_copy(update={"ready": True})
            _publish(place, connection)
            ready(connection)
            LOG.warning("up at %s", scheduler.address)
            await asyncio.gather(_turns(exchange, fleet, stop, settings["linger_s"]), _mind(place, identity, stop))
        finally:
            exchange.stopping = exchange.stopping or stop.why or "the server ends"
            # First, so that no controller takes what ends now for lost.
            await exchange.tell(TELL_S)
            for comm in list(scheduler.client_comms.values()):
                comm.abort()
            await fleet.close()
            now = read_connection(place)
            if now is not None and now.id == identity:
                place.connection.unlink(missing_ok=True)
                for path in (place.token, *place.tls.iterdir()):
                    path.unlink(missing_ok=True)
    LOG.warning("ended: %s", stop.why)
    return 0


class _Stop:
    """Why and when it is over."""

    def __init__(self) -> None:
        self.why = ""
        self.event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            # Elsewhere than in the main thread, calls remain.
            with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, self.now, f"the server got {number.name}")
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it outlives the terminal that it was started from

    def now(self, why: str) -> None:
        """Say that it is over."""
        self.why = self.why or why
        # In a moment, so that whoever asked still gets the answer.
        asyncio.get_running_loop().call_later(SETTLE_S, self.event.set)


async def _turns(exchange: Any, fleet: Fleet, stop: _Stop, linger_s: float | None) -> None:
    """Keep hosts and controllers informed of each other until it is over."""
    stopped = asyncio.create_task(stop.event.wait())
    failed = ""
    try:
        while not stop.event.is_set():
            try:
                await fleet.adjust(exchange.pending(), exchange.hosts())
            except Exception as error:
                if isinstance(error, ProfileError):
                    raise
                if str(error) != failed:  # the same fault every second is said once
                    LOG.exception("the fleet could not be adjusted")
                    failed = str(error)
            exchange.pools = _with_given_up(fleet.status(), exchange)
            if linger_s is not None and exchange.idle_s() > linger_s:
                stop.now(f"nobody was connected and nothing ran for {linger_s:g} s")
            news = asyncio.create_task(exchange.news.wait())
            await asyncio.wait({stopped, news}, timeout=TURN_S, return_when=asyncio.FIRST_COMPLETED)
            if exchange.news.is_set():
                await asyncio.sleep(SETTLE_S)
                exchange.news.clear()
            news.cancel()
    finally:
        stopped.cancel()


async def _mind(place: ClusterFolder, identity: str, stop: _Stop) -> None:
    """End when the folder is gone, or describes another cluster: nobody could find this one any more."""
    missed = 0
    while not stop.event.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.event.wait(), LOOK_S)
        try:
            now = await asyncio.to_thread(read_connection, place)
        except ProfileError:
            continue  # a network's file system may have its moments
        missed = 0 if now is not None and now.id == identity else missed + 1
        if missed > 1:
            stop.now(f"its folder {place.root} is gone, or another cluster's")


def _with_given_up(pools: tuple[PoolStatus, ...], exchange: Any) -> tuple[PoolStatus, ...]:
    """Add to how a pool stands what its hosts said of workers that do not start."""
    told = exchange.given_up_by_pool()
    return tuple(
        pool if pool.problem or pool.pool not in told else pool.model_copy(update={"problem": told[pool.pool]})
        for pool in pools
    )


@contextlib.asynccontextmanager
async def _scheduler(profile: Profile, place: ClusterFolder, exchange: Any) -> AsyncIterator[tuple[Any, str]]:
    """Run the scheduler; gives it and the dashboard's link."""
    import dask

    from grafico.cluster.certificates import issue, security, tls_paths
    from grafico.cluster.dashboard import dashboard_link, install, new_token
    from grafico.cluster.dask_cluster import CONFIG
    from grafico.cluster.scheduler import PatientScheduler

    tls = None
    if profile.security == "tls":
        await asyncio.to_thread(issue, place.tls)
        tls = tls_paths(place.tls)
    shown = profile.dashboard != "off"
    own = {"distributed.scheduler.http.routes": [], "temporary-directory": str(place.hosts)}
    with dask.config.set({**CONFIG, **own}):
        scheduler = PatientScheduler(
            host=_address(profile),
            port=0,
            protocol="tls" if tls else "tcp",
            security=security(tls),
            dashboard=False,
            dashboard_address=f"{LOOPBACK}:{profile.dashboard if shown else 0}",
            allowed_failures=0,
            plugins=[exchange],
        )
        async with scheduler:
            link = ""
            if shown:
                token = new_token()
                write_atomic(place.token, token.encode())
                install(scheduler, token=token, source=exchange)
                link = dashboard_link(LOOPBACK, scheduler.http_server.port, token)
            else:
                scheduler.http_server.stop()  # Dask listens whether anything is served or not
            yield scheduler, link


def _address(profile: Profile) -> str:
    """Return on which address the scheduler listens: loopback for one machine, else where its hosts can reach it.

    Raises
    ------
    ProfileError
        The profile names an interface or an address that this machine does not have.
    """
    if profile.kind == "local":
        return LOOPBACK
    import socket

    import psutil
    from distributed.utils import get_ip

    if profile.host == "auto":
        return str(get_ip())
    interfaces = psutil.net_if_addrs()
    if profile.host in interfaces:
        found = [a.address for a in interfaces[profile.host] if a.family == socket.AF_INET]
        if found:
            return found[0]
    try:
        address = socket.gethostbyname(profile.host)
    except OSError:
        address = ""
    if address and any(a.address == address for addresses in interfaces.values() for a in addresses):
        return address
    raise ProfileError(
        f"profile {profile.name!r}: host: {profile.host!r} is neither an address nor an interface of this machine",
        hint=f"its interfaces: {', '.join(sorted(interfaces))}; or leave it out",
    )


def _publish(place: ClusterFolder, connection: Connection) -> None:
    write_atomic(place.connection, connection.to_json().encode())


if __name__ == "__main__":
    main()

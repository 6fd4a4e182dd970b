"""Starting, asking and stopping the server of a standing cluster, from other processes."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from grafico.calculations import Json
from grafico.cluster.connection import ClusterFolder, Connection, differences, read_connection, versions_here
from grafico.cluster.profile import Profile
from grafico.errors import GraficoError, ProfileError
from grafico.runs.files import write_atomic

__all__ = [
    "ask",
    "ask_server",
    "check_answers",
    "check_fits",
    "is_up",
    "prepare_folder",
    "start_server",
    "stop_server",
    "stopped",
]

START_S = 120.0
"""A server that is not there after so long has not started; submitting jobs may take its time."""

POLL_S = 0.05
TRIES = 4
ANSWER_S = 10.0
END_S = 30.0


def is_up(connection: Connection) -> bool | None:
    """Whether a cluster's server still runs; ``None`` if that cannot be known from this host."""
    return connection.server.process.alive()


def prepare_folder(profile: Profile, folder: Path, *, name: str | None = None, linger_s: float | None = None) -> int:
    """Make a cluster folder ready for its server; returns the lock that the server must hold (a file descriptor).

    Parameters
    ----------
    profile
        What the server is to run.
    folder
        The cluster's folder.
    name
        What the cluster is called; default: as its folder.
    linger_s
        It ends so long after its last controller has gone and nothing runs any more; ``None``: it stays up.

    Raises
    ------
    ProfileError
        A server runs there already, the folder is not ours, or the profile is none that a server can run.
    """
    if profile.kind == "connect":
        raise ProfileError(
            f"the profile {profile.name!r} connects to a cluster that somebody else keeps up", hint="start that one"
        )
    place = ClusterFolder(folder)
    place.create()
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _take(lock, place)
        for path in (place.connection, *place.root.glob("problem-*.json")):
            path.unlink(missing_ok=True)
        settings = {"name": name or place.root.name, "linger_s": linger_s}
        write_atomic(place.profile, (json.dumps(profile.to_json(), indent=2) + "\n").encode())
        write_atomic(place.settings, (json.dumps(settings) + "\n").encode())
    except OSError as error:
        os.close(lock)
        raise ProfileError(f"the cluster folder {place.root} cannot be used: {error.strerror or error}") from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def start_server(
    profile: Profile, folder: Path, *, name: str | None = None, linger_s: float | None = None
) -> Connection:
    """Start a cluster's server beside this process, which it outlives; returns when its hosts have been asked for.

    Parameters
    ----------
    profile, folder, name, linger_s
        As for :func:`prepare_folder`.

    Raises
    ------
    ProfileError
        As :func:`prepare_folder`; or the server found that the profile cannot be had.
    GraficoError
        It did not come up; says what its log says.
    """
    from grafico.cluster.launch import python_path

    place = ClusterFolder(folder)
    lock = prepare_folder(profile, folder, name=name, linger_s=linger_s)
    log = place.logs / "server.log"
    try:
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as sink:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "grafico.cluster.server",
                    "--folder",
                    str(place.root),
                    "--lock",
                    str(lock),
                ],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, "PYTHONPATH": python_path()},
                start_new_session=True,
                pass_fds=(lock,),
            )
    finally:
        os.close(lock)
    try:
        return _await_up(place, process, log)
    except BaseException:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
        raise


def _await_up(place: ClusterFolder, process: "subprocess.Popen[bytes]", log: Path) -> Connection:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _problem(place, process.pid, log)
        connection = read_connection(place)
        if connection is not None and connection.ready and connection.server.pid == process.pid:
            return connection
        time.sleep(POLL_S)
    raise GraficoError(f"the server of the cluster did not come up within {START_S:g} s", hint=f"see {log}")


async def ask_server(connection: Connection, call: str, **given: Any) -> Any:
    """Call one of the server's ``grafico_…`` functions.

    Raises
    ------
    OSError
        It cannot be reached.
    """
    from distributed.core import rpc

    from grafico.cluster.certificates import security, tls_paths

    paths = tls_paths(ClusterFolder(connection.folder).tls) if connection.tls else None
    arguments = security(paths).get_connection_args("client")
    async with rpc(connection.scheduler, connection_args=arguments, timeout=ANSWER_S) as remote:
        return await asyncio.wait_for(getattr(remote, f"grafico_{call}")(**given), ANSWER_S)


def ask(connection: Connection, call: str, **given: Any) -> Any:
    """Call one of the server's functions, from outside of any event loop.

    Raises
    ------
    GraficoError
        It cannot be reached.
    """
    try:
        with _quiet():
            return asyncio.run(ask_server(connection, call, **given))
    except (OSError, ValueError) as error:  # a certificate that cannot be read is a ValueError or an OSError
        late = f"not within {ANSWER_S:g} s" if isinstance(error, TimeoutError) else type(error).__name__
        said = str(error).partition("\n")[0] or late
        log = ClusterFolder(connection.folder).logs / "server.log"
        force = f"; `grafico cluster down {connection.name} --force` ends it" if is_up(connection) else ""
        raise GraficoError(
            f"the cluster {connection.name!r} does not answer at {connection.scheduler}: {said}",
            hint=f"its server is {connection.server}; its log: {log}{force}",
        ) from None


def check_fits(connection: Connection) -> list[str]:
    """Check that this installation can work with a cluster's; returns in words which engines differ.

    Raises
    ------
    ProfileError
        It cannot.
    """
    fatal, noted = differences(connection.versions, versions_here())
    if fatal:
        raise ProfileError(
            f"the cluster {connection.name!r} does not fit this installation: {'; '.join(fatal)}",
            hint="install the same on both sides, and take the cluster down and up again",
        )
    return noted


def check_answers(connection: Connection) -> None:
    """Check that a cluster that should be up answers, and is one that this installation can work with.

    Raises
    ------
    ProfileError
        It does not, or is not.
    """
    check_fits(connection)
    with ThreadPoolExecutor(1) as elsewhere:  # whoever asks may be in an event loop
        try:
            elsewhere.submit(ask, connection, "status").result()
        except GraficoError as error:
            raise ProfileError(error.message, hint=error.hint) from None


def stop_server(connection: Connection, *, force: bool = True, reason: str = "taken down") -> dict[str, Json]:
    """Stop a cluster; returns what its server answered, after it has ended unless it refused.

    ``in_queue`` says in words which of its Slurm jobs could not be seen to end, and is empty if all did.

    Parameters
    ----------
    connection
        Which.
    force
        Also if runs are on it.
    reason
        What their controllers are told.

    Raises
    ------
    GraficoError
        It cannot be reached, and its process is not one that can be ended from here.
    """
    place = ClusterFolder(connection.folder)
    if is_up(connection) is False:
        queued = _forget(place, connection)
        return {"stopping": "its server had ended before", "controllers": [], "left": {}, "in_queue": queued}
    try:
        answer: dict[str, Json] = ask(connection, "stop", reason=reason, force=force)
    except GraficoError:
        if not force or is_up(connection) is None:
            raise
        answer = {"stopping": reason, "controllers": [], "left": {}}
        with contextlib.suppress(ProcessLookupError):
            os.kill(connection.server.pid, signal.SIGTERM)
    answer["in_queue"] = _wait_for_end(place, connection) if answer["stopping"] else ""
    return answer


def stopped(connection: Connection) -> bool:
    """Whether a cluster has ended, as far as can be seen from here."""
    if is_up(connection) is False:
        return True
    now = read_connection(ClusterFolder(connection.folder))
    return is_up(connection) is None and (now is None or now.id != connection.id)


def _wait_for_end(place: ClusterFolder, connection: Connection) -> str:
    deadline = time.monotonic() + END_S
    while not stopped(connection):
        if time.monotonic() > deadline:
            if is_up(connection) is None:
                raise GraficoError(f"the cluster {connection.name!r} was told to end, and is still there")
            with contextlib.suppress(ProcessLookupError):
                os.kill(connection.server.pid, signal.SIGKILL)  # its hosts end with it
            deadline = time.monotonic() + END_S
        time.sleep(POLL_S)
    return _forget(place, connection)


def _forget(place: ClusterFolder, connection: Connection) -> str:
    """Remove what a server left behind that did not end in order; return which jobs could not be taken out."""
    from grafico.cluster.slurm.records import cancel_left

    left = cancel_left(place.root)  # hosts end by themselves, those that still wait in the queue do not
    now = read_connection(place)
    if now is not None and now.id == connection.id:
        place.connection.unlink(missing_ok=True)
    return left


def _take(lock: int, place: ClusterFolder) -> None:
    for left in reversed(range(TRIES)):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if not left:
                raise _taken(place, read_connection(place)) from None
            time.sleep(POLL_S)  # it may have been somebody who only looked whether it is free
        except OSError:
            break  # the file system cannot lock
    before = read_connection(place)
    # Where files cannot be locked, and on another host, what the folder says has to do.
    if before is not None and is_up(before) is not False:
        raise _taken(place, before)


def _taken(place: ClusterFolder, connection: Connection | None) -> ProfileError:
    who = f": {connection.server}, since {connection.started}" if connection is not None else ""
    name = connection.name if connection is not None else place.root.name
    what = "is up" if connection is not None else "is being started"
    return ProfileError(
        f"the cluster {name!r} {what} already{who}",
        hint=f"`grafico cluster status {name}` shows it; `grafico cluster down {name}` ends it; or give another --name",
    )


def _problem(place: ClusterFolder, pid: int, log: Path) -> GraficoError:
    try:
        said = json.loads((place.root / f"problem-{pid}.json").read_bytes())
        kind: type[GraficoError] = ProfileError if said["bad_input"] else GraficoError
        return kind(said["message"], hint=said["hint"])
    except (OSError, ValueError, KeyError):
        from grafico.cluster.launch import no_room

        lines = log.read_text(errors="replace").strip().splitlines() if log.is_file() else []
        said = lines[-1][:500] if lines else f"it said nothing{no_room(place.logs)}"
        return GraficoError(f"the cluster's server ended: {said}", hint=f"its log: {log}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own words about a connection that fails from people who get ours."""
    import logging

    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)

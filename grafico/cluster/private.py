"""A run's own standing cluster, in the run's folder; and which cluster a run was on last, for whoever resumes it."""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from grafico.cluster.connection import ClusterFolder, Connection, read_connection
from grafico.cluster.lifecycle import ask, is_up, start_server, stop_server
from grafico.cluster.profile import Profile
from grafico.cluster.slurm.records import cancel_left
from grafico.cluster.tickets import run_id
from grafico.errors import GraficoError, ProfileError
from grafico.runs import RunPaths
from grafico.runs.files import write_atomic

__all__ = ["clear_dead", "cluster_folder", "end_left", "private_server", "remember", "still_there"]

LINK = "connection.json"


def cluster_folder(run_root: Path) -> Path:
    """Return the folder of a run's own cluster."""
    return run_root / "cluster"


def private_server(profile: Profile, run_root: Path, say: Callable[[str], None]) -> Connection:
    """Return the run's own cluster: the one that an earlier controller left, if it is up and of this profile, or a new one.

    Raises
    ------
    ProfileError
        It cannot be had.
    """
    folder = ClusterFolder(cluster_folder(run_root))
    before = read_connection(folder)
    if before is not None and before.ready and is_up(before) is not False:
        if before.profile == profile:
            with contextlib.suppress(GraficoError):
                ask(before, "status")
                say(f"found the cluster of this run again: {before.server}")
                return before
        with contextlib.suppress(GraficoError):
            stop_server(before, reason="its run goes on elsewhere")
    if before is not None and is_up(before) is None:
        # Of a host that cannot be looked at from here, and it does not answer.
        folder.connection.unlink(missing_ok=True)
    return start_server(profile, folder.root, name=run_root.name, linger_s=profile.linger_s)


def remember(run_root: Path, connection: Connection) -> None:
    """Note in the run's folder which cluster it is on."""
    write_atomic(run_root / LINK, json.dumps({"folder": connection.folder, "id": connection.id}).encode())


def still_there(run_root: Path, profile: Profile) -> str:
    """Return the id of the cluster that a run was on, if it is up and the run will be on it again; else empty.

    If the run will be elsewhere, the old cluster is told to end what it has of the run.
    """
    before = _last(run_root)
    if before is None or is_up(before) is False:
        clear_dead(run_root)
        return ""
    if _same(before, profile, run_root):
        return before.id
    end_left(run_root)
    return ""


def end_left(run_root: Path) -> int:
    """End what an earlier controller left of a run on its cluster, and the cluster if it is the run's own.

    Returns
    -------
    How many calculations were sent and had not ended; 0 as well where the cluster cannot be reached.
    """
    before = _last(run_root)
    if before is None or is_up(before) is False:
        clear_dead(run_root)
        return 0
    ended = 0
    with contextlib.suppress(GraficoError):
        ended = int(ask(before, "cancel_run", run=run_id(RunPaths(run_root).root)))
        if Path(before.folder) == ClusterFolder(cluster_folder(run_root)).root:
            stop_server(before, reason="its run was cancelled or goes on elsewhere")
    return ended


def clear_dead(run_root: Path) -> str:
    """Take out of the queue what the run's own cluster left there when its server was killed; return what could not be.

    Its hosts end by themselves when they find no server; jobs that wait would do so for ever where nothing starts them.
    """
    folder = ClusterFolder(cluster_folder(run_root))
    if not (folder.root / "slurm").is_dir():
        return ""
    try:
        lock = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return ""
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""  # a server is there
        except OSError:
            pass  # the file system cannot lock
        with contextlib.suppress(ProfileError):
            before = read_connection(folder)
            if before is not None and is_up(before) is not False:
                return ""  # on another host
        return cancel_left(folder.root)
    finally:
        os.close(lock)


def _last(run_root: Path) -> Connection | None:
    try:
        said = json.loads((run_root / LINK).read_bytes())
        connection = read_connection(ClusterFolder(said["folder"]))
    except (OSError, ValueError, KeyError, TypeError, ValidationError, ProfileError):
        return None
    return connection if connection is not None and connection.id == said["id"] else None


def _same(before: Connection, profile: Profile, run_root: Path) -> bool:
    """Whether a run with this profile goes to the cluster that it was on."""
    if profile.kind == "slurm":
        mine = ClusterFolder(cluster_folder(run_root)).root
        return Path(before.folder) == mine and before.profile == profile
    if profile.kind == "connect" and profile.connect is not None:
        from grafico.cluster.connection import find_connection

        with contextlib.suppress(ProfileError):
            return find_connection(profile.connect).id == before.id
    return False

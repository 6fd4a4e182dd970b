"""A cluster that is up, as its folder describes it: where its scheduler listens, who serves it, and what it offers.

A cluster folder is private (0700, files 0600) and holds all that its parts have to know; nothing secret travels in an
argument, an environment or a job script::

    cluster.json     a Connection; written when the scheduler listens, removed when the cluster ends in order
    profile.json     the profile, as it was given
    settings.json    how long the server waits for a controller, and other things that its starter decided
    problem.json     why the server did not come up
    tls/             certificates of this cluster alone
    hosts/           scratch folders of the hosts' workers, where no local disk serves
    logs/            what server, hosts and workers printed
"""

import fcntl
import json
import os
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import Field, ValidationError

from grafico.calculations import Model
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.profile import Profile
from grafico.errors import ProfileError
from grafico.runs.owned import refuse_others
from grafico.runs.processes import ProcessId, this_process

__all__ = [
    "ClusterFolder",
    "Connection",
    "Server",
    "clusters_folder",
    "find_connection",
    "is_starting",
    "known_clusters",
    "read_connection",
    "versions_here",
]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

COMPARED = ("grafico", "python", "distributed", "pydantic", "pebble")
"""What must agree between a controller and the workers: they exchange functions, tasks and outcomes."""

ENGINES = ("ase", "gpu4pyscf-cuda12x", "gpu4pyscf-cuda13x", "numpy", "pyscf", "rdkit", "scipy", "tblite", "xtb")
"""What calculations use; a difference is told, because results are computed with the workers' versions."""


class Server(Model):
    """The process that serves a cluster."""

    host: str
    pid: int
    start: str = Field(description="when it was started, as a token; see `runs.processes.ProcessId`")

    @property
    def process(self) -> ProcessId:
        """The process."""
        return ProcessId(self.host, self.pid, self.start)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Connection(Model):
    """All that a controller or a host needs in order to join a cluster."""

    id: str = Field(description="this cluster and no other that was or will be up in the same folder")
    name: str
    folder: str = Field(description="the cluster's folder, absolute")
    scheduler: str = Field(description="address of the scheduler, as in tls://10.0.0.1:4711")
    tls: bool
    dashboard: str = Field(default="", description="link with its token; empty where there is none")
    server: Server
    profile: Profile
    expected: tuple[WorkerSpec, ...] = Field(description="workers that the profile means, for admission")
    versions: Mapping[str, str] = Field(description="of grafico and the engines where the server runs")
    started: str = Field(description="UTC, ISO 8601")
    ready: bool = Field(default=False, description="whether its hosts have been asked for without a complaint")
    linger_s: float | None = Field(default=None, description="ends so long after its last controller; none: stays up")

    def to_json(self) -> str:
        """Return it as it stands in ``cluster.json``: of the profile, only what was given."""
        data = self.model_dump(mode="json", exclude={"profile"})
        return json.dumps(data | {"profile": self.profile.to_json()}, indent=2) + "\n"


class ClusterFolder:
    """Owns every path of a cluster folder.

    Parameters
    ----------
    root
        The folder.
    """

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root).expanduser().absolute()

    @property
    def connection(self) -> Path:
        """The ``Connection``."""
        return self.root / "cluster.json"

    @property
    def profile(self) -> Path:
        """The profile."""
        return self.root / "profile.json"

    @property
    def settings(self) -> Path:
        """What the server's starter decided."""
        return self.root / "settings.json"

    @property
    def problem(self) -> Path:
        """Why it did not come up."""
        return self.root / "problem.json"

    @property
    def lock(self) -> Path:
        """Held by the server while it lives, where the file system can lock."""
        return self.root / "lock"

    @property
    def token(self) -> Path:
        """The dashboard's token."""
        return self.root / "token"

    @property
    def tls(self) -> Path:
        """Certificates."""
        return self.root / "tls"

    @property
    def hosts(self) -> Path:
        """Scratch of hosts."""
        return self.root / "hosts"

    @property
    def logs(self) -> Path:
        """What processes printed."""
        return self.root / "logs"

    def create(self) -> None:
        """Make it, private to its owner.

        Raises
        ------
        ProfileError
            It belongs to somebody else, or cannot be made.
        """
        try:
            for missing in reversed([parent for parent in self.root.parents if not parent.exists()]):
                missing.mkdir(mode=0o700, exist_ok=True)  # the names of clusters are nobody else's business either
            for folder in (self.root, self.tls, self.hosts, self.logs):
                folder.mkdir(mode=0o700, exist_ok=True)
                _close_to_others(folder)
        except OSError as error:
            raise ProfileError(f"the cluster folder {self.root} cannot be made: {error.strerror or error}") from error

    def read_profile(self) -> Profile:
        """Return the profile.

        Raises
        ------
        ProfileError
            It is not there, or damaged.
        """
        try:
            return Profile.model_validate_json(self.profile.read_bytes())
        except OSError as error:
            raise ProfileError(f"{self.profile} cannot be read: {error.strerror or error}") from None
        except ValidationError as error:
            raise ProfileError(
                f"{self.profile} is damaged, or of another version: {_first(error)}",
                hint=f"`grafico cluster up PROFILE --name {self.root.name}` writes it anew",
            ) from None


def _first(error: ValidationError) -> str:
    """Return the first problem in one line."""
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where + ': ' if where else ''}{first['msg'].splitlines()[0]}"


def _close_to_others(folder: Path) -> None:
    """Let only the owner into a folder; a link is not followed, or what it leads to would lose its permissions.

    Raises
    ------
    ProfileError
        It is a link, or somebody else's.
    """
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ProfileError(
            f"{folder} is not a folder of yours, so a cluster cannot keep its keys in it",
            hint="remove it, or set GRAFICO_CLUSTERS to a folder of your own",
        )
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def clusters_folder() -> Path:
    """Return where clusters with a name have their folders: ``$GRAFICO_CLUSTERS``, else in the user's state folder."""
    given = os.environ.get("GRAFICO_CLUSTERS")
    if given:
        return Path(given).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path("~/.local/state").expanduser()) / "grafico" / "clusters"


def named_folder(name: str) -> ClusterFolder:
    """Return the folder of a cluster of this name.

    Raises
    ------
    ProfileError
        It is no name.
    """
    if NAME.fullmatch(name) is None:
        raise ProfileError(
            f"{name[:80]!r} is no name for a cluster",
            hint="letters, digits, dots, hyphens and underscores, at most 63, the first a letter or a digit",
        )
    return ClusterFolder(clusters_folder() / name)


def known_clusters() -> list[ClusterFolder]:
    """Return the folders of all named clusters, up or not, by name."""
    base = clusters_folder()
    found = [path for path in base.iterdir() if (path / "profile.json").is_file()] if base.is_dir() else []
    return [ClusterFolder(path) for path in sorted(found)]


def read_connection(folder: ClusterFolder) -> Connection | None:
    """Return what a cluster folder says, ``None`` if no server has written there or it ended in order.

    Raises
    ------
    ProfileError
        It says something that this version does not understand; or others can write there.
    """
    # Functions and outcomes are exchanged with who is named there.
    refuse_others(folder.root, "grafico talks to no cluster that is described there", ProfileError)
    try:
        data = folder.connection.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ProfileError(f"{folder.connection} cannot be read: {error.strerror or error}") from None
    try:
        return Connection.model_validate_json(data)
    except ValidationError as error:
        raise ProfileError(
            f"{folder.connection} is not the description of a cluster: {_first(error)}",
            hint="it may be of another version of grafico: take the cluster down with that, or remove the folder",
        ) from None


def is_starting(folder: ClusterFolder) -> bool:
    """Whether a server holds a cluster's folder that has not written yet where it listens."""
    try:
        lock = os.open(folder.lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return not folder.connection.is_file()
    except OSError:  # the file system cannot lock
        return False
    finally:
        os.close(lock)
    return False


def find_connection(name_or_path: str) -> Connection:
    """Return how to connect to a cluster that is up, by its name or its folder.

    Whether it is can be told only on the server's own host; elsewhere, connecting will show.

    Raises
    ------
    ProfileError
        None is up there.
    """
    text = str(name_or_path)
    looks_like_path = "/" in text or text in {".", ".."}
    folder = ClusterFolder(text) if looks_like_path else named_folder(text)
    connection = read_connection(folder)
    if connection is None or not connection.ready:
        starting = "is only starting" if connection is not None or is_starting(folder) else "is not up"
        names = [known.root.name for known in known_clusters() if known.connection.is_file()]
        raise ProfileError(
            f"the cluster {text!r} {starting} ({folder.connection})",
            hint=f"`grafico cluster up PROFILE --name NAME` starts one; up here: {', '.join(names) or 'none'}",
        )
    if connection.server.process.alive() is False:
        raise ProfileError(
            f"the cluster {connection.name!r} is not up: its server, {connection.server}, has ended",
            hint=f"`grafico cluster up PROFILE --name {connection.name}` starts it again",
        )
    return connection


@lru_cache(maxsize=1)
def versions_here() -> dict[str, str]:
    """Return the versions, as installed here, of what controllers and workers have in common, and of the engines."""
    import platform

    from grafico import __version__

    found = {"grafico": __version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for name in (*COMPARED, *ENGINES):
        if name not in found:
            try:
                found[name] = version(name)
            except (PackageNotFoundError, ValueError):
                continue
    return found


def differences(theirs: Mapping[str, str], ours: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return in words what differs: what makes it impossible to work together, and what only has to be told."""

    def told(name: str) -> str:
        return f"{name} {theirs.get(name, 'is missing')} there, {ours.get(name, 'not installed')} here"

    fatal = [told(name) for name in COMPARED if theirs.get(name) != ours.get(name)]
    noted = [told(name) for name in ENGINES if theirs.get(name) != ours.get(name)]
    return fatal, noted


def this_server() -> Server:
    """Return the calling process as a server."""
    own = this_process()
    return Server(host=own.host, pid=own.pid, start=own.start)

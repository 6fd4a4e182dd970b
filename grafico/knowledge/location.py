"""Where the embedded store lives, and what kind of disk that is."""

import contextlib
import errno
import hashlib
import os
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from grafico.errors import KnowledgeError
from grafico.knowledge.address import is_address

__all__ = [
    "KnowledgeWarning",
    "damaged",
    "database",
    "default_folder",
    "default_place",
    "folder_beside",
    "network_file_system",
    "prepare",
    "using_store",
]

_NETWORK = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "afs", "9p", "davfs"),
        *("lustre", "beegfs", "gpfs", "panfs", "ceph", "glusterfs", "orangefs", "pvfs2", "wekafs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone"),
    )
)


_CHOSEN: ContextVar[Path | str | None] = ContextVar("place of the knowledge base", default=None)


class KnowledgeWarning(UserWarning):
    """Something about the knowledge base that works now and may not last."""


def default_place() -> Path | str:
    """Return the store's folder or address: :func:`using_store`'s, else ``$GRAFICO_KB``, else the user's data folder."""
    if (chosen := _CHOSEN.get()) is not None:
        return chosen
    if given := os.environ.get("GRAFICO_KB"):
        return given if is_address(given) else Path(given).expanduser()
    return _data_folder() / "kb"


def folder_beside(address: str) -> Path:
    """Return the folder on this machine for files that came with what was imported into the store at an address."""
    return _data_folder() / "remote" / hashlib.sha256(address.encode()).hexdigest()[:16]


def _data_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME")
    # The XDG specification has relative paths ignored.
    base = Path(data) if data and Path(data).is_absolute() else Path.home() / ".local" / "share"
    return base / "grafico"


def default_folder() -> Path:
    """Return the folder of the store, where it has one; see :func:`default_place`.

    Raises
    ------
    KnowledgeError
        The store is at an address.
    """
    place = default_place()
    if isinstance(place, str):
        raise KnowledgeError(f"the knowledge base is at {place}, and has no folder", hint="use open_store()")
    return place


@contextlib.contextmanager
def using_store(place: Path | str | None) -> Iterator[None]:
    """Let what runs inside find another store than the user's own by default; ``None`` changes nothing."""
    token = _CHOSEN.set(place if place is not None else _CHOSEN.get())
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def prepare(folder: Path) -> None:
    """Create the folder of a store, for its owner alone; warn where it is on a network file system.

    Raises
    ------
    KnowledgeError
        It cannot be created, or is something else.
    """
    try:
        created = not folder.exists()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KnowledgeError(
            f"the folder of the knowledge base cannot be made: {folder}: {error.strerror}",
            hint="set GRAFICO_KB to a folder that you may write to",
        ) from error
    kind = network_file_system(folder)
    if kind and created:
        warnings.warn(
            f"the knowledge base {folder} is on a network file system ({kind}); it may be slow or get damaged. "
            "Set GRAFICO_KB to a folder on a local disk; the run folders may stay where they are.",
            KnowledgeWarning,
            stacklevel=3,
        )


def network_file_system(folder: Path) -> str | None:
    """Return the type of the network file system that holds ``folder``; ``None`` for a local one."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    place = folder.resolve()
    best, kind = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        fields = left.split()
        if len(fields) < 5 or not right:
            continue
        point = Path(fields[4].replace("\\040", " "))
        # The last mount over a place is the one that is seen.
        if (place == point or point in place.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), right.split()[0]
    return kind if kind in _NETWORK else None


def database(folder: Path) -> Path | None:
    """Return the current database inside a store's folder, or ``None`` before anything was persisted."""
    try:
        name = (folder / "current").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(folder, error) from error
    path = folder / name
    if not name.startswith("oxigraph-") or "/" in name or not path.is_dir():
        raise damaged(folder, f"{name[:80]!r} is missing")
    return path


def damaged(folder: Path, cause: object) -> KnowledgeError:
    """Return the error for a store that cannot be opened or written."""
    number = getattr(cause, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(cause) or "quota exceeded" in str(cause):
        return KnowledgeError(
            f"there is no room left for the knowledge base {folder}", hint="free some space there, and try again"
        )
    if number in (errno.EROFS, errno.EACCES, errno.EPERM) or "Read-only file system" in str(cause):
        return KnowledgeError(
            f"the knowledge base {folder} cannot be written: {getattr(cause, 'strerror', None) or cause}",
            hint="set GRAFICO_KB to a folder that you may write to",
        )
    return KnowledgeError(
        f"the knowledge base {folder} cannot be opened: {cause}",
        hint="run `grafico kb rebuild`: it makes the store anew from the run folders, which hold everything",
    )

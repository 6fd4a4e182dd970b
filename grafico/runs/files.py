"""Files that survive: folders for the owner alone, atomic replacement, publication by link, and what a full disk says."""

import errno
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grafico.errors import RunBroken, RunError
from grafico.runs.processes import machine_token, start_of

__all__ = [
    "another_folder",
    "disk_errors",
    "link_new",
    "make_folder",
    "read_bytes",
    "sweep_drafts",
    "sync_folder",
    "write_all",
    "write_atomic",
]

DRAFT = re.compile(r"\..*\.(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{8}\.tmp")
STALE_S = 86_400.0
"""Seconds after which a draft is nobody's, wherever its writer was."""

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


@contextmanager
def disk_errors(what: str, path: Path) -> Iterator[None]:
    """Turn an ``OSError`` into a :class:`RunError` that says what could not be done, and why."""
    try:
        yield
    except OSError as error:
        raise disk_error(what, path, error) from error


def disk_error(what: str, path: Path, error: OSError) -> RunError:
    """Return the error to raise for an ``OSError`` at ``path``."""
    reason = error.strerror or str(error)
    if error.errno in FULL:
        return RunBroken(
            f"{what}: the disk or the quota is full ({path}: {reason})",
            hint="free some space and try again; all that was committed is kept, and `grafico resume RUN` goes on",
        )
    hints = {
        errno.EACCES: "check who owns the run folder",
        errno.EROFS: "the file system is mounted read-only",
        errno.EIO: "the file system reports a fault; check it, then `grafico resume RUN`",
        errno.ESTALE: "the network file system lost the file; `grafico resume RUN` goes on from the journal",
    }
    kind = RunBroken if error.errno in {errno.EIO, errno.ESTALE} else RunError
    return kind(f"{what}: {reason} ({path})", hint=hints.get(error.errno or 0))


def make_folder(path: Path) -> None:
    """Create a folder that only its owner can enter (0700), with its parents; an existing one is left alone."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)
    sync_folder(path.parent)


def another_folder(recorded: str, folder: Path) -> bool:
    """Whether a record that names ``recorded`` as its folder belongs to that one, of which ``folder`` is a copy.

    A folder that was moved is no copy: the one that is named is gone.
    """
    if not recorded or recorded == str(folder):
        return False
    try:
        return not Path(recorded).samefile(folder)
    except OSError:
        return False


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable; file systems that cannot are left to their own devices."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:
            raise
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """Write every byte, or raise."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_new(path: Path, data: bytes) -> None:
    """Create ``path`` exclusively with ``data``, durable, for the owner alone; leaves nothing behind if it fails."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def temporary(path: Path, tag: str = "") -> Path:
    """Return a name beside ``path`` that nobody else uses."""
    middle = f"{tag}." if tag else ""
    return path.with_name(f".{path.name}.{middle}{machine_token()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")


def sweep_drafts(folders: Iterable[Path]) -> int:
    """Remove drafts whose writers were killed: of processes of this machine that are gone, and those older than a day.

    Parameters
    ----------
    folders
        Where to look, not below.

    Returns
    -------
    int
        How many were removed. What cannot be removed is left alone.
    """
    swept = 0
    for folder in folders:
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                draft = DRAFT.fullmatch(entry.name)
                if draft is None:
                    continue
                with suppress(OSError):
                    dead = draft["machine"] == machine_token() and start_of(int(draft["pid"])) is None
                    if dead or time.time() - entry.stat(follow_symlinks=False).st_mtime > STALE_S:
                        Path(entry.path).unlink()
                        swept += 1
    return swept


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` in one step: a reader sees the old bytes or the new ones, also after a crash."""
    draft = temporary(path)
    write_new(draft, data)
    try:
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def link_new(path: Path, data: bytes, *, tag: str = "") -> bool:
    """Publish ``data`` under ``path`` unless something is there already.

    Write, fsync, ``link``, fsync the folder: whoever links first wins, on every file system with hard links.

    Returns
    -------
    bool
        True if this call published it; False if ``path`` existed.

    Raises
    ------
    RunError
        The file system has no hard links.
    OSError
        Anything else that the system refuses.
    """
    draft = temporary(path, tag)
    write_new(draft, data)
    try:
        won = _link(draft, path)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()
    sync_folder(path.parent)
    return won


def _link(draft: Path, path: Path) -> bool:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        # A network file system may repeat a call whose answer was lost: then the name is ours all the same.
        return _same_file(draft, path)
    except OSError as error:
        if error.errno in NO_LINKS:
            raise RunError(
                f"the file system at {path.parent} has no hard links, which commits need ({error.strerror})",
                hint="put the run on another file system: `grafico run --runs FOLDER`",
            ) from error
        raise
    return True


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except FileNotFoundError:
        return False


def read_bytes(path: Path) -> bytes | None:
    """Return the bytes of a file, ``None`` if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None

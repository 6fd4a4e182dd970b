"""The folder in which a host's workers compute: on the local disk, gone with its owner, and cleared by the next otherwise.

Whoever kills everything at once, as Slurm does at the end of a job's time, leaves nobody to tidy up.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

__all__ = ["clear_left", "scratch_folder"]

PREFIX = "grafico-"
LOCK = "owner.lock"
"""Locked by the owner for as long as it lives, whatever its process id is called elsewhere."""


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a folder for temporary files of this process and its children; what dead ones left is cleared meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    threading.Thread(target=clear_left, args=(folder.parent,), name="grafico-clear", daemon=True).start()
    lock = _lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def clear_left(base: Path) -> int:
    """Remove scratch folders of ours whose owner is dead; returns how many. One that cannot be sure of is left alone."""
    cleared = 0
    for folder in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
                cleared += 1
            finally:
                os.close(lock)
    return cleared


def _lock(folder: Path) -> int | None:
    """Hold the folder's lock; it has its name only once it is held, and none where files cannot be locked."""
    with contextlib.suppress(OSError):
        lock = os.open(folder / f".{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (folder / f".{LOCK}").rename(folder / LOCK)
        except OSError:
            os.close(lock)
            raise
        return lock
    return None

"""Slots of a GPU, leased from the host: the at-most-three rule for runs that share no scheduler.

Each slot of each GPU is a file on a local disk. A calculation's process holds an advisory lock (``flock``) on its slot
while it calculates, so a lease dies with its holder. Whoever wants a slot first takes the GPU's *gate*: waiting is in
order, an exclusive calculation is not starved by small ones, and only the holder of the gate ever waits for slots, so
nobody can wait in a circle.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from pathlib import Path
from typing import NamedTuple

from grafico.errors import ProfileError

__all__ = ["Holder", "Lease", "holders", "lease_folder"]

POLL_S = 0.02

SHARED = Path("/dev/shm")  # noqa: S108 - a folder in it is checked before it is used


def lease_folder() -> Path:
    """Return the folder of this user's leases on this host: private, on a local disk.

    The same for all runs of a user, however they were started: ``XDG_RUNTIME_DIR`` is set in a login and not in a
    batch job, and ``TMPDIR`` the other way round, so neither is used. ``GRAFICO_LEASES`` names another folder.

    Raises
    ------
    ProfileError
        Somebody else owns it, or others may write to it.
    """
    given = os.environ.get("GRAFICO_LEASES")
    folder = Path(given) if given else (SHARED if SHARED.is_dir() else Path("/tmp")) / f"grafico-{os.getuid()}"  # noqa: S108 - checked below
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise ProfileError(
            f"{folder} is not a folder that only you can use, so slots of this machine cannot be leased in it: "
            "remove it, or set GRAFICO_LEASES to a private folder on a local disk",
        )
    return folder


class Holder(NamedTuple):
    """Who holds one slot."""

    pid: int
    """0 if it has not said so yet."""
    vram_mib: int


def holders(folder: Path, gpu: str) -> list[Holder]:
    """Return who holds slots of a GPU now, one entry for each slot."""
    found = []
    for path in folder.glob(f"{_name(gpu)}.slot-*"):
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(_read(file))
            finally:
                os.close(file)
    return found


class Lease:
    """One or all slots of a GPU. Made by :meth:`take`, given back by :meth:`release` or by the end of the process."""

    def __init__(self, files: list[int], slots: list[int]) -> None:
        self.files = files
        self.slots = slots

    @classmethod
    def take(cls, folder: Path, gpu: str, *, slots: int, whole: bool, need_mib: int, card_mib: int) -> "Lease":
        """Wait for a slot (or for all of them) and for enough of the card's memory, and take it.

        Parameters
        ----------
        folder
            Where the leases are.
        gpu
            The GPU's identity on this host.
        slots
            How many slots the GPU has.
        whole
            Take all of them.
        need_mib, card_mib
            GPU memory asked for, and all there is, MiB. What other holders asked for stands in their files.
        """
        name = _name(gpu)
        while True:
            taken = cls._take(folder, name, slots=slots, whole=whole, need_mib=need_mib, card_mib=card_mib)
            # Whoever tidies up (systemd at a user's last logout) may have removed the files while we waited for them:
            # others would lock new ones of the same names.
            if all(_is_at(file, folder / f"{name}.slot-{n}") for file, n in zip(taken.files, taken.slots, strict=True)):
                return taken
            taken.release()

    @classmethod
    def _take(cls, folder: Path, name: str, *, slots: int, whole: bool, need_mib: int, card_mib: int) -> "Lease":
        gate = _open(folder / f"{name}.gate")
        try:
            fcntl.flock(gate, fcntl.LOCK_EX)
            if whole:
                # Other profiles may count more slots on this GPU than ours does.
                others = [int(p.name.rpartition("-")[2]) for p in folder.glob(f"{name}.slot-*")]
                numbers = list(range(max([slots, *(n + 1 for n in others)])))
                files = [_open(folder / f"{name}.slot-{n}") for n in numbers]
                for file in files:
                    fcntl.flock(file, fcntl.LOCK_EX)
                taken = cls(files, numbers)
            else:
                taken = cls._take_one(folder, name, slots, need_mib, card_mib)
            for file in taken.files:
                _write(file, need_mib if file == taken.files[0] else 0)
            return taken
        finally:
            os.close(gate)

    @classmethod
    def _take_one(cls, folder: Path, name: str, slots: int, need_mib: int, card_mib: int) -> "Lease":
        files = [_open(folder / f"{name}.slot-{n}") for n in range(slots)]
        extra = [p for p in folder.glob(f"{name}.slot-*") if int(p.name.rpartition("-")[2]) >= slots]
        files += [_open(path) for path in extra]
        while True:
            free = [n for n, file in enumerate(files) if _try(file)]
            used = [n for n in range(len(files)) if n not in free]
            room = need_mib + sum(_read(files[n]).vram_mib for n in used) <= card_mib
            usable = [n for n in free if n < slots]
            if usable and room and len(used) < slots:
                for n, file in enumerate(files):
                    if n != usable[0]:
                        os.close(file)
                return cls([files[usable[0]]], [usable[0]])
            for n in free:
                fcntl.flock(files[n], fcntl.LOCK_UN)
            time.sleep(POLL_S)

    def release(self) -> None:
        """Give the slots back; twice is fine."""
        while self.files:
            os.close(self.files.pop())


def _is_at(file: int, path: Path) -> bool:
    """Whether an open file is still the one of this name."""
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except OSError:
        return False


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _try(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
            return False
        raise
    return True


def _write(file: int, need_mib: int) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps({"pid": os.getpid(), "vram_mib": need_mib}).encode(), 0)


def _read(file: int) -> Holder:
    try:
        said = json.loads(os.pread(file, 4096, 0))
        return Holder(int(said["pid"]), int(said["vram_mib"]))
    except (ValueError, KeyError, TypeError):
        return Holder(0, 0)  # its holder has just taken it


def _name(gpu: str) -> str:
    return "gpu-" + re.sub(r"[^A-Za-z0-9_.-]", "_", gpu)

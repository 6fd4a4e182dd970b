"""The files of an embedded store: opening its database, and changing small files so that a kill leaves old or new ones."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from grafico.errors import KnowledgeError
from grafico.knowledge.location import damaged

__all__ = ["QUADS_FILE", "clear_away", "is_torn", "opened", "run_folders", "sync", "tidy", "used", "write_file"]

QUADS_FILE = "knowledge.nq"
"""What a run knows, in its folder."""

ResultT = TypeVar("ResultT")


def is_torn(path: Path) -> bool:
    """Return whether a file does not end with a whole line."""
    data = path.read_bytes() if path.exists() else b""
    return bool(data) and not data.endswith(b"\n")


def used(folder: Path, path: Path, use: Callable[[Any], ResultT]) -> ResultT:
    """Return what ``use`` makes of a database, which is open for writing meanwhile and whole on disk afterwards."""
    store = opened(folder, path)
    try:
        result = use(store)
        store.flush()
    except OSError as error:
        raise damaged(folder, error) from error
    return result


def opened(folder: Path, path: Path) -> Any:
    """Return a database, open for writing."""
    import pyoxigraph

    try:
        return pyoxigraph.Store(str(path))
    except (OSError, RuntimeError) as error:
        if "lock" in str(error).lower() and "LOCK" in str(error):
            raise KnowledgeError(
                f"the database {path} is open in another program", hint="close it; grafico opens it under its own lock"
            ) from error
        raise damaged(folder, error) from error


def run_folders(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the run folders that have knowledge among ``folders`` and in them."""
    for folder in folders:
        if not folder.is_dir():
            raise KnowledgeError(f"{folder} is no folder", hint="name a run folder, or a folder that holds run folders")
        if (folder / QUADS_FILE).is_file():
            yield folder.resolve()
        yield from sorted(found.parent.resolve() for found in folder.glob(f"*/{QUADS_FILE}"))


def tidy(path: Path) -> None:
    """Remove old logs of a database."""
    # RocksDB keeps an old log from each time it was opened.
    for old in sorted(path.glob("LOG.old.*"))[:-3]:
        with contextlib.suppress(OSError):
            old.unlink()


def write_file(path: Path, text: str) -> None:
    """Write a small file, whole or not at all."""
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync(path.parent)


def sync(folder: Path) -> None:
    """Make what was renamed in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def clear_away(folder: Path, keep: Path | None) -> None:
    """Remove databases that are not in use: a process that was killed while it made one has left it behind."""
    for other in folder.glob("oxigraph-*"):
        if other != keep:
            shutil.rmtree(other, ignore_errors=True)

"""Files of runs by digest, and arrays that are kept in them.

An array that is too large for a literal is an ``.npy`` file under ``artifacts/`` of the run folder, where calculations
keep theirs. It is read when it is looked at, its digest is checked first, and nothing is ever unpickled.
"""

import hashlib
import io
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from grafico.calculations import ArtifactRef
from grafico.errors import KnowledgeError, QueryError

__all__ = ["NPY", "ArtifactFolder", "StoredArray", "StoredArrays", "find_artifact", "read_artifact"]

NPY = "application/x-npy"
_PIECE = 1 << 20
ReadFile = Callable[[ArtifactRef], bytes]


class ArtifactFolder:
    """The files of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def keep(self, array: Any) -> ArtifactRef:
        """Store an array, durable; storing the same again is free.

        Raises
        ------
        KnowledgeError
            It cannot be written.
        """
        import numpy

        buffer = io.BytesIO()
        numpy.save(buffer, numpy.asarray(array, order="C"), allow_pickle=False)
        return self.put(buffer.getvalue(), NPY)

    def put(self, data: bytes, media_type: str) -> ArtifactRef:
        """Store bytes, durable; storing the same again is free.

        Raises
        ------
        KnowledgeError
            They cannot be written.
        """
        ref = ArtifactRef(digest=hashlib.sha256(data).hexdigest(), media_type=media_type, size=len(data))
        path = _place(self.folder, ref)
        try:
            if not (path.is_file() and path.stat().st_size == ref.size):
                _write(path, data)
        except OSError as error:
            raise KnowledgeError(
                f"{path} cannot be written: {error.strerror}", hint="free some space or permissions, then resume"
            ) from error
        return ref

    def take(self, ref: ArtifactRef, source: IO[bytes]) -> None:
        """Store a file that comes from elsewhere, piece by piece.

        Raises
        ------
        QueryError
            It is not what its reference says; nothing is kept.
        KnowledgeError
            It cannot be written.
        """
        path = _place(self.folder, ref)
        digest, size = hashlib.sha256(), 0
        draft = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}.tmp")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with draft.open("xb") as file:
                os.fchmod(file.fileno(), 0o600)
                while (piece := source.read(_PIECE)) and size <= ref.size:
                    file.write(piece)
                    digest.update(piece)
                    size += len(piece)
                os.fsync(file.fileno())
            if size != ref.size or digest.hexdigest() != ref.digest:
                raise QueryError(f"the artifact {ref.digest[:12]} is not what its name says", hint="copy it again")
            draft.replace(path)
        except OSError as error:
            raise KnowledgeError(f"{path} cannot be written: {error.strerror or error}") from error
        finally:
            draft.unlink(missing_ok=True)


class StoredArray:
    """An array that is in a file and has not been read yet."""

    __slots__ = ("_read", "ref")

    def __init__(self, ref: ArtifactRef, read: ReadFile) -> None:
        self.ref = ref
        self._read = read

    def load(self) -> Any:
        """Return the array.

        Raises
        ------
        KnowledgeError
            The file is missing or is not what was stored, or is no ``.npy`` file without Python objects.
        """
        import numpy

        if self.ref.media_type != NPY:
            raise KnowledgeError(f"the artifact {self.ref.digest[:12]} is of type {self.ref.media_type}, not {NPY}")
        data = self._read(self.ref)
        try:
            return numpy.load(io.BytesIO(data), allow_pickle=False)
        except (ValueError, EOFError, OSError, MemoryError, OverflowError) as error:
            raise KnowledgeError(f"the artifact {self.ref.digest[:12]} holds no NumPy array: {error}") from error


class StoredArrays:
    """A list of arrays, some of them in files that have not been read yet."""

    __slots__ = ("build", "items")

    def __init__(self, build: Any, items: list[Any]) -> None:
        self.build = build
        self.items = items

    def load(self) -> Any:
        """Return the list, every array read; see :meth:`StoredArray.load`."""
        return self.build(item.load() if isinstance(item, StoredArray) else item for item in self.items)


def find_artifact(ref: ArtifactRef, folders: Iterable[Path]) -> Path:
    """Return the path of a run's file, which whoever called must not write to.

    Parameters
    ----------
    folders
        Run folders; the file is named by its digest, so any of them that has it will do.

    Raises
    ------
    KnowledgeError
        None of them has it.
    """
    looked = 0
    for folder in folders:
        looked += 1
        path = _place(folder, ref)
        with suppress(OSError):
            if path.stat().st_size == ref.size:
                return path
    raise KnowledgeError(
        f"the artifact {ref.digest[:12]} ({ref.media_type}, {ref.size} bytes) is not in any of the {looked} folders that "
        "the knowledge base knows",
        hint="bring the run folder back, or `grafico kb rebuild FOLDER` where it has been moved to",
    )


def read_artifact(ref: ArtifactRef, folders: Iterable[Path]) -> bytes:
    """Return the bytes of a run's file, whose digest was checked.

    Raises
    ------
    KnowledgeError
        None of the folders has it, or its content is another.
    """
    path = find_artifact(ref, folders)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KnowledgeError(f"the artifact {path} cannot be read: {error.strerror}") from error
    if hashlib.sha256(data).hexdigest() != ref.digest:
        raise KnowledgeError(
            f"the artifact {path} is damaged: its content does not match its name",
            hint="restore it from a copy, or run the job again",
        )
    return data


def _place(folder: Path, ref: ArtifactRef) -> Path:
    return folder / "artifacts" / ref.digest[:2] / ref.digest


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}.tmp")
    try:
        with draft.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    finally:
        draft.unlink(missing_ok=True)

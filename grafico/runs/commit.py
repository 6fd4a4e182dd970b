"""What is committed once: outcomes under their content key, artifacts under their digest.

An outcome is written to a temporary file, made durable and linked to its final name. Whoever links first wins;
everybody else is handed what is there. A calculation may start twice; it is never committed twice.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from grafico.calculations import ArtifactRef, CalculationError, FailureKind, Json, Provenance, Success
from grafico.errors import RunError
from grafico.runs.files import disk_errors, link_new, make_folder, read_bytes, sync_folder
from grafico.runs.paths import RunPaths

__all__ = ["ArtifactStore", "OutcomeStore"]

OutputT = TypeVar("OutputT", bound=BaseModel)

ARTIFACT = re.compile(rb'"digest":"([0-9a-f]{64})","media_type":"(?:[^"\\]|\\.)*","size":(\d+)[,}]')
"""A reference to an artifact, as it stands in the JSON of an output."""
ENVELOPE = re.compile(rb'\A\{"digest":"([0-9a-f]{64})","outcome":(.*)\}\n\Z', re.DOTALL)
CHUNK = 1 << 20


class OutcomeStore:
    """Committed outcomes of a run, by content key. Safe to use from many processes and hosts at once."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths
        self.damaged: list[str] = []
        """What was found damaged and moved aside, for the report."""

    def commit(self, key: str, success: Success[OutputT]) -> tuple[Success[OutputT], str]:
        """Commit an outcome; if the key has one already, that one counts.

        Returns
        -------
        tuple
            The outcome that counts, and the SHA-256 of its JSON.

        Raises
        ------
        CalculationError
            The output holds NaN or an infinity, which JSON cannot; or it could not be read back.
        RunError
            It cannot be written; nothing was committed.
        """
        success = success.model_copy(update={"key": key})
        body = _body(key, success)
        digest = hashlib.sha256(body).hexdigest()
        path = self.paths.outcome(key)
        data = b'{"digest":"%b","outcome":%b}\n' % (digest.encode(), body)
        success_type = _read_back(success, body)
        tag = f"attempt{success.provenance.attempt}"
        with disk_errors("an outcome could not be committed", path):
            make_folder(path.parent)
            while not link_new(path, data, tag=tag):
                found = self._read(key, success_type)
                if found is not None:
                    return found
        return success, digest

    def read(self, key: str, output_type: type[OutputT]) -> Success[OutputT] | None:
        """Return the committed outcome of a key, ``None`` if there is none.

        A damaged one, or one that refers to an artifact that is not there or too short, is moved aside as ``.damaged``,
        noted in :attr:`damaged`, and counts as not committed.

        Raises
        ------
        RunError
            It is whole, but not an outcome with this type of output; or it cannot be read.
        """
        found = self._read(key, Success[output_type])  # type: ignore[valid-type]
        return None if found is None else found[0]

    def digest(self, key: str) -> str | None:
        """Return the digest under which an outcome was committed, ``None`` if there is none or it is damaged."""
        with disk_errors("an outcome cannot be read", self.paths.outcome(key)):
            match = ENVELOPE.match(read_bytes(self.paths.outcome(key)) or b"")
        if match is None or hashlib.sha256(match[2]).hexdigest().encode() != match[1] or self._lacks(match[2]):
            return None
        return match[1].decode()

    def provenance(self, key: str) -> Provenance | None:
        """Return where a committed outcome came from, ``None`` if there is none or it is damaged."""
        with disk_errors("an outcome cannot be read", self.paths.outcome(key)):
            match = ENVELOPE.match(read_bytes(self.paths.outcome(key)) or b"")
        if match is None:
            return None
        try:
            return Provenance.model_validate(json.loads(match[2])["provenance"])
        except (ValueError, KeyError, TypeError):
            return None

    def artifacts(self, key: str) -> tuple[ArtifactRef, ...]:
        """Return the artifacts that a committed output refers to; none if there is no outcome or it is damaged."""
        with disk_errors("an outcome cannot be read", self.paths.outcome(key)):
            match = ENVELOPE.match(read_bytes(self.paths.outcome(key)) or b"")
        if match is None:
            return ()
        try:
            pending = [json.loads(match[2]).get("output")]
        except (ValueError, AttributeError):
            return ()
        found: dict[ArtifactRef, None] = {}
        while pending:
            value = pending.pop()
            if isinstance(value, dict):
                if value.keys() == ArtifactRef.model_fields.keys():
                    with suppress(ValidationError):
                        found[ArtifactRef.model_validate(value)] = None
                pending.extend(value.values())
            elif isinstance(value, list):
                pending.extend(value)
        return tuple(found)

    def keys(self) -> list[str]:
        """Return the keys that have a committed outcome, sorted."""
        return sorted(path.stem for path in self.paths.outcomes.glob("??/*.json"))

    def retire(self, key: str) -> None:
        """Set a committed outcome aside as ``.superseded``, so that it is computed anew.

        Only for the controller that holds the run, before its walk begins and after the journal was invalidated.
        """
        path = self.paths.outcome(key)
        number = 1
        with disk_errors("an outcome could not be set aside", path), suppress(FileNotFoundError):
            while (aside := path.with_name(f"{path.name}.superseded{'' if number == 1 else number}")).exists():
                number += 1
            path.rename(aside)
            sync_folder(path.parent)

    def _read(self, key: str, success_type: type[Success[OutputT]]) -> tuple[Success[OutputT], str] | None:
        path = self.paths.outcome(key)
        with disk_errors("an outcome cannot be read", path):
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            with os.fdopen(handle, "rb") as file:
                inode = os.fstat(handle).st_ino
                data = file.read()
        match = ENVELOPE.match(data)
        digest = hashlib.sha256(match[2]).hexdigest() if match else ""
        if match is None or digest.encode() != match[1]:
            self._set_aside(path, inode, "its digest does not match" if match else "it is no outcome file")
            return None
        if lacks := self._lacks(match[2]):
            self._set_aside(path, inode, lacks)
            return None
        try:
            success = success_type.model_validate_json(match[2])
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the whole"
            raise RunError(
                f"the committed outcome {path} does not fit the calculation's output: {where}: {first['msg']}",
                hint="change the calculation's version when its output changes, so that its key changes too",
            ) from error
        if success.key != key:
            self._set_aside(path, inode, f"it belongs to the key {success.key}")
            return None
        return success, digest

    def _lacks(self, body: bytes) -> str:
        """Return which artifact an output refers to that is not there as it was; empty if all are."""
        if b'"media_type":' not in body:
            return ""
        for digest, size in ARTIFACT.findall(body):
            path = self.paths.artifact(digest.decode())
            with disk_errors("an artifact cannot be read", path):
                found = _size(path)
            if found is None:
                return f"its artifact {path.name[:12]} is missing"
            if found != int(size):
                return f"its artifact {path.name[:12]} has {found} bytes, expected {int(size)}"
        return ""

    def _set_aside(self, path: Path, inode: int, why: str) -> None:
        self.damaged.append(f"{path.name}: {why}; moved aside as .damaged, and counted as not committed")
        with disk_errors("a damaged outcome could not be moved aside", path):
            set_aside(path, inode)


class ArtifactStore:
    """The files of a run, by the SHA-256 of their content. Implements ``calculations.Artifacts``."""

    def __init__(self, paths: RunPaths) -> None:
        self.paths = paths

    def put(self, data: bytes, media_type: str = "application/octet-stream") -> ArtifactRef:
        """Store bytes, durable; storing the same bytes again is free.

        Raises
        ------
        RunError
            They cannot be written.
        """
        ref = ArtifactRef(digest=hashlib.sha256(data).hexdigest(), media_type=media_type, size=len(data))
        path = self.paths.artifact(ref.digest)
        with disk_errors("an artifact could not be stored", path):
            while not self._kept(path, len(data)):
                make_folder(path.parent)
                link_new(path, data)
        return ref

    def path(self, ref: ArtifactRef) -> Path:
        """Return the file's path; the caller must not write to it.

        Raises
        ------
        RunError
            It is not there, or not as long as it was.
        """
        path = self.paths.artifact(ref.digest)
        try:
            size = path.stat().st_size
        except OSError as error:
            raise RunError(f"the artifact {ref.digest[:12]} is missing ({path}: {error.strerror})") from error
        if size != ref.size:
            raise RunError(f"the artifact {path} is damaged: {size} bytes, expected {ref.size}")
        return path

    def read(self, ref: ArtifactRef) -> bytes:
        """Return the bytes, verified.

        Raises
        ------
        RunError
            They are not there, or not what they were.
        """
        path = self.path(ref)
        with disk_errors("an artifact cannot be read", path):
            data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != ref.digest:
            raise RunError(f"the artifact {path} is damaged: its content does not match its name")
        return data

    def verify(self, ref: ArtifactRef) -> bool:
        """Whether the file is there and its content matches its digest; reads all of it."""
        try:
            path = self.path(ref)
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while chunk := file.read(CHUNK):
                    digest.update(chunk)
        except (OSError, RunError):
            return False
        return digest.hexdigest() == ref.digest

    @staticmethod
    def _kept(path: Path, size: int) -> bool:
        try:
            status = path.stat()
        except FileNotFoundError:
            return False
        if status.st_size == size:
            return True
        set_aside(path, status.st_ino)
        return False


def _size(path: Path) -> int | None:
    """Return a file's size, ``None`` if there is no such file."""
    with suppress(FileNotFoundError):
        return path.stat().st_size
    with suppress(FileNotFoundError):
        # A network file system may remember that a name was not there; reading the folder makes it look again.
        if path.name in os.listdir(path.parent):  # noqa: PTH208 - names are all that is wanted
            return path.stat().st_size
    return None


def set_aside(path: Path, inode: int) -> None:
    """Rename a damaged file to ``.damaged``, unless somebody has put a good one there meanwhile."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged{'' if number == 1 else number}")).exists():
        number += 1
    with suppress(FileNotFoundError):
        path.rename(aside)
        if aside.stat().st_ino != inode:
            with suppress(FileExistsError):
                path.hardlink_to(aside)
            aside.unlink()


def changed_versions(
    outcomes: OutcomeStore, keys: "list[str] | None" = None, *, current: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Compare the versions that committed outcomes used with those that are installed now.

    Parameters
    ----------
    outcomes
        The run's outcomes.
    keys
        Which ones; default all.
    current
        Name to version, as now installed. Names that are missing here are not compared.

    Returns
    -------
    dict
        For each name whose version differs: the other versions, and how many outcomes used them.
    """
    changed: dict[str, dict[str, int]] = {}
    for key in outcomes.keys() if keys is None else keys:
        provenance = outcomes.provenance(key)
        for name, version in (provenance.versions if provenance else {}).items():
            if name in current and current[name] != version:
                counts = changed.setdefault(name, {})
                counts[version] = counts.get(version, 0) + 1
    return changed


def _body(key: str, success: Success[Any]) -> bytes:
    # The output by its own type, however the success was made: a bare ``Success(...)`` knows only the bound.
    value: Json = success.model_dump(mode="json", exclude={"output"})
    value["output"] = success.output.model_dump(mode="json")
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            "the output holds a value that cannot be stored: NaN, an infinity or a broken character",
            details={"key": key, "reason": str(error)},
        ) from error


def _read_back(success: Success[OutputT], body: bytes) -> type[Success[OutputT]]:
    """Return the type with which an outcome is read, after trying it: what cannot be read must not be committed."""
    kind = type(success)
    arguments = kind.__pydantic_generic_metadata__["args"]
    success_type: Any = kind if arguments else Success[type(success.output)]  # type: ignore[misc]
    try:
        success_type.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CalculationError(
            FailureKind.ENGINE_ERROR,
            f"the output cannot be read back from its JSON: {where}: {first['msg']}",
            details={"key": success.key},
        ) from error
    return cast(type[Success[OutputT]], success_type)

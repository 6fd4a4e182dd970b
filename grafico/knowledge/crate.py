"""RO-Crates from outside: which knowledge and files they hold, read without trusting them.

A crate is a folder or a zip file with ``ro-crate-metadata.json`` (https://www.researchobject.org/ro-crate/). Only what
its metadata name is read, nothing is unpacked, and nothing outside the crate is touched.
"""

import hashlib
import json
import lzma
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote

from grafico.calculations import ArtifactRef
from grafico.errors import QueryError
from grafico.knowledge.formats import FORMATS, Format
from grafico.knowledge.importing import MAX_IMPORT_BYTES, Imported, import_quads, read_rdf
from grafico.knowledge.vocabulary import GRAFICO

if TYPE_CHECKING:
    from grafico.knowledge.remote import RemoteKnowledgeBase
    from grafico.knowledge.store import KnowledgeBase

__all__ = ["METADATA", "import_crate", "is_crate"]

METADATA = "ro-crate-metadata.json"
MAX_METADATA_BYTES = 64 * 1024**2
MAX_MEMBERS = 200_000
MAX_RATIO = 200
"""N-Quads are packed to a twentieth; what is packed to a thousandth is there to fill a memory."""
_RDF_TYPES = {
    "application/n-quads": "n-quads",
    "application/trig": "trig",
    "text/turtle": "turtle",
    "application/n-triples": "n-triples",
    "application/ld+json": "json-ld",
    "application/rdf+xml": "rdf-xml",
}
_DIGEST = re.compile(r"[0-9a-f]{64}")
_DIGITS = re.compile(r"[0-9]{1,18}")
_DAMAGED = (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError)
"""What reading a zip file raises that is damaged, or packed in a way that is not known here."""


def is_crate(path: Path) -> bool:
    """Return whether a path looks like an RO-Crate: a folder with its metadata, or a zip file."""
    return (path / METADATA).is_file() if path.is_dir() else path.suffix.lower() == ".zip"


def import_crate(knowledge: "KnowledgeBase | RemoteKnowledgeBase", path: Path) -> Imported:
    """Import the RDF files of an RO-Crate, and the files of runs that they name, under the IRIs that they have.

    Raises
    ------
    QueryError
        It is no crate, holds no RDF, a file is not what its metadata say, or it reaches outside of itself.
    Conflict
        The store holds one of its graphs, and it says something else there.
    """
    with _opened(path) as crate:
        files = _files(crate)
        quads: list[Any] = []
        seen = hashlib.sha256()
        room = MAX_IMPORT_BYTES
        for name, said, format_ in _knowledge_of(files):
            data = _checked(crate, name, said, room)
            room -= len(data)
            seen.update(hashlib.sha256(data).digest())
            quads += read_rdf(data, format_, f"{path}: {name}")
        if not quads:
            raise QueryError(
                f"{path} is an RO-Crate, but holds no RDF that could be imported",
                hint="crates of `grafico kb export --format ro-crate` hold knowledge.nq",
            )
        named = _artifacts_named(quads)
        artifacts: dict[ArtifactRef, Callable[[], IO[bytes]]] = {}
        for name, said in files.items():
            digest = PurePosixPath(name).name
            if name.startswith("artifacts/") and digest in named:
                size = crate.size(name)
                _check_size(path, name, said, size)
                if size != named[digest].size:
                    raise QueryError(
                        f"{path}: {name} has {size} bytes, and its knowledge says {named[digest].size}", hint=_CHANGED
                    )
                artifacts[named[digest]] = _opener(crate, name)
        return import_quads(knowledge, quads, source=str(path), digest=seen.hexdigest(), artifacts=artifacts)


class _Folder:
    """A crate in a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._root = path.resolve()

    def _place(self, name: str) -> Path:
        try:
            place = (self._root / name).resolve()
            there = place.is_file()
        except (OSError, RuntimeError, ValueError) as error:
            # Too long for a name, a circle of links, or no text.
            raise QueryError(f"{self.path}: {name!r:.200} can be no file: {str(error)[:100]}") from error
        if not place.is_relative_to(self._root):
            raise QueryError(f"{self.path}: {name} leads out of the crate", hint="it was not made by an honest program")
        if not there:
            raise QueryError(f"{self.path}: its metadata name {name}, which is not there", hint="copy the crate whole")
        return place

    def size(self, name: str) -> int:
        """Return a file's size."""
        return self._place(name).stat().st_size

    def open(self, name: str) -> IO[bytes]:
        """Open a file."""
        return self._place(name).open("rb")


class _Zip:
    """A crate in a zip file."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        members = archive.infolist()
        if len(members) > MAX_MEMBERS:
            raise QueryError(f"{path} holds {len(members)} files; at most {MAX_MEMBERS} are read")
        self._members: dict[str, zipfile.ZipInfo] = {}
        for member in members:
            if member.filename in self._members:
                raise QueryError(f"{path} holds {member.filename!r} twice")
            self._members[member.filename] = member

    def _member(self, name: str) -> zipfile.ZipInfo:
        member = self._members.get(name)
        if member is None or member.is_dir():
            raise QueryError(f"{self.path}: its metadata name {name}, which is not there", hint="copy the crate whole")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise QueryError(f"{self.path}: {name} is a link, which could lead out of the crate")
        if member.flag_bits & 0x1:
            raise QueryError(f"{self.path}: {name} is encrypted", hint="unpack it, and import the folder")
        if member.file_size > 2 * MAX_METADATA_BYTES and member.file_size > MAX_RATIO * member.compress_size:
            raise QueryError(
                f"{self.path}: {name} unpacks to {member.file_size // max(member.compress_size, 1)} times its size",
                hint="no real data do; if these are, unpack it, and import the folder",
            )
        return member

    def size(self, name: str) -> int:
        """Return a file's size, as the archive says."""
        return self._member(name).file_size

    def open(self, name: str) -> IO[bytes]:
        """Open a file."""
        return self._archive.open(self._member(name))


@contextmanager
def _opened(path: Path) -> Iterator["_Folder | _Zip"]:
    if not path.exists():
        raise QueryError(f"{path} does not exist")
    if path.is_dir():
        if not (path / METADATA).is_file():
            raise QueryError(f"{path} is no RO-Crate: it has no {METADATA}")
        yield _Folder(path)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            crate = _Zip(path, archive)
            if METADATA not in archive.namelist():
                deeper = any(name.endswith(f"/{METADATA}") for name in archive.namelist())
                raise QueryError(
                    f"{path} is no RO-Crate: it has no {METADATA} at its top",
                    hint="unpack it, and import the folder that has it" if deeper else None,
                )
            yield crate
    except _DAMAGED as error:
        raise QueryError(f"{path} is no zip file that can be read: {error}", hint="was it copied whole?") from error
    except OSError as error:
        raise QueryError(f"{path} cannot be read: {error.strerror or error}") from error


def _limited(crate: "_Folder | _Zip", name: str, limit: int) -> bytes:
    # What an archive says of a size is not believed: one byte more than the limit is enough to know.
    with crate.open(name) as file:
        try:
            data = file.read(limit + 1)
        except (*_DAMAGED, OSError, ValueError) as error:
            raise QueryError(f"{crate.path}: {name} is damaged: {error}", hint="was it copied whole?") from error
    if len(data) > limit:
        raise QueryError(
            f"{crate.path}: {name} has more than {limit} bytes, which is what may be read of it",
            hint="import it in parts",
        )
    return data


def _files(crate: "_Folder | _Zip") -> dict[str, dict[str, Any]]:
    """Return what the metadata say of each file in the crate, by its path."""
    try:
        said = json.loads(_limited(crate, METADATA, MAX_METADATA_BYTES))
        graph = said["@graph"]
        entities = {str(entity["@id"]): entity for entity in graph}
        root = entities[METADATA]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise QueryError(f"{crate.path}: {METADATA} does not describe an RO-Crate ({error!r:.200})") from error
    conforms = root.get("conformsTo", [])
    named = conforms if isinstance(conforms, list) else [conforms]
    versions = [one.get("@id", "") if isinstance(one, dict) else one for one in named]
    if not any(str(version).startswith("https://w3id.org/ro/crate/") for version in versions):
        raise QueryError(f"{crate.path}: {METADATA} conforms to no version of RO-Crate")
    found = {}
    for iri, entity in entities.items():
        kinds = entity.get("@type", [])
        if "File" in (kinds if isinstance(kinds, list) else [kinds]) and "://" not in iri:
            found[_safe(iri, crate.path)] = entity
    return found


def _safe(iri: str, crate: Path) -> str:
    name = unquote(iri).removeprefix("./")
    parts = name.split("/")
    if (
        not name
        or name.startswith("/")
        or "\\" in name
        or "\0" in name
        or any(part in ("", ".", "..") for part in parts)
    ):
        raise QueryError(f"{crate}: {iri!r:.200} leads out of the crate", hint="it was not made by an honest program")
    return name


def _knowledge_of(files: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any], Format]]:
    for name, said in sorted(files.items()):
        media = said.get("encodingFormat", "")
        media = [one for one in (media if isinstance(media, list) else [media]) if isinstance(one, str)]
        known = next((_RDF_TYPES[one.partition(";")[0]] for one in media if one.partition(";")[0] in _RDF_TYPES), None)
        if known is None and PurePosixPath(name).suffix.lower() in (".nq", ".trig", ".ttl"):
            known = next(f.name for f in FORMATS.values() if PurePosixPath(name).suffix.lower() in f.extensions)
        if known is not None and name != METADATA:
            yield name, said, FORMATS[known]


def _checked(crate: "_Folder | _Zip", name: str, said: dict[str, Any], room: int) -> bytes:
    data = _limited(crate, name, room)
    _check_size(crate.path, name, said, len(data))
    digest = str(said.get("sha256", ""))
    if digest and digest.lower() != hashlib.sha256(data).hexdigest():
        raise QueryError(f"{crate.path}: {name} is not what its metadata say: its SHA-256 is another", hint=_CHANGED)
    return data


_CHANGED = "it was changed after it was exported, or damaged on the way"


def _check_size(path: Path, name: str, said: dict[str, Any], size: int) -> None:
    stated = _count(str(said.get("contentSize", "")).strip())
    if stated is not None and stated != size:
        raise QueryError(f"{path}: {name} has {size} bytes, and its metadata say {stated}", hint=_CHANGED)


def _count(text: str) -> int | None:
    """Return the number of bytes that a text tells; other texts tell none."""
    return int(text) if _DIGITS.fullmatch(text) else None


def _artifacts_named(quads: list[Any]) -> dict[str, ArtifactRef]:
    """Return the files of runs that triples describe, by digest."""
    said: dict[str, dict[str, str]] = {}
    for quad in quads:
        name = quad.predicate.value.removeprefix(GRAFICO)
        if name in ("sha256", "size", "mediaType"):
            said.setdefault(quad.subject.value, {})[name] = quad.object.value
    found = {}
    for one in said.values():
        size = _count(one.get("size", ""))
        if len(one) == 3 and _DIGEST.fullmatch(one["sha256"]) and size is not None:
            ref = ArtifactRef(digest=one["sha256"], size=size, media_type=one["mediaType"])
            found[ref.digest] = ref
    return found


def _opener(crate: "_Folder | _Zip", name: str) -> Callable[[], IO[bytes]]:
    return lambda: crate.open(name)

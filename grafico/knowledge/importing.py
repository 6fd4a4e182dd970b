"""Knowledge from outside: RDF files of any origin, brought into a store with the IRIs that they have.

What is imported gets a folder of its own under ``imports/`` of the store, like that of a run, so that
``grafico kb rebuild`` finds it again. Names of blank nodes mean nothing outside a file; here they become IRIs.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import Field

from grafico.calculations import ArtifactRef, Model
from grafico.errors import KnowledgeError, QueryError
from grafico.knowledge.disk import QUADS_FILE, write_file
from grafico.knowledge.endpoint import Uncertain
from grafico.knowledge.files import ArtifactFolder
from grafico.knowledge.formats import Format, format_of
from grafico.knowledge.merge import by_graph
from grafico.knowledge.rdf_child import REFUSED
from grafico.knowledge.vocabulary import SCHEMA, iri_term, literal_term

if TYPE_CHECKING:
    from grafico.knowledge.remote import RemoteKnowledgeBase
    from grafico.knowledge.store import KnowledgeBase

__all__ = ["MAX_IMPORT_BYTES", "Imported", "import_file", "import_quads", "read_rdf"]

MAX_IMPORT_BYTES = 2 * 1024**3
"""A larger file is a mistake, or is to be loaded by the tools of the store."""


class Imported(Model):
    """What an import brought."""

    source: str = Field(description="file or folder")
    graphs: tuple[str, ...] = Field(description="IRIs of the graphs that it is in now")
    triples: int = Field(ge=0, description="triples of the source, classes and properties included")
    added: int = Field(ge=0, description="triples that the store did not hold; 0 when it was imported before")
    artifacts: int = Field(default=0, ge=0, description="files that came with it")


def import_file(
    knowledge: "KnowledgeBase | RemoteKnowledgeBase", path: Path, *, format_name: str | None = None
) -> Imported:
    """Import an RDF file.

    Triples outside any graph go into the graph of the run that they describe, if they describe one, else into a graph
    that is named by the file's content.

    Raises
    ------
    QueryError
        The file is missing, too large, of an unknown format, malformed, or holds nothing; says where.
    Conflict
        The store holds one of its graphs, and it says something else there.
    KnowledgeError
        The store cannot be written.
    """
    data, format_ = _read(path, format_name)
    return import_quads(knowledge, read_rdf(data, format_, str(path)), source=str(path), digest=_digest(data))


def import_quads(
    knowledge: "KnowledgeBase | RemoteKnowledgeBase",
    quads: Iterable[Any],
    *,
    source: str,
    digest: str,
    artifacts: Mapping[ArtifactRef, Callable[[], IO[bytes]]] | None = None,
) -> Imported:
    """Import quads that :func:`read_rdf` returned, with the files that they name; see :func:`import_file`."""
    found = set(quads)
    coming = by_graph(found)
    graphs = tuple(sorted(graph.value for graph in coming))
    _check_schemas(found, source)
    held = knowledge.held(coming, source)
    files = artifacts or {}
    told = Imported(source=source, graphs=graphs, triples=len(found), added=0, artifacts=len(files))
    if len(held) == len(graphs) and all(_is_here(knowledge, ref) for ref in files):
        return told
    folder = knowledge.folder / "imports" / digest[:32]
    fresh = not folder.exists()
    with _draft(folder, files) as draft:

        def keep(held: frozenset[str]) -> Path:
            # What a run folder holds already stays its own: a copy would speak for it when the store is made anew.
            kept = (quad for quad in found if len(held) == len(graphs) or quad.graph_name.value not in held)
            return _settled(draft, folder, "".join(sorted(f"{quad} .\n" for quad in kept)))

        try:
            loaded = knowledge.admit(coming, source, keep)
        except Uncertain:
            raise  # what was written may need its files
        except BaseException:
            if fresh:
                shutil.rmtree(folder, ignore_errors=True)
            raise
    return told.model_copy(update={"added": loaded.added})


def read_rdf(data: bytes, format_: Format, where: str) -> list[Any]:
    """Return the quads of an RDF text, all in named graphs and without blank nodes. Nothing is fetched from elsewhere.

    A process of its own reads it: a text that is nested too deeply ends the parser together with its process.

    Raises
    ------
    QueryError
        It is malformed, holds nothing, or holds what the store cannot; says where.
    """
    done = subprocess.run(
        [sys.executable, "-P", "-m", "grafico.knowledge.rdf_child", format_.name, where],
        input=data,
        capture_output=True,
        check=False,
    )
    if done.returncode == REFUSED:
        reply = json.loads(done.stdout)
        raise QueryError(reply["message"], hint=reply["hint"])
    if done.returncode != 0:
        raise QueryError(
            f"{where} cannot be read: it is nested too deeply, or needs too much memory or time (its reader ended with "
            f"{done.returncode})"
        )
    return list(_parsed(done.stdout))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read(path: Path, format_name: str | None) -> tuple[bytes, Format]:
    if path.is_dir():
        raise QueryError(f"{path} is a folder, but no RO-Crate: it has no ro-crate-metadata.json")
    if not path.exists():
        raise QueryError(f"{path} does not exist")
    if not path.is_file():
        raise QueryError(f"{path} is no regular file")
    format_ = format_of(path, format_name)
    try:
        if path.stat().st_size > MAX_IMPORT_BYTES:
            raise QueryError(f"{path} is larger than {MAX_IMPORT_BYTES // 1024**3} GiB", hint="import it in parts")
        return path.read_bytes(), format_
    except OSError as error:
        raise QueryError(f"{path} cannot be read: {error.strerror}") from error


def _check_schemas(quads: set[Any], source: str) -> None:
    # Graphs of schemas are named by their content and never looked at again, so a false one would stay.
    stated: dict[str, list[str]] = {}
    for quad in quads:
        if quad.graph_name.value.startswith(SCHEMA):
            value = quad.object
            term = iri_term(value.value) if not hasattr(value, "datatype") else _literal(value)
            line = f"{iri_term(quad.subject.value)} {iri_term(quad.predicate.value)} {term} {iri_term(SCHEMA)} .\n"
            stated.setdefault(quad.graph_name.value, []).append(line)
    for name, lines in stated.items():
        if _digest("".join(sorted(lines)).encode())[:16] != name.removeprefix(SCHEMA):
            raise QueryError(
                f"{source}: the classes and properties in <{name}> are not those that the name stands for",
                hint="leave that graph out, or export the file again",
            )


def _literal(value: Any) -> str:
    datatype = value.datatype.value
    return literal_term(value.value, None if datatype.endswith("#string") else datatype)


def _is_here(knowledge: Any, ref: ArtifactRef) -> bool:
    try:
        knowledge.read_artifact(ref)
    except KnowledgeError:
        return False
    return True


def _parsed(data: bytes) -> Iterable[Any]:
    import pyoxigraph

    return pyoxigraph.parse(input=data, format=pyoxigraph.RdfFormat.N_QUADS)


@contextmanager
def _draft(folder: Path, artifacts: Mapping[ArtifactRef, Callable[[], IO[bytes]]]) -> Iterator[Path]:
    """Make the folder that an import gets, with its files; what is left of it afterwards is removed."""
    draft = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        with _written(folder):
            draft.mkdir(mode=0o700, parents=True)
            _clear_away(folder.parent)
            room, needed = shutil.disk_usage(draft).free, sum(ref.size for ref in artifacts)
        if needed > room:
            raise KnowledgeError(
                f"the files to be imported need {needed} bytes, and {folder.parent} has room for {room}",
                hint="free some space",
            )
        for ref, open_ in artifacts.items():
            with open_() as source:
                ArtifactFolder(draft).take(ref, source)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _settled(draft: Path, folder: Path, text: str) -> Path:
    with _written(folder):
        write_file(draft / QUADS_FILE, text)
        for last in (False, False, True):
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)
            try:
                draft.rename(folder)
            except OSError:
                # Somebody who imports the same was faster.
                if last:
                    raise
            else:
                break
    return folder / QUADS_FILE


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KnowledgeError(
            f"{folder} cannot be written: {error.strerror or error}", hint="is there room, and may you write there?"
        ) from error


def _clear_away(imports: Path) -> None:
    """Remove what imports have left behind that were killed more than a day ago."""
    for other in imports.glob(".*-*"):
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > 24 * 3600:
                shutil.rmtree(other)

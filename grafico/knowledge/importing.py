"""Knowledge from outside: RDF files of any origin, brought into a store with the IRIs that they have.

What is imported gets a folder of its own under ``imports/`` of the store, like that of a run, so that
``grafico kb rebuild`` finds it again. Names of blank nodes mean nothing outside a file; here they become IRIs.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pydantic import Field

from grafico.calculations import ArtifactRef, Model
from grafico.errors import Conflict, KnowledgeError, QueryError
from grafico.knowledge.files import ArtifactFolder
from grafico.knowledge.formats import Format, format_of
from grafico.knowledge.location import default_folder
from grafico.knowledge.rdf_child import REFUSED
from grafico.knowledge.vocabulary import SCHEMA, iri_term, literal_term, shorten

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
    names = sorted({quad.graph_name.value for quad in found})
    graphs = [name for name in names if not name.startswith(SCHEMA)]
    _check_schemas(found, source)
    held = _check_held(knowledge, found, graphs, source)
    files = artifacts or {}
    if len(held) == len(graphs) and all(_is_here(knowledge, ref) for ref in files):
        return Imported(source=source, graphs=tuple(graphs), triples=len(found), added=0, artifacts=len(files))
    # What a run folder holds already stays its own: a copy would speak for it when the store is made anew.
    kept = [quad for quad in found if len(held) == len(graphs) or quad.graph_name.value not in held]
    home = Path(knowledge.folder) if hasattr(knowledge, "folder") else default_folder()
    folder = home / "imports" / digest[:32]
    fresh = not folder.exists()
    _write(folder, "".join(sorted(f"{quad} .\n" for quad in kept)), files)
    try:
        loaded = knowledge.load_run(folder / "knowledge.nq")
    except BaseException:
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return Imported(
        source=source,
        graphs=tuple(graphs),
        triples=len(found),
        added=loaded.added,
        artifacts=len(files),
    )


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


def _check_held(knowledge: Any, quads: set[Any], graphs: list[str], source: str) -> list[str]:
    """Return which graphs the store holds already, all of them with what the source says."""
    from grafico.knowledge.query import Term

    held = [
        name
        for name in graphs
        if knowledge.query("ASK { GRAPH ?g { ?s ?p ?o } }", bind={"g": Term(type="uri", value=name)}).boolean
    ]
    if not held:
        return []
    there = _stored(_parsed(knowledge.dump().encode()), held)
    came = _stored(quads, held)
    for name in held:
        if there[name] != came[name]:
            raise Conflict(
                f"the knowledge base holds {shorten(name)} already, and {source} says something else of it "
                f"({len(came[name] - there[name])} triples more, {len(there[name] - came[name])} fewer)",
                hint="import it into a store of its own with --store; `grafico kb rebuild` loads run folders anew",
            )
    return held


def _parsed(data: bytes) -> Iterable[Any]:
    import pyoxigraph

    return pyoxigraph.parse(input=data, format=pyoxigraph.RdfFormat.N_QUADS)


def _stored(quads: Iterable[Any], graphs: list[str]) -> dict[str, set[Any]]:
    # Numbers and times are kept as values, so that they are compared as such.
    import pyoxigraph

    store = pyoxigraph.Store()
    store.bulk_extend(quad for quad in quads if quad.graph_name.value in graphs)
    found: dict[str, set[Any]] = {name: set() for name in graphs}
    for quad in store:
        found[quad.graph_name.value].add(quad)
    return found


def _write(folder: Path, text: str, artifacts: Mapping[ArtifactRef, Callable[[], IO[bytes]]]) -> None:
    draft = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    try:
        draft.mkdir(mode=0o700, parents=True)
        for ref, open_ in artifacts.items():
            with open_() as source:
                ArtifactFolder(draft).take(ref, source)
        (draft / "knowledge.nq").write_text(text, encoding="utf-8")
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
        draft.rename(folder)
    except OSError as error:
        raise KnowledgeError(f"{folder} cannot be written: {error.strerror}", hint="free some space") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)

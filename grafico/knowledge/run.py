"""What one run knows: N-Quads in its folder, and an index of them in the store."""

import asyncio
import hashlib
import logging
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from grafico.errors import KnowledgeError
from grafico.knowledge.entity import Entity
from grafico.knowledge.fetch import COMMITTED
from grafico.knowledge.files import ArtifactFolder
from grafico.knowledge.mapper import TYPE, Description, describe, n_quads
from grafico.knowledge.opening import Store
from grafico.knowledge.provenance import Execution, run_iri
from grafico.knowledge.schema import schema_of
from grafico.knowledge.store import QUADS_FILE
from grafico.knowledge.vocabulary import GRAFICO, PROV, RDF, SCHEMA, XSD, iri_term, literal_term

__all__ = ["RunKnowledge"]

KEY, PRODUCED = iri_term(GRAFICO + "key"), iri_term(GRAFICO + "produced")
GENERATED, USED, CONTENT = iri_term(PROV + "generated"), iri_term(PROV + "used"), iri_term(GRAFICO + "content")

_log = logging.getLogger(__name__)


class RunKnowledge:
    """The knowledge of a run; implements ``Persist`` of ``graphs/``.

    Each call commits ``knowledge.nq`` in the run folder, whole or not at all, and then loads it into the store. The
    file is the truth: if the store cannot be reached, the run goes on, the reason is logged and kept in
    :attr:`problems`, and ``grafico kb rebuild`` catches up.

    Parameters
    ----------
    folder
        The run folder.
    run_id
        What identifies the run; default: what the folder's file says, else derived from the folder's place.
    store
        The knowledge base to index in; None for none.
    """

    def __init__(self, folder: Path, *, run_id: str | None = None, store: Store | None = None) -> None:
        self.folder = folder
        self._files = ArtifactFolder(folder)
        self.store = store
        self.problems: list[str] = []
        self.before_writing: Callable[[], None] = lambda: None
        """Called before the file is replaced; raises where this process may no longer change the run."""
        self._lock = threading.Lock()
        self._graph, self._held, self._committed = _read(folder / QUADS_FILE)
        if run_id is not None or self._graph is None:
            self._graph = run_iri(run_id or _id_of(folder))
        self._touched: set[str] = set()
        self._roots: set[str] = set()

    @property
    def graph(self) -> str:
        """IRI of the run and of its graph."""
        assert self._graph is not None
        return self._graph

    @property
    def path(self) -> Path:
        """The file that holds what the run knows."""
        return self.folder / QUADS_FILE

    async def persist(self, entities: Sequence[Entity]) -> Sequence[str]:
        """Persist entities and all that they refer to; return the IRIs of ``entities``.

        What the run has said about one of them before is replaced. Persisting the same again writes nothing.

        Raises
        ------
        KnowledgeError
            An entity has no form in the graph, or the run folder cannot be written.
        """
        return await asyncio.to_thread(self.persist_now, entities)

    def persist_now(self, entities: Iterable[Entity]) -> list[str]:
        """Persist from code that is not asynchronous; see :meth:`persist`."""
        roots = list(entities)
        description = describe(roots, keep=self._files.keep)
        with self._lock:
            merged = {**self._held, **description}
            self._touched.update(description)
            self._roots.update(root.iri for root in roots)
            self._commit(merged)
        return [root.iri for root in roots]

    async def finish(
        self,
        entities: Sequence[Entity] = (),
        *,
        consumed: Mapping[str, Collection[str]] | None = None,
        made: Mapping[str, Collection[str]] | None = None,
    ) -> None:
        """Persist the last entities (the :class:`~grafico.knowledge.provenance.Run`) and drop what no walk stands for.

        After a resume, what an invalidated part of the run had persisted is still in the file. Call this when the
        walk has ended: everything that was not persisted again since this object was made goes. What was persisted is
        linked to where it came from and what it went into: to its run, to each execution whose content key or file it
        names, and to those whose output or input held it to the bit.

        Parameters
        ----------
        entities
            The run and its executions and routes.
        consumed, made
            What the input and the output of each execution (by IRI) held, as
            :func:`~grafico.calculations.contents_of` names it; compared with the ``grafico:content`` of what was
            persisted.
        """

        def last() -> None:
            description = describe(entities, keep=self._files.keep)
            with self._lock:
                self._touched.update(description)
                merged = {**self._held, **description}
                kept = {subject: pairs for subject, pairs in merged.items() if subject in self._touched}
                held = ((USED, consumed or {}), (GENERATED, made or {}))
                self._commit(self._linked(_with_contents(kept, held)))

        await asyncio.to_thread(last)

    def _linked(self, description: Description) -> Description:
        executions = {s for s, pairs in description.items() if (TYPE, iri_term(Execution.class_iri())) in pairs}
        clues: dict[tuple[str, str], set[str]] = {}
        for execution in executions:
            for predicate, value in description[execution]:
                if predicate in (KEY, PRODUCED):
                    clues.setdefault((predicate, value), set()).add(execution)
        made: dict[str, set[tuple[str, str]]] = {}
        for subject, pairs in description.items():
            if subject not in executions:
                for predicate, value in pairs:
                    clue = (KEY if predicate == KEY else PRODUCED, value)
                    for execution in clues.get(clue, ()):
                        made.setdefault(execution, set()).add((GENERATED, subject))
        linked = description | {execution: description[execution] | pairs for execution, pairs in made.items()}
        run = iri_term(self.graph)
        if run in description:
            linked[run] = description[run] | {(GENERATED, iri_term(iri)) for iri in self._roots}
        return linked

    def _commit(self, description: Description) -> None:
        if description != self._held or not self.path.exists():
            before = self._held, self._committed
            self._held, self._committed = description, datetime.now(UTC).isoformat()
            try:
                _write(self.path, self._text(), self.before_writing)
            except BaseException:
                self._held, self._committed = before  # what is on disk, so that the next call writes
                raise
        if self.store is None:
            return
        try:
            self.store.load_run(self.path)
        except KnowledgeError as error:
            problem = f"the run's knowledge is safe in {self.path}, but the store was not updated: {error.message}"
            self.problems.append(problem)
            _log.warning("%s; `grafico kb rebuild` catches up", problem)

    def _text(self) -> str:
        schema = schema_of(_types(self._held))
        digest = hashlib.sha256(n_quads(schema, SCHEMA).encode()).hexdigest()[:16]
        own = {iri_term(self.graph): frozenset({(iri_term(COMMITTED), _moment(self._committed))})}
        stated = dict(self._held)
        for subject, pairs in own.items():
            stated[subject] = stated.get(subject, frozenset()) | pairs
        return n_quads(stated, self.graph) + n_quads(schema, f"{SCHEMA}{digest}")


def _with_contents(description: Description, held: Iterable[tuple[str, Mapping[str, Collection[str]]]]) -> Description:
    subjects: dict[str, set[str]] = {}
    for subject, pairs in description.items():
        for predicate, value in pairs:
            if predicate == CONTENT:
                subjects.setdefault(value, set()).add(subject)
    linked = dict(description)
    for predicate, contents in held:
        for iri, names in contents.items():
            execution = iri_term(iri)
            found = {(predicate, subject) for name in names for subject in subjects.get(literal_term(name), ())}
            if execution in linked:
                linked[execution] = linked[execution] | found
    return linked


def _moment(text: str) -> str:
    return literal_term(text, XSD + "dateTime")


def _types(description: Description) -> set[str]:
    return {o[1:-1] for pairs in description.values() for p, o in pairs if p == f"<{RDF}type>"}


def _read(path: Path) -> tuple[str | None, Description, str]:
    import pyoxigraph

    held: dict[str, set[tuple[str, str]]] = {}
    graph, committed = None, ""
    try:
        with path.open("rb") as file:
            for quad in pyoxigraph.parse(input=file, format=pyoxigraph.RdfFormat.N_QUADS):
                name = getattr(quad.graph_name, "value", "")
                if name.startswith(SCHEMA):
                    continue
                graph = name
                if quad.predicate.value == COMMITTED:
                    committed = quad.object.value
                else:
                    held.setdefault(str(quad.subject), set()).add((str(quad.predicate), str(quad.object)))
    except FileNotFoundError:
        return None, {}, ""
    except (OSError, SyntaxError, ValueError) as error:
        # It is written anew from what the walk persists again.
        _log.warning("%s cannot be read and is written anew: %s", path, error)
        return None, {}, ""
    return graph or None, {subject: frozenset(pairs) for subject, pairs in held.items()}, committed


def _id_of(folder: Path) -> str:
    place = hashlib.sha256(f"{os.uname().nodename}:{folder.resolve()}".encode()).hexdigest()[:16]
    return f"{folder.resolve().name}-{place}"


def _write(path: Path, text: str, before_replacing: Callable[[], None]) -> None:
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        before_replacing()
        temporary.replace(path)
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise KnowledgeError(
            f"{path} cannot be written: {error.strerror}", hint="free some space or permissions, then resume the run"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)

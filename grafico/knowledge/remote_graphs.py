"""The graphs of a remote store: read together with their state, changed only if the state is still the same.

One update request changes a graph, the merge in the default graph (where the server keeps that apart), and notes a
revision of the graph: a number and a mark. The request says which state it is for, so sending it twice does nothing, and
afterwards the mark tells whether it was made. Old revisions are kept for a while, so that a slow client finds its own.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grafico.errors import KnowledgeError
from grafico.knowledge.conflicts import Pairs
from grafico.knowledge.endpoint import Endpoint, Uncertain
from grafico.knowledge.merge import as_stored, data
from grafico.knowledge.persist import REVISION, Change, Held
from grafico.knowledge.vocabulary import BASE, GRAFICO, RDF, XSD, iri_term

__all__ = ["BOOKKEEPING", "MARKER", "RemoteGraphs", "unchanged"]

MARKER = BASE + "store"
"""A graph that tells whether the default graph shows what named graphs hold, and whether numbers stay what they are."""

BATCH = 1000
KEPT = 40
PAST = GRAFICO + "pastRevision"
BOOKKEEPING = (REVISION, PAST)
COPY_ALL = 2000
"""Quads from which on the merge is made from the whole graph."""
NUMBER = GRAFICO + "exactNumber"
EXACT = 0.1 + 0.2
"""A double with 17 digits, which servers that round give back as another one."""
_READS = 8
_ALWAYS = "VALUES ?always { 1 }"
"""Stands before FILTER NOT EXISTS: Virtuoso takes no notice of one that is alone in its group."""
_AGAIN = "persist again: what was written is not written twice"


@dataclass(frozen=True, slots=True)
class _State:
    pairs: Pairs
    """Revisions of the graph."""
    raw: dict[Any, Any]
    """The server's own form of quads that it writes in another way."""


class RemoteGraphs:
    """Implements :class:`~grafico.knowledge.persist.Graphs` over an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._schemas: set[Any] = set()
        self._apart: bool | None = None

    @property
    def place(self) -> str:
        """The address."""
        return self._endpoint.address.url

    def read(self, graph: str, subjects: Collection[str]) -> Held:
        """Return what a graph says of subjects, and of itself."""
        wanted = sorted(set(subjects) - {graph})
        for _ in range(_READS):
            states: set[Pairs] = set()
            pairs: dict[str, Pairs] = {}
            raw: dict[Any, Any] = {}
            for start in range(0, len(wanted) or 1, BATCH):
                some = self._read_some(graph, [graph, *wanted[start : start + BATCH]], raw)
                own = some.get(graph, frozenset())
                states.add(frozenset(pair for pair in own if pair[0].value in BOOKKEEPING))
                pairs.update(some)
            if len(states) == 1:
                state = states.pop()
                return Held(pairs, _State(state, raw), frozenset(value for _, value in state))
        raise KnowledgeError(f"{self.place}: <{graph}> changes faster than it can be read", hint="try again later")

    def whole(self, graph: str) -> tuple[set[Any], dict[Any, Any]]:
        """Return all quads of a graph, and the server's own form of those that it writes in another way."""
        import pyoxigraph

        name = pyoxigraph.NamedNode(graph)
        rows = self._endpoint.select(f"SELECT ?s ?p ?o {{ GRAPH {iri_term(graph)} {{ ?s ?p ?o }} }}")
        raw: dict[Any, Any] = {}
        quads = _stored((pyoxigraph.Quad(s, p, o, name) for s, p, o in rows), raw)
        return {quad for quad in quads if quad.predicate.value not in BOOKKEEPING}, raw

    def cells(self, graph: str, heads: Collection[str]) -> dict[str, tuple[Pairs, set[tuple[str, str]]]]:
        """Return the cells of lists, each with the subjects and predicates that refer to it."""
        values = " ".join(map(iri_term, sorted(heads)))
        found: dict[str, tuple[set[tuple[Any, Any]], set[tuple[str, str]]]] = {}
        first = f"VALUES ?s {{ {values} }} GRAPH {iri_term(graph)} {{ ?s ?p ?o }}"
        later = f"VALUES ?h {{ {values} }} GRAPH {iri_term(graph)} {{ ?h {iri_term(RDF + 'rest')}+ ?s . ?s ?p ?o }}"
        for pattern in (first, later):
            for cell, predicate, value in self._endpoint.select(f"SELECT DISTINCT ?s ?p ?o {{ {pattern} }}"):
                found.setdefault(cell.value, (set(), set()))[0].add((predicate, value))
        cells = sorted(found)
        for start in range(0, len(cells), BATCH):
            some = " ".join(map(iri_term, cells[start : start + BATCH]))
            query = f"SELECT ?c ?s ?p {{ VALUES ?c {{ {some} }} GRAPH {iri_term(graph)} {{ ?s ?p ?c }} }}"
            for cell, subject, predicate in self._endpoint.select(query):
                found[cell.value][1].add((subject.value, predicate.value))
        return {cell: (frozenset(pairs), referring) for cell, (pairs, referring) in found.items()}

    def commit(self, change: Change) -> bool:
        """Make a change if the graph is still in its state; find out whether it was made.

        Raises
        ------
        Uncertain
            The endpoint could not be asked any more.
        """
        import pyoxigraph

        graph = pyoxigraph.NamedNode(change.graph)
        current, past = pyoxigraph.NamedNode(REVISION), pyoxigraph.NamedNode(PAST)
        state: _State = change.state
        now = next((value for predicate, value in state.pairs if predicate == current), None)
        number = 1 if now is None else _number(now) + 1
        mark = pyoxigraph.Literal(f"{number} {uuid.uuid4().hex}")
        added = {*change.added, pyoxigraph.Quad(graph, current, mark, graph)}
        removed = {state.raw.get(quad, quad) for quad in change.removed}
        if now is not None:
            added.add(pyoxigraph.Quad(graph, past, now, graph))
            removed.add(pyoxigraph.Quad(graph, current, now, graph))
        old = (value for predicate, value in state.pairs if predicate == past and _number(value) < number - KEPT)
        removed.update(pyoxigraph.Quad(graph, past, value, graph) for value in old)
        self._add_schema(change.schema)
        doubt: Uncertain | None = None
        try:
            self.update(change.graph, added, removed, unchanged(change.graph, REVISION, now))
        except Uncertain as error:
            doubt = error
        try:
            return self._was_made(change.graph, number, mark)
        except KnowledgeError as error:
            told = f"{self.place} was sent changes, and does not tell whether they were made: {error.message}"
            unknown = error if isinstance(error, Uncertain) else doubt or Uncertain(told, hint=_AGAIN)
            unknown.mark = mark
            raise unknown from error

    def update(self, graph: str, added: Collection[Any], removed: Collection[Any], condition: str) -> None:
        """Send one request that changes a graph and keeps the merge."""
        operations = [_modify(removed, added, condition)]
        if self.default_graph_is_apart():
            operations += merge_operations(graph, added, removed)
        self._endpoint.update(" ;\n".join(operations))

    def add_new(self, coming: Mapping[Any, Collection[Any]]) -> None:
        """Send one request that fills graphs, all of them or none, if none of them holds anything yet."""
        empty = (
            f"FILTER NOT EXISTS {{ GRAPH {graph} {{ ?s{number} ?p{number} ?o{number} }} }}"
            for number, graph in enumerate(coming)
        )
        everything = [quad for quads in coming.values() for quad in quads]
        operations = [_modify((), everything, f"{_ALWAYS} {' '.join(empty)}")]
        if self.default_graph_is_apart():
            for graph, quads in coming.items():
                operations += merge_operations(graph.value, quads, ())
        self._endpoint.update(" ;\n".join(operations))

    def default_graph_is_apart(self) -> bool:
        """Return whether queries see only what is in the default graph, so that the merge must be kept there."""
        if self._apart is None:
            mark = f"{iri_term(MARKER)} a {iri_term(GRAFICO + 'Store')}"
            number = f"SELECT ?n {{ GRAPH {iri_term(MARKER)} {{ {mark} ; {iri_term(NUMBER)} ?n }} }}"
            found = self._endpoint.select(number)
            if not found:
                written = f'{mark} ; {iri_term(NUMBER)} "{EXACT!r}"^^{iri_term(XSD + "double")}'
                self._endpoint.update(f"INSERT DATA {{ GRAPH {iri_term(MARKER)} {{ {written} }} }}")
                found = self._endpoint.select(number)
            if any(_float(value.value) != EXACT for (value,) in found):
                # What it has lost can be seen in no answer, and each load would find all numbers changed.
                raise KnowledgeError(
                    f"{self.place} does not keep numbers exactly: {EXACT!r} comes back as {found[0][0].value}; "
                    "no results were written",
                    hint="use another server, or a folder; the run folders hold the exact numbers",
                )
            self._apart = not self._endpoint.ask(f"{{ {mark} }}")
        return self._apart

    def _add_schema(self, quads: Collection[Any]) -> None:
        # Named by its content, so it may come before what it describes.
        names = {quad.graph_name for quad in quads} - self._schemas
        for name in names:
            if not self._endpoint.ask(f"{{ GRAPH {name} {{ ?s ?p ?o }} }}"):
                self.update(name.value, [quad for quad in quads if quad.graph_name == name], [], "")
            self._schemas.add(name)

    def _read_some(self, graph: str, subjects: Iterable[str], raw: dict[Any, Any]) -> dict[str, Pairs]:
        import pyoxigraph

        name = pyoxigraph.NamedNode(graph)
        values = " ".join(map(iri_term, subjects))
        rows = self._endpoint.select(f"SELECT ?s ?p ?o {{ VALUES ?s {{ {values} }} GRAPH {name} {{ ?s ?p ?o }} }}")
        found: dict[str, set[tuple[Any, Any]]] = {}
        for quad in _stored((pyoxigraph.Quad(s, p, o, name) for s, p, o in rows), raw):
            found.setdefault(quad.subject.value, set()).add((quad.predicate, quad.object))
        return {subject: frozenset(pairs) for subject, pairs in found.items()}

    def _was_made(self, graph: str, number: int, mark: Any) -> bool:
        properties = f"{iri_term(REVISION)} {iri_term(PAST)}"
        pattern = f"VALUES ?p {{ {properties} }} GRAPH {iri_term(graph)} {{ {iri_term(graph)} ?p ?r }}"
        revisions = [value for (value,) in self._endpoint.select(f"SELECT ?r {{ {pattern} }}")]
        if mark in revisions:
            return True
        if revisions and min(map(_number, revisions)) > number:
            raise Uncertain(
                f"{self.place}: so much was changed meanwhile that it is not known whether these changes were made",
                hint=_AGAIN,
            )
        return False


def _stored(quads: Iterable[Any], raw: dict[Any, Any]) -> set[Any]:
    """Return quads in one form; ``raw`` gets the server's own where that is another."""
    given = set(quads)
    stored = as_stored(given)
    for quad in given - stored:
        for same in as_stored([quad]):
            raw[same] = quad
    return stored


def unchanged(graph: str, predicate: str, value: Any) -> str:
    """Return the pattern that holds while a graph has this one value, or none, of a property."""
    subject = iri_term(graph)
    if value is None:
        return f"{_ALWAYS} FILTER NOT EXISTS {{ GRAPH {subject} {{ {subject} {iri_term(predicate)} ?any }} }}"
    return f"GRAPH {subject} {{ {subject} {iri_term(predicate)} {value} }}"


def merge_operations(graph: str, added: Collection[Any], removed: Collection[Any]) -> list[str]:
    """Return the operations that bring the merge after a graph, whether or not it was changed."""
    operations = []
    added, removed = ([quad for quad in quads if quad.predicate.value not in BOOKKEEPING] for quads in (added, removed))
    if removed:
        operations.append(
            f"DELETE {{ ?s ?p ?o }} WHERE {{ {_values(removed)} ?s ?p ?o "
            "FILTER NOT EXISTS { GRAPH ?g { ?s ?p ?o } } }"
        )
    if len(added) > COPY_ALL:
        kept = ", ".join(map(iri_term, BOOKKEEPING))
        operations.append(
            f"INSERT {{ ?s ?p ?o }} WHERE {{ GRAPH {iri_term(graph)} {{ ?s ?p ?o }} FILTER(?p NOT IN ({kept})) }}"
        )
    elif added:
        operations.append(f"INSERT {{ ?s ?p ?o }} WHERE {{ {_values(added)} GRAPH {iri_term(graph)} {{ ?s ?p ?o }} }}")
    return operations


def _modify(removed: Collection[Any], added: Collection[Any], condition: str) -> str:
    deletion = f"DELETE {{ {data(removed)} }} " if removed else ""
    insertion = f"INSERT {{ {data(added)} }} " if added else ""
    return f"{deletion}{insertion}WHERE {{ {condition} }}"


def _values(quads: Iterable[Any]) -> str:
    rows = " ".join(f"({quad.subject} {quad.predicate} {quad.object})" for quad in quads)
    return f"VALUES (?s ?p ?o) {{ {rows} }}"


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _number(revision: Any) -> int:
    first = str(revision.value).partition(" ")[0]
    return int(first) if first.isascii() and first.isdigit() else 0

"""Entities straight into a graph of a store, without a run: only what changed, all of it or nothing, nobody overwritten.

This is the door for programs that have no run folder. A run goes through
:class:`~grafico.knowledge.run.RunKnowledge` instead, whose folder is the truth.
"""

import hashlib
import random
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Protocol

from pydantic import Field

from grafico.calculations import Model
from grafico.errors import KnowledgeError
from grafico.knowledge.conflicts import Pairs, conflict, settle
from grafico.knowledge.endpoint import Uncertain
from grafico.knowledge.entity import Entity
from grafico.knowledge.fetch import COMMITTED
from grafico.knowledge.mapper import Description, KeepArray, describe, n_quads
from grafico.knowledge.merge import as_stored
from grafico.knowledge.plan import plan_of
from grafico.knowledge.reading import base_of, note_base, note_sent, sent_of
from grafico.knowledge.schema import schema_of
from grafico.knowledge.vocabulary import BASE, GRAFICO, RDF, RUN, SCHEMA, XSD, check_iri

__all__ = ["DIRECT", "REVISION", "Change", "Graphs", "Held", "Persisted", "Statement", "persist_into"]

DIRECT = BASE + "graph/direct"
"""The graph that ``persist`` writes to unless told otherwise."""
REVISION = GRAFICO + "revision"
"""Property of a graph in a remote store: number and mark of a change; bookkeeping, never part of an answer."""

ATTEMPTS = 60
_NOTHING: Pairs = frozenset()


class Persisted(Model):
    """What persisting changed."""

    iris: tuple[str, ...] = Field(description="of the entities that were given")
    added: int = Field(ge=0, description="triples")
    removed: int = Field(ge=0, description="triples")


@dataclass(frozen=True, slots=True)
class Held:
    """What a graph says of some subjects, and its state while that was read."""

    pairs: dict[str, Pairs]
    state: Any = None
    marks: frozenset[Any] = frozenset()
    """Those of the changes that were made to the graph lately."""


@dataclass(slots=True)
class Change:
    """Quads to be added and removed, if the graph is still in the state in which it was read."""

    graph: str
    state: Any
    added: set[Any] = field(default_factory=set)
    removed: set[Any] = field(default_factory=set)
    schema: frozenset[Any] = frozenset()
    """Quads of a graph of classes and properties, named by its content."""


class Graphs(Protocol):
    """What persisting needs of a store; terms and quads are pyoxigraph's, as the store keeps them."""

    @property
    def place(self) -> str:
        """Name of the store."""

    def read(self, graph: str, subjects: Collection[str]) -> Held:
        """Return what a graph says of subjects, and of itself."""

    def cells(self, graph: str, heads: Collection[str]) -> dict[str, tuple[Pairs, set[tuple[str, str]]]]:
        """Return the cells of lists, each with the subjects and predicates that refer to it."""

    def commit(self, change: Change) -> bool:
        """Make a change, whole or not at all; False if the graph's state was another by then."""


class Statement:
    """What some entities, and all that they refer to, are to say in a graph."""

    def __init__(self, entities: Iterable[Entity], graph: str, *, keep: KeepArray | None = None) -> None:
        import pyoxigraph

        self.graph = _checked(graph)
        self.roots = list(entities)
        description = describe(self.roots, keep=keep)
        self.entities: dict[str, list[Entity]] = {}
        for entity in _reachable(self.roots):
            self.entities.setdefault(entity.iri, []).append(entity)
        self.pairs: dict[str, Pairs] = {}
        found: dict[str, set[tuple[Any, Any]]] = {}
        for quad in as_stored(_quads(description, self.graph)):
            found.setdefault(quad.subject.value, set()).add((quad.predicate, quad.object))
        self.pairs = {subject: frozenset(pairs) for subject, pairs in found.items()}
        node = pyoxigraph.NamedNode(RDF + "type")
        self.schema = _schema(frozenset(o.value for pairs in self.pairs.values() for p, o in pairs if p == node))

    def objects(self) -> Iterable[Entity]:
        """Yield one object for each thing."""
        roots = {root.iri: root for root in reversed(self.roots)}
        return (roots.get(iri, same[0]) for iri, same in self.entities.items())


def persist_into(graphs: Graphs, statement: Statement) -> Persisted:
    """Write what is new or changed; see :meth:`~grafico.knowledge.store.KnowledgeBase.persist`."""
    iris = tuple(dict.fromkeys(root.iri for root in statement.roots))
    for attempt in range(ATTEMPTS):
        change = _compare(graphs, statement)
        try:
            done = not (change.added or change.removed) or graphs.commit(change)
        except Uncertain as error:
            for entity in _all(statement):
                note_sent(entity, graphs.place, statement.graph, error.mark, statement.pairs[entity.iri])
            raise
        if done:
            for entity in _all(statement):
                note_base(entity, graphs.place, statement.graph, statement.pairs[entity.iri])
            # That the graph was committed is not counted.
            stamps = sum(quad.predicate.value == COMMITTED for quad in change.added)
            gone = sum(quad.predicate.value == COMMITTED for quad in change.removed)
            return Persisted(iris=iris, added=len(change.added) - stamps, removed=len(change.removed) - gone)
        # Somebody was faster: look again at what is there now.
        time.sleep(random.uniform(0, min(0.5, 0.005 * 2 ** min(attempt, 7))))
    raise KnowledgeError(
        f"{graphs.place}: others changed <{statement.graph}> each of the {ATTEMPTS} times that it was to be written; "
        "nothing was written",
        hint="persist again later, or into a graph of your own",
    )


def _compare(graphs: Graphs, statement: Statement) -> Change:
    import pyoxigraph

    graph = pyoxigraph.NamedNode(statement.graph)
    held = graphs.read(statement.graph, statement.pairs.keys())
    change = Change(statement.graph, held.state)
    clashes = []

    def quads(subject: str, pairs: Iterable[tuple[Any, Any]]) -> Iterable[Any]:
        node = pyoxigraph.NamedNode(subject)
        return (pyoxigraph.Quad(node, predicate, value, graph) for predicate, value in pairs)

    for subject, ours in statement.pairs.items():
        theirs = held.pairs.get(subject, _NOTHING)
        if subject not in statement.entities:
            continue
        entity, base = _based(statement.entities[subject], graphs.place, statement.graph, held.marks)
        verdict = settle(entity, ours, base, theirs)
        clashes += verdict.clashes
        change.added.update(quads(subject, verdict.added))
        change.removed.update(quads(subject, verdict.removed))
    if clashes:
        raise conflict(clashes, statement.graph)
    # Cells of lists and artifacts are named by their content: they come with what refers to them.
    pending = [quad.object.value for quad in change.added if _is_node(quad)]
    while pending:
        subject = pending.pop()
        if subject in statement.pairs and subject not in statement.entities:
            missing = statement.pairs[subject] - held.pairs.get(subject, _NOTHING)
            change.added.update(quads(subject, missing))
            pending.extend(value.value for _, value in missing if isinstance(value, pyoxigraph.NamedNode))
    if change.added or change.removed:
        change.removed |= _orphans(graphs, statement, change)
        when = pyoxigraph.NamedNode(COMMITTED)
        own = held.pairs.get(statement.graph, _NOTHING)
        change.removed.update(quads(statement.graph, (pair for pair in own if pair[0] == when)))
        moment = pyoxigraph.Literal(datetime.now(UTC).isoformat(), datatype=pyoxigraph.NamedNode(XSD + "dateTime"))
        change.added |= as_stored(quads(statement.graph, [(when, moment)]))
        change.removed -= change.added
        change.schema = statement.schema
    return change


def _all(statement: Statement) -> Iterable[Entity]:
    return (one for same in statement.entities.values() for one in same)


def _based(same: list[Entity], place: str, graph: str, marks: Collection[Any]) -> tuple[Entity, Pairs | None]:
    """Return one of the objects for a thing, and what it said when it was last read or written."""
    for entity in same:
        base = sent_of(entity, place, graph, marks) or base_of(entity, place, graph)
        if base is not None:
            return entity, base
    return same[0], None


def _orphans(graphs: Graphs, statement: Statement, change: Change) -> set[Any]:
    """Return what is left of lists that were replaced, where no other list ends alike."""
    import pyoxigraph

    heads = {quad.object.value for quad in change.removed if quad.predicate.value.endswith(".order")}
    heads -= {RDF + "nil", *statement.pairs}
    if not heads:
        return set()
    cells = graphs.cells(statement.graph, heads)
    loose = {(quad.subject.value, quad.predicate.value, quad.object.value) for quad in change.removed if _is_node(quad)}
    graph = pyoxigraph.NamedNode(statement.graph)
    orphans: set[Any] = set()
    pending = sorted(heads)
    while pending:
        cell = pending.pop()
        if cell not in cells or cell in statement.pairs:
            continue
        pairs, referrers = cells[cell]
        if any((subject, predicate, cell) not in loose for subject, predicate in referrers):
            continue
        for predicate, value in pairs:
            orphans.add(pyoxigraph.Quad(pyoxigraph.NamedNode(cell), predicate, value, graph))
            if predicate.value == RDF + "rest":
                loose.add((cell, predicate.value, value.value))
                pending.append(value.value)
    return orphans


def _is_node(quad: Any) -> bool:
    import pyoxigraph

    return isinstance(quad.object, pyoxigraph.NamedNode)


def _checked(graph: str) -> str:
    check_iri(graph)
    if graph.startswith((RUN, SCHEMA)):
        raise KnowledgeError(
            f"<{graph}> is the graph of a run or of a schema, which is made from files",
            hint="persist into a graph of your own, or through RunKnowledge into the run's folder",
        )
    return graph


def _reachable(roots: Iterable[Entity]) -> Iterable[Entity]:
    pending, seen = list(roots), set()
    while pending:
        entity = pending.pop()
        if id(entity) in seen or not entity.loaded:
            continue
        seen.add(id(entity))
        yield entity
        for plan in plan_of(type(entity)):
            value = getattr(entity, plan.name) if plan.kind == "entity" else None
            if value is not None:
                pending.extend([value] if plan.container == "one" else value)


def _quads(description: Description, graph: str) -> Iterable[Any]:
    import pyoxigraph

    return pyoxigraph.parse(input=n_quads(description, graph).encode(), format=pyoxigraph.RdfFormat.N_QUADS)


@cache
def _schema(classes: frozenset[str]) -> frozenset[Any]:
    schema = schema_of(classes)
    # The same name that a run gives it.
    digest = hashlib.sha256(n_quads(schema, SCHEMA).encode()).hexdigest()[:16]
    return frozenset(as_stored(_quads(schema, f"{SCHEMA}{digest}")))

"""The graphs of an embedded store that is open for writing, under its lock."""

from collections.abc import Collection
from typing import Any

from grafico.knowledge.conflicts import Pairs
from grafico.knowledge.merge import change as apply
from grafico.knowledge.persist import Change, Held
from grafico.knowledge.vocabulary import RDF

__all__ = ["EmbeddedGraphs"]


class EmbeddedGraphs:
    """Implements :class:`~grafico.knowledge.persist.Graphs` over a :class:`pyoxigraph.Store`."""

    def __init__(self, place: str, store: Any) -> None:
        self.place = place
        self._store = store

    def read(self, graph: str, subjects: Collection[str]) -> Held:
        """Return what a graph says of subjects, and of itself."""
        return Held({subject: self._pairs(subject, graph) for subject in (*subjects, graph)})

    def cells(self, graph: str, heads: Collection[str]) -> dict[str, tuple[Pairs, set[tuple[str, str]]]]:
        """Return the cells of lists, each with the subjects and predicates that refer to it."""
        import pyoxigraph

        name = pyoxigraph.NamedNode(graph)
        found: dict[str, tuple[Pairs, set[tuple[str, str]]]] = {}
        pending = list(heads)
        while pending:
            cell = pending.pop()
            pairs = self._pairs(cell, graph)
            if cell in found or not pairs:
                continue
            node = pyoxigraph.NamedNode(cell)
            referring = self._store.quads_for_pattern(None, None, node, name)
            found[cell] = pairs, {(quad.subject.value, quad.predicate.value) for quad in referring}
            pending.extend(value.value for predicate, value in pairs if predicate.value == RDF + "rest")
        return found

    def commit(self, change: Change) -> bool:
        """Make a change; nobody else can have come between."""
        held = self._store.quads_for_pattern
        schema = {
            quad for quad in change.schema if not any(held(quad.subject, quad.predicate, quad.object, quad.graph_name))
        }
        apply(self._store, change.added | schema, change.removed)
        return True

    def _pairs(self, subject: str, graph: str) -> Pairs:
        import pyoxigraph

        node, name = pyoxigraph.NamedNode(subject), pyoxigraph.NamedNode(graph)
        return frozenset(
            (quad.predicate, quad.object) for quad in self._store.quads_for_pattern(node, None, None, name)
        )

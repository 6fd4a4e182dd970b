"""What a fetch reads of a remote store: few requests, each for many things.

It answers like an open store, out of a local one that it fills on demand. When something is looked at that is not here
yet, whatever has been mentioned up to then comes along, and lists come whole; so the requests are as many as the levels
that are followed, not as the things.
"""

import contextlib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from grafico.errors import QueryError
from grafico.knowledge.endpoint import Endpoint
from grafico.knowledge.fetch import COMMITTED
from grafico.knowledge.vocabulary import ID, RDF, check_iri, iri_term

__all__ = ["RemoteView"]

BATCH = 500
LISTS = ID + "list/"


class RemoteView:
    """Answers ``quads_for_pattern`` for one subject at a time.

    Parameters
    ----------
    endpoint
        Whom to ask.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        import pyoxigraph

        self._rdf = pyoxigraph
        self._endpoint = endpoint
        self._store = pyoxigraph.Store()
        self._here: set[str] = set()
        self._mentioned: dict[str, None] = {}
        self.requests = 0

    def quads_for_pattern(self, subject: Any, predicate: Any, value: Any, graph: Any) -> Iterator[Any]:
        """Yield the quads of a subject."""
        # When a graph was committed has come along with what was read of it.
        if subject.value not in self._here and getattr(predicate, "value", "") != COMMITTED:
            self._load(subject.value)
        return iter(self._store.quads_for_pattern(subject, predicate, value, graph))

    def _load(self, subject: str) -> None:
        self._mentioned.pop(subject, None)
        more = list(islice(self._mentioned, BATCH - 1))
        for one in more:
            del self._mentioned[one]
        wanted = [check_iri(subject), *more]
        lists = [one for one in wanted if one.startswith(LISTS)]
        self._ask(f"VALUES ?s {{ {_terms(wanted)} }}", "?s ?p ?o")
        if lists:
            # Not rest*: servers differ on paths of no length.
            self._ask(f"VALUES ?h {{ {_terms(lists)} }}", f"?h {iri_term(RDF + 'rest')}+ ?s . ?s ?p ?o")
        self._here.update(wanted)

    def _ask(self, values: str, pattern: str) -> None:
        self.requests += 1
        rdf = self._rdf
        where = f"GRAPH ?g {{ {pattern} OPTIONAL {{ ?g {iri_term(COMMITTED)} ?when }} }}"
        committed = rdf.NamedNode(COMMITTED)
        quads, stamps = [], {}
        for graph, subject, predicate, value, when in self._endpoint.select(
            f"SELECT ?g ?s ?p ?o ?when {{ {values} {where} }}"
        ):
            quads.append(rdf.Quad(subject, predicate, value, graph))
            if when is not None:
                stamps[graph] = when
        self._here.update(quad.subject.value for quad in quads)
        self._store.bulk_extend(quads)
        self._store.bulk_extend(rdf.Quad(graph, committed, when, graph) for graph, when in stamps.items())
        for quad in quads:
            self._mention(quad)

    def _mention(self, quad: Any) -> None:
        # Classes are not read.
        if isinstance(quad.object, self._rdf.NamedNode) and quad.predicate.value != RDF + "type":
            iri = quad.object.value
            if iri not in self._here and iri != RDF + "nil":
                # What a server calls an IRI goes into the next query.
                with contextlib.suppress(QueryError):
                    self._mentioned[check_iri(iri)] = None


def _terms(iris: Iterable[str]) -> str:
    return " ".join(map(iri_term, iris))

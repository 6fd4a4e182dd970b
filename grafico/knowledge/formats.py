"""The RDF formats that knowledge is exchanged in, and writing them."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grafico.errors import QueryError
from grafico.knowledge.vocabulary import PREFIXES, RDF, SCHEMA

__all__ = ["FORMATS", "Format", "export_rdf", "format_called", "format_of"]


@dataclass(frozen=True, slots=True)
class Format:
    """An RDF format."""

    name: str
    parser: str
    """Its name in pyoxigraph."""
    extensions: tuple[str, ...]
    named_graphs: bool
    """Whether it tells which run says what."""


FORMATS = {
    found.name: found
    for found in (
        Format("turtle", "TURTLE", (".ttl", ".turtle"), named_graphs=False),
        Format("trig", "TRIG", (".trig",), named_graphs=True),
        Format("json-ld", "JSON_LD", (".jsonld", ".json"), named_graphs=True),
        Format("n-quads", "N_QUADS", (".nq", ".nquads"), named_graphs=True),
        Format("n-triples", "N_TRIPLES", (".nt",), named_graphs=False),
        Format("rdf-xml", "RDF_XML", (".rdf", ".owl", ".xml"), named_graphs=False),
    )
}
"""By name."""

_PREFIXES = {
    **PREFIXES,
    "schema": "http://schema.org/",
    "sh": "http://www.w3.org/ns/shacl#",
}


def format_called(name: str) -> Format:
    """Return the format with a name, however it is spelled.

    Raises
    ------
    QueryError
        There is no such format.
    """
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    plain = {"ttl": "turtle", "jsonld": "jsonld", "nq": "nquads", "nt": "ntriples", "xml": "rdfxml"}.get(plain, plain)
    for known, found in FORMATS.items():
        if known.replace("-", "") == plain:
            return found
    raise QueryError(f"the format {name!r} is not known", hint=f"one of {', '.join(FORMATS)}")


def format_of(path: Path, name: str | None = None) -> Format:
    """Return the format of a file by its extension, unless it is named.

    Raises
    ------
    QueryError
        The name or the extension is not known.
    """
    if name is not None:
        return format_called(name)
    for found in FORMATS.values():
        if path.suffix.lower() in found.extensions:
            return found
    known = ", ".join(extension for found in FORMATS.values() for extension in found.extensions)
    raise QueryError(
        f"{path}: the extension {path.suffix or '(none)'} tells no RDF format",
        hint=f"use one of {known}, or say --format {'|'.join(FORMATS)}",
    )


def export_rdf(quads: str, format_: Format, *, graphs: Collection[str] | None = None) -> bytes:
    """Return N-Quads in another format.

    A format without named graphs loses which run says what; the triples of the runs are then put together, without the
    classes and properties.

    Parameters
    ----------
    quads
        What :meth:`KnowledgeBase.dump <grafico.knowledge.store.KnowledgeBase.dump>` returns, or a run's file holds.
    graphs
        Only these graphs (IRIs), and the classes and properties that they use; default all.
    """
    import pyoxigraph

    parsed = pyoxigraph.parse(input=quads.encode(), format=pyoxigraph.RdfFormat.N_QUADS)
    chosen = [
        quad
        for quad in parsed
        if graphs is None or quad.graph_name.value in graphs or quad.graph_name.value.startswith(SCHEMA)
    ]
    if graphs is not None:
        chosen = _with_used_schemas(chosen)
    rdf_format = getattr(pyoxigraph.RdfFormat, format_.parser)
    statements: Iterable[Any]
    if format_.named_graphs:
        statements = sorted(chosen, key=_order)
    else:
        statements = sorted({q.triple for q in chosen if not q.graph_name.value.startswith(SCHEMA)}, key=_order)
    used = {prefix: space for prefix, space in _PREFIXES.items() if f"<{space}" in quads}
    prefixes = None if format_.name in ("n-quads", "n-triples") else used
    data = pyoxigraph.serialize(statements, format=rdf_format, prefixes=prefixes) or b""
    return data if data.endswith(b"\n") or not data else data + b"\n"


def _with_used_schemas(quads: list[Any]) -> list[Any]:
    """Leave out the schemas that the other graphs do not need: the smallest that has all their classes is enough."""
    types = {q.object for q in quads if q.predicate.value == RDF + "type" and not q.graph_name.value.startswith(SCHEMA)}
    has: dict[Any, set[Any]] = {}
    sizes: dict[Any, int] = {}
    for quad in quads:
        if quad.graph_name.value.startswith(SCHEMA):
            sizes[quad.graph_name] = sizes.get(quad.graph_name, 0) + 1
            if quad.subject in types:
                has.setdefault(quad.graph_name, set()).add(quad.subject)
    wanted = set().union(*has.values())
    whole = [graph for graph, found in has.items() if found == wanted]
    used = {min(whole, key=lambda graph: (sizes[graph], graph.value))} if whole else set(has)
    return [q for q in quads if not q.graph_name.value.startswith(SCHEMA) or q.graph_name in used]


def _order(statement: Any) -> tuple[str, str, bool, str, str]:
    # The serializer writes neighbors of one subject together, and people look for the type first.
    graph = str(getattr(statement, "graph_name", ""))
    predicate = statement.predicate.value
    return (graph, str(statement.subject), predicate != RDF + "type", predicate, str(statement.object))

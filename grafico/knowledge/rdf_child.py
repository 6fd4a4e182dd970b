"""The process that reads RDF from outside: ``python -m grafico.knowledge.rdf_child FORMAT NAME``.

The text is on standard input, N-Quads come on standard output. A text that is nested some ten thousand levels deep
overflows the parser's stack, which no exception tells of; so it ends this process and not the one that asked.
"""

import contextlib
import hashlib
import json
import re
import resource
import sys
from typing import Any

from grafico.errors import QueryError
from grafico.knowledge.formats import Format, format_called
from grafico.knowledge.vocabulary import GRAFICO, ID, RUN

__all__ = ["REFUSED", "main", "read"]

REFUSED = 3
"""Exit code: standard output holds a message in JSON."""
SECONDS, BYTES_A_SECOND = 20, 250_000
"""Processor time that a text may take: a tenth of the usual speed, and a bit."""
COMMITTED = GRAFICO + "committedAt"


def read(data: bytes, format_: Format, where: str) -> list[Any]:
    """Return the quads of an RDF text, all in named graphs and without blank nodes. Nothing is fetched from elsewhere.

    Raises
    ------
    QueryError
        It is malformed, holds nothing, or holds what the store cannot; says where.
    """
    import pyoxigraph as rdf

    # Editors of some systems begin a file with this mark, which only XML and JSON parsers expect.
    data = data.removeprefix(b"\xef\xbb\xbf")
    if format_.name == "rdf-xml" and _NESTED_ENTITY.search(data):
        raise QueryError(f"{where} defines XML entities by one another, which can grow without bounds")
    digest = hashlib.sha256(data).hexdigest()
    base = f"{ID}import/{digest[:16]}/"
    blanks: dict[str, Any] = {}

    def named(term: Any) -> Any:
        if isinstance(term, rdf.BlankNode):
            return blanks.setdefault(term.value, rdf.NamedNode(f"{ID}blank/{digest[:16]}-{len(blanks) + 1}"))
        if not isinstance(term, rdf.NamedNode | rdf.Literal):
            raise QueryError(
                f"{where} states something about a statement, which the store cannot hold: {str(term)[:200]}"
            )
        return term

    outside: list[tuple[Any, Any, Any]] = []
    quads: list[Any] = []
    try:
        for quad in rdf.parse(input=data, format=getattr(rdf.RdfFormat, format_.parser), base_iri=base):
            if quad.predicate.value in _BOOKKEEPING or getattr(quad.graph_name, "value", "") == _STORE:
                continue
            triple = (named(quad.subject), quad.predicate, named(quad.object))
            if isinstance(quad.graph_name, rdf.DefaultGraph) or quad.graph_name.value == _DIRECT:
                outside.append(triple)
            else:
                quads.append(rdf.Quad(*triple, named(quad.graph_name)))
    except (SyntaxError, ValueError, OSError) as error:
        raise QueryError(f"{where} is no {format_.name} that can be read: {_first(error)}", hint=_HINT) from error
    if not quads and not outside:
        raise QueryError(f"{where} holds no triples", hint="is it RDF? JSON is only with an @context or full IRIs")
    graph = rdf.NamedNode(_graph_of(outside) or f"{RUN}import-{digest[:16]}")
    return quads + [rdf.Quad(*triple, graph) for triple in outside]


_NESTED_ENTITY = re.compile(rb"<!ENTITY[^>]*&|<!ENTITY\s+%|<!ENTITY\s+\S+\s+(?:SYSTEM|PUBLIC)")
_HINT = "check the file, and its format: --format says another than its extension does"
_BOOKKEEPING = (GRAFICO + "revision", GRAFICO + "pastRevision")
_STORE = "https://w3id.org/grafico/store"
"""Notes of a store behind an endpoint for itself, which a raw copy of it holds; see ``remote_graphs``."""
_DIRECT = "https://w3id.org/grafico/graph/direct"
"""What a store was told without a run is, in another store, what was imported."""


def _first(error: Exception) -> str:
    line = (str(error).splitlines() or [type(error).__name__])[0][:300]
    # It quotes the file, which may hold what a terminal would obey.
    return "".join(sign if sign.isprintable() else "�" for sign in line)


def _graph_of(triples: list[tuple[Any, Any, Any]]) -> str | None:
    """Return the run that tells when it was committed, which it does in its own graph only."""
    runs = {s.value for s, p, _ in triples if p.value == COMMITTED and s.value.startswith(RUN)}
    return str(runs.pop()) if len(runs) == 1 else None


def main() -> int:
    """Read standard input."""
    name, where = sys.argv[1:]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        data = sys.stdin.buffer.read()
        seconds = SECONDS + len(data) // BYTES_A_SECOND
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        quads = read(data, format_called(name), where)
    except QueryError as error:
        sys.stdout.write(json.dumps({"message": error.message, "hint": error.hint}))
        return REFUSED
    sys.stdout.buffer.writelines(f"{quad} .\n".encode() for quad in quads)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Answering one query, which has passed the gate, at an endpoint; runs in the process of its own."""

import re
import time
from typing import Any

from grafico.errors import KnowledgeError, QueryError
from grafico.knowledge.address import read_address
from grafico.knowledge.answers import MAX_ANSWER_BYTES, bound_term, bounded_rows
from grafico.knowledge.endpoint import JSON, N_TRIPLES, Body, Endpoint, Unanswerable
from grafico.knowledge.readonly import with_values
from grafico.knowledge.vocabulary import PREFIXES

__all__ = ["answer_there"]

_RESULTS = (JSON, "application/json")
_GRAPHS = ("application/n-triples", "text/turtle", "text/plain", "application/x-turtle")


def answer_there(request: dict[str, Any], form: str) -> dict[str, Any]:
    """Return the answer of the endpoint to a request."""
    started = time.perf_counter()
    endpoint = Endpoint(
        read_address(request["address"]), timeout_s=request["timeout_s"], max_bytes=4 * MAX_ANSWER_BYTES
    )
    text = request["query"]
    terms = {name: bound_term(term) for name, term in request["bind"].items()}
    if terms:
        names, row = " ".join(f"?{name}" for name in terms), " ".join(map(str, terms.values()))
        text = with_values(text, f"VALUES ({names}) {{ ({row}) }}", form=form)
    try:
        answer = _answer(endpoint, _declared(text), form, request["limit"])
    except Unanswerable as error:
        raise QueryError(error.message, hint=error.hint) from error
    return {"form": form, "seconds": time.perf_counter() - started, **answer}


def _answer(endpoint: Endpoint, text: str, form: str, limit: int) -> dict[str, Any]:
    tabular = form in ("select", "ask")
    with endpoint.answer(text, JSON if tabular else f"{N_TRIPLES}, text/turtle;q=0.5") as (body, media_type):
        if media_type not in (_RESULTS if tabular else _GRAPHS):
            raise KnowledgeError(
                f"{endpoint.address} answered with {media_type or 'something unnamed'}, and no answer to SPARQL",
                hint="is that the address of its SPARQL endpoint?",
            )
        answer: dict[str, Any] = body.parsed(lambda: _read(body, form, limit))
        return {**answer, "truncated": True} if body.is_cut and form != "ask" else answer


def _read(body: Body, form: str, limit: int) -> dict[str, Any]:
    import pyoxigraph

    if form in ("construct", "describe"):
        triples = pyoxigraph.parse(body.file, format=pyoxigraph.RdfFormat.TURTLE)
        rows, truncated = bounded_rows(triples, form, 3, limit)
        return {"variables": ["subject", "predicate", "object"], "rows": rows, "truncated": truncated}
    result = pyoxigraph.parse_query_results(body.file, pyoxigraph.QueryResultsFormat.JSON)
    if isinstance(result, pyoxigraph.QueryBoolean) != (form == "ask"):
        raise QueryError("the endpoint answered another kind of query than was asked")
    if isinstance(result, pyoxigraph.QueryBoolean):
        return {"boolean": bool(result)}
    columns = [variable.value for variable in result.variables]
    rows, truncated = bounded_rows(result, form, len(columns), limit)
    return {"variables": columns, "rows": rows, "truncated": truncated}


def _declared(text: str) -> str:
    """Return a query that declares the prefixes that may be used undeclared; on its first line, so lines keep numbers."""
    used = [name for name in PREFIXES if re.search(rf"(?<![\w.-]){name}:", text)]
    return "".join(f"PREFIX {name}: <{PREFIXES[name]}> " for name in used) + text

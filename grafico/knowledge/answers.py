"""Terms of answers and of bound values, as they pass between the processes of a query."""

from typing import Any

from grafico.knowledge.vocabulary import XSD, check_iri

__all__ = ["MAX_ANSWER_BYTES", "bound_term", "bounded_rows"]

MAX_ANSWER_BYTES = 64 * 1024 * 1024


def bounded_rows(result: Any, form: str, width: int, limit: int) -> tuple[list[list[Any]], bool]:
    """Return the rows (or triples) of an answer, and whether there were more than the limit allows."""
    rows: list[list[Any]] = []
    size = 0
    for found in result:
        if len(rows) == limit:
            return rows, True
        terms = [found[i] for i in range(width)] if form == "select" else [found.subject, found.predicate, found.object]
        row = [None if term is None else _term(term) for term in terms]
        size += sum(len(term["value"]) for term in row if term is not None)
        if size > MAX_ANSWER_BYTES:
            return rows, True
        rows.append(row)
    return rows, False


def bound_term(term: dict[str, str]) -> Any:
    """Return the pyoxigraph term of a value that a variable is bound to."""
    import pyoxigraph

    if term["type"] == "uri":
        return pyoxigraph.NamedNode(check_iri(term["value"]))
    datatype = term.get("datatype")
    return pyoxigraph.Literal(term["value"], datatype=pyoxigraph.NamedNode(datatype) if datatype else None)


def _term(term: Any) -> dict[str, str]:
    import pyoxigraph

    if isinstance(term, pyoxigraph.NamedNode):
        return {"type": "uri", "value": term.value}
    if isinstance(term, pyoxigraph.BlankNode):
        return {"type": "bnode", "value": term.value}
    if isinstance(term, pyoxigraph.Literal):
        found = {"type": "literal", "value": term.value}
        if term.language:
            found["language"] = term.language
        elif term.datatype.value != XSD + "string":
            found["datatype"] = term.datatype.value
        return found
    return {"type": "triple", "value": str(term)}

"""Read-only queries: parsed, bounded in time, rows and memory, with values bound and never pasted."""

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from grafico.calculations import Json, Model
from grafico.errors import KnowledgeError, QueryError
from grafico.knowledge.address import Address
from grafico.knowledge.entity import Entity
from grafico.knowledge.lock import DEFAULT_WAIT_S
from grafico.knowledge.vocabulary import XSD, check_iri

__all__ = ["QueryResult", "Term", "run_query"]

MAX_ROWS = 100_000
MAX_TIMEOUT_S = 3600.0


class Term(Model):
    """One value of an answer."""

    type: Literal["uri", "bnode", "literal", "triple"]
    value: str
    datatype: str | None = None
    language: str | None = None

    def python(self) -> Any:
        """Return a Python value: numbers and truth values as such, all else, and what is no such value, as text."""
        readers: dict[str, Any] = {
            XSD + "integer": int,
            XSD + "double": lambda text: float(text.replace("INF", "inf")),
            XSD + "decimal": float,
            XSD + "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}.get(text, text),
        }
        try:
            return readers.get(self.datatype or "", str)(self.value)
        except ValueError:
            return self.value


class QueryResult(Model):
    """The answer to a query."""

    form: Literal["select", "ask", "construct", "describe"]
    variables: tuple[str, ...] = ()
    rows: tuple[tuple[Term | None, ...], ...] = Field(default=(), description="one term a variable; None if unbound")
    boolean: bool | None = Field(default=None, description="the answer to ASK")
    truncated: bool = Field(default=False, description="whether there was more than the limit allows")
    seconds: float = Field(default=0.0, ge=0, description="time the store took, s")

    def __len__(self) -> int:
        return len(self.rows)

    def values(self) -> list[dict[str, Any]]:
        """Return the rows as Python values by variable."""
        return [
            {name: None if term is None else term.python() for name, term in zip(self.variables, row, strict=True)}
            for row in self.rows
        ]

    def sparql_json(self) -> dict[str, Json]:
        """Return the answer in the SPARQL 1.1 Query Results JSON Format, with ``truncated`` beside it."""
        if self.form == "ask":
            return {"head": {}, "boolean": self.boolean}
        bindings = [
            {name: _sparql_json(term) for name, term in zip(self.variables, row, strict=True) if term is not None}
            for row in self.rows
        ]
        return {"head": {"vars": list(self.variables)}, "results": {"bindings": bindings}, "truncated": self.truncated}


def _sparql_json(term: Term) -> dict[str, str]:
    names = {"language": "xml:lang"}
    return {names.get(key, key): value for key, value in term.model_dump(exclude_none=True).items()}


def run_query(
    store: Path | Address,
    query: str,
    *,
    bind: Mapping[str, Any] | None = None,
    timeout_s: float = 30.0,
    limit: int = 1000,
    memory_mib: int = 4096,
    wait_s: float = DEFAULT_WAIT_S,
) -> QueryResult:
    """Answer a SPARQL query, in a process of its own.

    Parameters
    ----------
    store
        Folder of the knowledge base, or its address; a query is read by the same gate before it is sent there.
    query
        SELECT, ASK, CONSTRUCT or DESCRIBE; :data:`~grafico.knowledge.vocabulary.PREFIXES` are known.
    bind
        Values of variables: entities, :class:`Term`, strings, numbers, truth values, times.
    timeout_s
        Seconds after which the query is ended.
    limit
        Rows (or triples) returned at most.
    memory_mib
        Memory the query may use, MiB.
    wait_s
        Seconds to wait for the store's lock at most.

    Raises
    ------
    QueryError
        The query is refused, does not parse, or took too long.
    KnowledgeError
        The store is locked or damaged.
    """
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise QueryError(f"a time-out between 0 and {MAX_TIMEOUT_S:g} s was expected, not {timeout_s:g}")
    if not 1 <= limit <= MAX_ROWS:
        raise QueryError(f"a row limit between 1 and {MAX_ROWS} was expected, not {limit}")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise QueryError("the query is not valid Unicode") from error
    request = {
        "address" if isinstance(store, Address) else "store": str(store),
        "query": query,
        "bind": {_variable(name): _writable(name, value) for name, value in (bind or {}).items()},
        "timeout_s": timeout_s,
        "limit": limit,
        "memory_mib": memory_mib,
        "wait_s": wait_s,
    }
    command = [sys.executable, "-P", "-m", "grafico.knowledge.query_child"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=timeout_s + wait_s + 60,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise QueryError(f"the query was ended after {timeout_s + wait_s + 60:g} s") from error
    return _read(done, timeout_s)


def _read(done: "subprocess.CompletedProcess[str]", timeout_s: float) -> QueryResult:
    if done.returncode == -signal.SIGALRM:
        raise QueryError(
            f"the query took longer than {timeout_s:g} s and was ended",
            hint="make it narrower, or give it more time (--timeout)",
        )
    if done.returncode == -signal.SIGPROF:
        raise QueryError("the query is too intricate to be parsed in time", hint="make it simpler")
    if done.returncode != 0 or not done.stdout:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        if "memory" in done.stderr.lower() or done.returncode == -signal.SIGABRT:
            raise QueryError("the query needs too much memory and was ended", hint="make it narrower")
        raise KnowledgeError(
            f"the process that answers queries ended with {done.returncode}: {last[0]}",
            hint="if it happens again, run `grafico kb rebuild`",
        )
    reply = json.loads(done.stdout)
    if "error" in reply:
        kind = QueryError if reply["error"] == "QueryError" else KnowledgeError
        raise kind(reply["message"], hint=reply["hint"])
    return QueryResult.model_validate(reply)


def _variable(name: str) -> str:
    if not (name.isidentifier() and name.isascii()):
        raise QueryError(f"not the name of a variable: {name!r}", hint="use letters, digits and underscores, without ?")
    return name


def _writable(name: str, value: Any) -> dict[str, str]:
    try:
        term = _bound(name, value)
        term["value"].encode()
    except ValueError as error:  # UnicodeEncodeError is one: surrogates; so are integers of thousands of digits
        raise QueryError(f"?{name} cannot be bound to a value that no text can hold: {error}") from error
    return term


def _bound(name: str, value: Any) -> dict[str, str]:
    if isinstance(value, Entity):
        return {"type": "uri", "value": value.iri}
    if isinstance(value, Term):
        if value.type == "uri":
            return {"type": "uri", "value": check_iri(value.value)}
        if value.type == "literal" and value.language is None:
            typed = {} if value.datatype is None else {"datatype": check_iri(value.datatype)}
            return {"type": "literal", "value": value.value, **typed}
        raise QueryError(f"?{name} cannot be bound to a {value.type} term")
    datatype = next((iri for kind, iri in _BINDABLE if isinstance(value, kind)), None)
    if datatype is None:
        raise QueryError(f"?{name} cannot be bound to a value of type {type(value).__name__}")
    if isinstance(value, str):
        return {"type": "literal", "value": value}
    text = (
        value.isoformat() if isinstance(value, date) else str(value).lower() if isinstance(value, bool) else repr(value)
    )
    return {"type": "literal", "value": text.replace("inf", "INF").replace("nan", "NaN"), "datatype": datatype}


_BINDABLE: tuple[tuple[type, str], ...] = (
    (str, XSD + "string"),
    (bool, XSD + "boolean"),
    (int, XSD + "integer"),
    (float, XSD + "double"),
    (datetime, XSD + "dateTime"),
    (date, XSD + "date"),
)

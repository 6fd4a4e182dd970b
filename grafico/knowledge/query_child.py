"""The process that answers one query: ``python -m grafico.knowledge.query_child``.

The request is one JSON document on standard input, the answer one on standard output. A query that runs for too long
is inside compiled code, where no exception reaches it; so the kernel ends this process when its time is over.
"""

import contextlib
import json
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from grafico.errors import GraficoError, KnowledgeError, QueryError
from grafico.knowledge.answers import bound_term, bounded_rows
from grafico.knowledge.lock import locked
from grafico.knowledge.readonly import check_query, with_values
from grafico.knowledge.vocabulary import PREFIXES

__all__ = ["answer", "main"]

PARSE_SECONDS = 10.0


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request; the caller keeps the time."""
    # Processor time, so that a busy machine does not refuse what an idle one answers.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, min(PARSE_SECONDS, max(1.0, request["timeout_s"])))
    form = check_query(request["query"])
    signal.setitimer(signal.ITIMER_PROF, 0)
    if "address" in request:
        from grafico.knowledge.query_remote import answer_there

        # The kernel keeps the time here as well, whatever the server does.
        _limit(request["timeout_s"])
        return answer_there(request, form)
    folder = Path(request["store"])
    with locked(folder, write=False, wait_s=request["wait_s"]) as turnstile:
        _limit(request["timeout_s"])
        store = _open(folder)
        turnstile.open()
        return _run(store, form, request)


def _open(folder: Path) -> Any:
    import pyoxigraph

    from grafico.knowledge.location import damaged, database

    path = database(folder)
    if path is None:
        return pyoxigraph.Store()
    try:
        return pyoxigraph.Store.read_only(str(path))
    except (OSError, RuntimeError) as error:
        raise damaged(folder, error) from error


def _run(store: Any, form: str, request: dict[str, Any]) -> dict[str, Any]:
    import pyoxigraph

    started = time.perf_counter()
    terms = {name: bound_term(term) for name, term in request["bind"].items()}
    text = request["query"]
    try:
        # The store can substitute only what is projected; in ASK substitution reaches further than VALUES.
        if form != "ask" and terms:
            names = " ".join(f"?{name}" for name in terms)
            text = with_values(text, f"VALUES ({names}) {{ ({' '.join(map(str, terms.values()))}) }}", form=form)
            terms = {}
        result = store.query(
            text,
            prefixes=PREFIXES,
            substitutions={pyoxigraph.Variable(name): term for name, term in terms.items()},
        )
        if form == "ask":
            return {"form": form, "boolean": bool(result), "seconds": time.perf_counter() - started}
        columns = (
            [variable.value for variable in result.variables]
            if form == "select"
            else ["subject", "predicate", "object"]
        )
        rows, truncated = bounded_rows(result, form, len(columns), request["limit"])
    except SyntaxError as error:
        raise QueryError(f"the query does not parse: {_plain(str(error))}") from error
    except (ValueError, RuntimeError) as error:
        raise QueryError(f"the query cannot be answered: {error}") from error
    except OSError as error:
        raise KnowledgeError(f"the store cannot be read: {error}", hint="run `grafico kb rebuild`") from error
    seconds = time.perf_counter() - started
    return {"form": form, "variables": columns, "rows": rows, "truncated": truncated, "seconds": seconds}


def _plain(said: str) -> str:
    """Return what a parser says, without the signs that might have stood there: a long list that helps nobody."""
    found = re.match(r"error at (\d+):(\d+): expected (?:one of )?(.*)", said, re.DOTALL)
    if found is None:
        return said[:300]
    reasons = [one for one in found[3].split(", ") if re.fullmatch(r"[A-Za-z]+( [A-Za-z]+)+", one)]
    return f"line {found[1]}, column {found[2]}: {reasons[0] if reasons else 'this cannot stand there'}"


def _limit(seconds: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))


def main() -> int:
    """Answer the request on standard input."""
    request = json.load(sys.stdin)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (request["memory_mib"] * 2**20,) * 2)
    try:
        reply = answer(request)
    except GraficoError as error:
        reply = {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    except MemoryError:
        reply = {"error": "QueryError", "message": "the query needs too much memory", "hint": "make it narrower"}
    sys.stdout.write(json.dumps(reply))
    return 0


if __name__ == "__main__":
    sys.exit(main())

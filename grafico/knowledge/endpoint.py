"""A SPARQL 1.1 endpoint over HTTP: what is sent, how long it may take, and what is known when it fails.

The server's own limits are not relied on: time and size are kept here. A query is sent again when the connection fails;
an update is the caller's to repeat, because only the caller knows whether that is harmless.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any, cast
from urllib.parse import urlencode

from grafico.errors import KnowledgeError
from grafico.knowledge.address import Address, credentials
from grafico.knowledge.punctual import in_time, punctual_pools

__all__ = ["Body", "Endpoint", "Unanswerable", "Uncertain"]

JSON = "application/sparql-results+json"
N_TRIPLES = "application/n-triples"
CONNECT_S = 10.0
TRIES = 3
BUSY = (429, 502, 503, 504)
CHUNK = 1 << 16


class Uncertain(KnowledgeError):
    """Changes were sent, and nobody knows whether they were made."""

    mark: Any = None
    """What the changes would have left behind."""


class Unanswerable(KnowledgeError):
    """What was asked is at fault: it is refused, takes too long, or has too long an answer."""


class Endpoint:
    """Asks an endpoint and changes what it holds; safe to use from several threads.

    Parameters
    ----------
    address
        Where it is.
    timeout_s
        Seconds that one request may take, from connecting to the last byte.
    max_bytes
        Size of an answer at most.

    Raises
    ------
    BadInput
        The credentials in the environment cannot be used with it.
    """

    def __init__(self, address: Address, *, timeout_s: float = 120.0, max_bytes: int = 1 << 30) -> None:
        import urllib3

        self.address = address
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes
        self._credentials = credentials(address)
        # Redirects are not followed: credentials are for the server that was named.
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)
        self._pool.pool_classes_by_scheme = punctual_pools()

    def __repr__(self) -> str:
        return f"Endpoint({self.address.url!r})"

    def ask(self, pattern: str) -> bool:
        """Return whether a pattern, as in ``{ ?s ?p ?o }``, is found."""
        # Not ASK: some servers answer it in a form of their own.
        return bool(self.select(f"SELECT (1 AS ?found) {pattern} LIMIT 1"))

    def select(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a SELECT query as pyoxigraph terms, all of them."""
        import pyoxigraph

        def rows(file: IO[bytes]) -> list[tuple[Any, ...]]:
            answer = pyoxigraph.parse_query_results(file, _json())
            if isinstance(answer, pyoxigraph.QueryBoolean):
                raise TypeError("yes or no, and no rows")
            return [tuple(row) for row in answer]

        found: list[tuple[Any, ...]] = self._parsed(query, rows)
        return found

    def _parsed(self, query: str, parse: Callable[[IO[bytes]], Any]) -> Any:
        for _ in range(TRIES - 1):
            with contextlib.suppress(_Repeatable):
                return self._parsed_once(query, parse)
        return self._parsed_once(query, parse)

    def _parsed_once(self, query: str, parse: Callable[[IO[bytes]], Any]) -> Any:
        with self.answer(query, JSON) as (body, _media_type):
            if body.is_cut:
                raise KnowledgeError(
                    f"{self.address} does not give all rows of an answer, but {body.is_cut} at most",
                    hint="raise that limit in its settings; Virtuoso calls it ResultSetMaxRows",
                )
            return body.parsed(lambda: parse(body.file))

    @contextlib.contextmanager
    def answer(self, query: str, accept: str) -> Iterator[tuple["Body", str]]:
        """Send a query; yield the body of the answer and its media type.

        Raises
        ------
        Unanswerable
            The endpoint refuses the query, or the time is over.
        KnowledgeError
            The endpoint cannot be reached, refuses the credentials, or breaks off.
        """
        deadline = time.monotonic() + self.timeout_s
        response = self._send(self.address.query_url, query, "query", accept, deadline)
        media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        with Body(response, self, deadline) as body:
            yield body, media_type

    def update(self, text: str) -> None:
        """Make changes that may be made twice; it is sent again when the connection fails.

        Raises
        ------
        Uncertain
            The connection failed, or the time was over, while they were under way.
        KnowledgeError
            They were refused or could not be sent; nothing was written.
        """
        deadline = time.monotonic() + self.timeout_s
        response = self._send(self.address.update_url, text, "update", "*/*", deadline)
        # The status is the answer; what else is said is read only so that the connection can be used again.
        length = response.headers.get("Content-Length", "0" if response.status == 204 else "")
        if length.isascii() and length.isdigit() and int(length[:9]) <= CHUNK:
            with contextlib.suppress(Exception), in_time(response, deadline - time.monotonic()):
                response.drain_conn()
            response.release_conn()
        else:
            response.close()

    def _send(self, url: str, text: str, kind: str, accept: str, deadline: float) -> Any:
        doubt: Uncertain | None = None
        for attempt in range(TRIES):
            pause = 0.1 * 4**attempt
            last = attempt == TRIES - 1 or time.monotonic() + pause >= deadline
            try:
                response = self._post(url, text, kind, accept, deadline)
                if response.status not in BUSY or last:
                    return self._accepted(response, kind)
                response.close()
                doubt = doubt or (self._unsure(response.status, "") if kind == "update" else None)
            except Uncertain as error:
                if last:
                    raise
                doubt = error
            except _Repeatable as error:
                if last:
                    raise (doubt or KnowledgeError(error.message, hint=error.hint)) from error.__cause__
            except KnowledgeError:
                if doubt is not None:
                    raise doubt from None
                raise
            time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _post(self, url: str, text: str, kind: str, accept: str, deadline: float) -> Any:
        from urllib3 import Timeout, exceptions

        left = max(deadline - time.monotonic(), 0.001)
        headers = {
            "Content-Type": f"application/sparql-{kind}; charset=utf-8",
            "Accept": accept,
            "User-Agent": "grafico",
        }
        if self._credentials is not None:
            headers["Authorization"] = self._credentials.header
        body = text.encode()
        if kind == "query" or self.address.updates_as_form:
            # All servers take forms; some limit their size, and updates can be large.
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode({kind: text}).encode()
        try:
            return self._pool.request(
                "POST",
                url,
                body=body,
                headers=headers,
                timeout=Timeout(connect=min(CONNECT_S, left), read=left),
                preload_content=False,
                redirect=False,
            )
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError) as error:
            raise _Repeatable(
                f"{self.address} cannot be reached ({_reason(error)}); nothing was written",
                hint="is the server running, and the address right?",
            ) from error
        except exceptions.SSLError as error:
            raise KnowledgeError(
                f"no secure connection to {self.address} could be made ({_reason(error)}); nothing was written",
                hint="for a certificate of your own authority, set SSL_CERT_FILE to a file that holds it",
            ) from error
        except exceptions.ReadTimeoutError as error:
            raise self._late(kind) from error
        except (exceptions.HTTPError, OSError) as error:
            raise self._broken(kind, error) from error

    def _late(self, kind: str) -> KnowledgeError:
        if kind == "query":
            return Unanswerable(
                f"{self.address} did not answer within {self.timeout_s:g} s", hint="ask for less, or give it more time"
            )
        return Uncertain(
            f"{self.address} did not confirm within {self.timeout_s:g} s; what was sent may have been written",
            hint=_AGAIN,
        )

    def _broken(self, kind: str, error: Exception) -> KnowledgeError:
        if kind == "query":
            return _Repeatable(f"{self.address} broke the connection off ({_reason(error)})", hint="try again")
        return Uncertain(
            f"{self.address} broke the connection off ({_reason(error)}); what was sent may have been written",
            hint=_AGAIN,
        )

    def _accepted(self, response: Any, kind: str) -> Any:
        if 200 <= response.status < 300:
            return response
        said = self._excerpt(response)
        response.close()
        written = "" if kind == "query" else "; nothing was written"
        answered = f"{self.address} answered {response.status}{said}{written}"
        if response.status in (401, 403):
            had = "was refused" if self._credentials is not None else "is needed, and none is set"
            raise KnowledgeError(
                f"{self.address}: a password or token {had} (status {response.status}){written}",
                hint="set GRAFICO_KB_USER and GRAFICO_KB_PASSWORD, or GRAFICO_KB_TOKEN",
            )
        if response.status == 400 and kind == "query":
            raise Unanswerable(f"the endpoint refuses the query{said}")
        if 300 <= response.status < 400:
            raise KnowledgeError(
                f"{answered}: it points elsewhere, and is not followed there", hint="give the address that it points to"
            )
        if response.status in (404, 405):
            raise KnowledgeError(
                f"{answered}: no SPARQL {kind} is taken there",
                hint="say where, as in https://host/dataset#query=/dataset/sparql&update=/dataset/update",
            )
        if kind == "update" and response.status >= 500:
            raise self._unsure(response.status, said)
        raise KnowledgeError(answered, hint="its log may say more")

    def _unsure(self, status: int, said: str) -> Uncertain:
        return Uncertain(f"{self.address} answered {status}{said}; what was sent may have been written", hint=_AGAIN)

    def _excerpt(self, response: Any) -> str:
        body = b""
        with contextlib.suppress(Exception):
            body = response.read(2000, decode_content=True)
        text = " ".join(body.decode("utf-8", "replace").split())
        if self._credentials is not None:
            text = self._credentials.hidden(text)
        text = "".join(sign for sign in text if sign.isprintable())[:300]
        return f" ({text})" if text else ""


_AGAIN = "persist again: what was written is not written twice"


class _Repeatable(KnowledgeError):
    """Nothing came of a request; it may be sent again."""


class Body:
    """The body of an answer, as a file that ends in time and has a size at most."""

    def __init__(self, response: Any, endpoint: Endpoint, deadline: float) -> None:
        self._response = response
        self._endpoint = endpoint
        self._read = 0
        self._late = False
        self.is_cut = str(response.headers.get("X-SPARQL-MaxRows", ""))[:20]
        """How many rows a server gives at most that has more of them (Virtuoso)."""
        self._failure: KnowledgeError | None = None
        self._timer = threading.Timer(max(deadline - time.monotonic(), 0.001), self._stop)
        self._timer.daemon = True

    @property
    def file(self) -> IO[bytes]:
        """Itself, for parsers."""
        return cast("IO[bytes]", self)

    def __enter__(self) -> "Body":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # What was not read would be taken for the next answer.
        with contextlib.suppress(Exception):
            self._response.close()

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, none at the end."""
        try:
            data = bytes(self._response.read1(CHUNK if size < 0 else min(size, CHUNK), decode_content=True))
        except Exception as error:
            raise self._failed(error) from error
        self._read += len(data)
        if self._late or self._read > self._endpoint.max_bytes:
            raise self._failed(None)
        return data

    def parsed(self, parse: Any) -> Any:
        """Return what ``parse`` makes of the body; what breaks it is told as what happened to the connection.

        Raises
        ------
        KnowledgeError
            The answer is late, too long, broken off, or no answer to SPARQL.
        """
        try:
            return parse()
        except (SyntaxError, TypeError, ValueError, OSError, KnowledgeError) as error:
            if self._failure is not None:
                raise self._failure from error
            if isinstance(error, KnowledgeError):
                raise
            raise KnowledgeError(
                f"the answer of {self._endpoint.address} is cut short or no answer to SPARQL: {str(error)[:200]}",
                hint="a server that has run out of time may break off in the middle of its answer; ask for less",
            ) from error

    def _stop(self) -> None:
        self._late = True
        with contextlib.suppress(Exception):
            self._response.shutdown()

    def _failed(self, error: Exception | None) -> KnowledgeError:
        from urllib3.exceptions import ReadTimeoutError

        address = self._endpoint.address
        failure: KnowledgeError
        if self._late or isinstance(error, ReadTimeoutError):
            failure = Unanswerable(
                f"{address} did not answer within {self._endpoint.timeout_s:g} s",
                hint="ask for less, or give it more time",
            )
        elif error is None:
            failure = Unanswerable(
                f"the answer of {address} is longer than {self._endpoint.max_bytes} bytes", hint="ask for less"
            )
        else:
            failure = _Repeatable(
                f"{address} broke off in the middle of its answer ({_reason(error)})", hint="try again"
            )
        self._failure = failure
        return failure


def _json() -> Any:
    import pyoxigraph

    return pyoxigraph.QueryResultsFormat.JSON


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", None) or error
    # urllib3 tells the cause as the second of two.
    if isinstance(inner, Exception) and len(inner.args) == 2 and isinstance(inner.args[1], Exception):
        inner = inner.args[1]
    text = str(getattr(inner, "strerror", None) or inner)
    return text.rpartition(": ")[2][:160] or type(inner).__name__

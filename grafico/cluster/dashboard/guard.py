"""Who may see anything at all: every request to the scheduler's HTTP server, websockets too, passes here first.

The loopback interface is open to every user of the machine, and Dask's own pages show inputs, code and logs to anybody.
A link carries the token once; a cookie takes its place at once, so that it stays in no history, log or referrer.

Browsers send a host's cookies to all its ports, also to one where another user listens, on a port that a cluster has
left, say. So all pages stand under a path that nobody else can guess, and the cookie is sent with that path alone.
"""

import hashlib
import hmac
from typing import Any
from urllib.parse import urlencode, urlsplit

from tornado import httputil, routing, web

from grafico.cluster.strangers import Waiting

__all__ = ["COOKIE_S", "Guard", "hidden_path"]

COOKIE = "grafico"

COOKIE_S = 7 * 24 * 3600
"""A browser forgets after this; the token itself goes with the cluster."""

UNKNOWN = "This dashboard belongs to somebody: open the link that `grafico run` or `grafico show` prints.\n"


def hidden_path(token: str) -> str:
    """Return the path under which a cluster's pages stand, as in ``/4f0c…``; it does not give the token away."""
    return "/" + hashlib.sha256(f"path of {token}".encode()).hexdigest()[:32]


class Guard(routing.Router):
    """Stands before an application, and lets nobody in without the token.

    Parameters
    ----------
    application
        What is served to those who have it.
    token
        The secret of this cluster.
    waiting
        Connections on which nobody has shown the token yet.
    """

    def __init__(self, application: web.Application, token: str, waiting: Waiting) -> None:
        self._application = application
        self._waiting = waiting
        self._token = token.encode()
        self._path = hidden_path(token)
        self._enter = door(Enter, path=self._path, token=token)
        self._unknown = door(Refuse, status=401, said=UNKNOWN)
        self._foreign = door(Refuse, status=403, said="A page of another server asked for this.\n")

    def find_handler(self, request: httputil.HTTPServerRequest, **kwargs: Any) -> httputil.HTTPMessageDelegate | None:
        """Return what answers a request: the application, or a door."""
        if self._is(request.query_arguments.get("token", [b""])[-1]):
            return self._enter.find_handler(request)
        if not self._knows(request):
            return self._unknown.find_handler(request)
        self._waiting.known(getattr(request.connection, "stream", None))
        if not same_origin(request):
            return self._foreign.find_handler(request)
        if not request.path.startswith(f"{self._path}/"):  # a program that has the token may leave it out
            request.path, request.uri = self._path + request.path, f"{self._path}{request.uri}"
        return self._application.find_handler(request, **kwargs)

    def _knows(self, request: httputil.HTTPServerRequest) -> bool:
        kind, _, given = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is(given.strip().encode("utf-8", "replace")):
            return True
        morsel = request.cookies.get(COOKIE)
        return morsel is not None and self._is(morsel.value.encode("utf-8", "replace"))

    def _is(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self._token)


def door(handler: type[web.RequestHandler], **settings: Any) -> web.Application:
    """Return what answers every request in one way, and logs nothing: what was tried may be a mistyped secret."""
    return web.Application([(r".*", handler, settings)], log_function=lambda _: None)


def same_origin(request: httputil.HTTPServerRequest) -> bool:
    """Whether a request comes from a page of this very server, or from no page.

    A cookie is sent along with what pages on other ports of the same host ask for; their users may be others.
    """
    origin = request.headers.get("Origin") or request.headers.get("Sec-Websocket-Origin")
    return not origin or urlsplit(origin).netloc.lower() == request.headers.get("Host", "").lower()


class Enter(web.RequestHandler):
    """Takes the token out of the address, and hands over the cookie."""

    def initialize(self, path: str, token: str) -> None:
        """Take what the guard gives."""
        self.hidden = path
        self.token = token

    def get(self) -> None:
        """Send the browser to the same page, where it stands, without the token."""
        arguments = self.request.query_arguments.items()
        left = [(name, value) for name, values in arguments if name != "token" for value in values]
        query = f"?{urlencode(left)}" if left else ""
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_cookie(COOKIE, self.token, path=f"{self.hidden}/", httponly=True, samesite="Strict", max_age=COOKIE_S)
        page = self.request.path.removeprefix(self.hidden).lstrip("/")
        self.redirect(f"{self.hidden}/{page}{query}", status=303)

    head = get


@web.stream_request_body
class Refuse(web.RequestHandler):
    """Answers with a refusal, whatever the method, before anything that follows the headers is taken in."""

    def initialize(self, status: int, said: str) -> None:
        """Take what to say."""
        self.status = status
        self.said = said

    def data_received(self, chunk: bytes) -> None:
        """Never called: the answer is given by then."""

    def prepare(self) -> None:
        """Say it."""
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        if self.status == 401:
            self.set_header("WWW-Authenticate", 'Bearer realm="grafico"')
        self.finish(self.said)

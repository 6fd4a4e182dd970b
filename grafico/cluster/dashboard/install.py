"""Putting the dashboard on a scheduler's HTTP server."""

import secrets
from typing import Any
from urllib.parse import urlsplit

from distributed.http.utils import get_handlers
from tornado import web

from grafico.cluster.dashboard.data import History
from grafico.cluster.dashboard.guard import Guard, hidden_path
from grafico.cluster.dashboard.pages import DaskPages, Data, Static
from grafico.cluster.dashboard.source import StatusSource
from grafico.cluster.strangers import Waiting, room

__all__ = ["dashboard_link", "install", "moved", "new_token"]

DASK_ROUTES = ["distributed.http.scheduler.info", "distributed.http.health", "distributed.http.statics"]
"""What Dask serves beside its Bokeh pages: never its proxy, which would fetch pages of other hosts for anybody."""


def new_token() -> str:
    """Return a secret for one cluster."""
    return secrets.token_urlsafe(32)


def dashboard_link(host: str, port: int, token: str) -> str:
    """Return the link that opens the page in a browser; it holds the secret."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/grafico?token={token}"


def moved(wanted: int | str, link: str | None) -> str:
    """Return in words that a page is not at the port that a profile wants for it; empty if it is, or any will do.

    Whoever has a tunnel to that port would send the link's secret to whatever listens there.
    """
    port = urlsplit(link).port if link else None
    if port is None or wanted in {"off", 0, port}:
        return ""
    return f"the dashboard's port {wanted} is taken by somebody else: it is at {port}"


def install(scheduler: Any, *, token: str, source: StatusSource) -> None:
    """Serve the dashboard from a scheduler's HTTP server, to those who have the token.

    The page is at ``/grafico``, what it shows at ``/grafico/data.json``, both under the path that the link leads to. Dask's pages come beside it; Bokeh, which
    draws them, is loaded when the first of them is opened, and without it they say how to get it. The scheduler needs
    ``dashboard=False`` and an address for HTTP on the loopback interface: nothing here is encrypted.

    Parameters
    ----------
    scheduler
        A Dask scheduler that has been started.
    token
        The secret without which every request is answered with 401.
    source
        Asked for what runs say of themselves.
    """
    history = History(scheduler)
    history.start()
    application = scheduler.http_application
    path = hidden_path(token)
    shared = {"scheduler": scheduler, "source": source, "history": history}
    application.add_handlers(
        r".*",
        [
            (rf"{path}(?:/|/grafico/)", web.RedirectHandler, {"url": f"{path}/grafico", "permanent": False}),
            (rf"{path}/grafico", Static),
            (rf"{path}/grafico/data\.json", Data, shared),
            (rf"{path}/grafico/(page\.css|[a-z]+\.js|icon\.svg)", Static),
            *get_handlers(server=scheduler, modules=DASK_ROUTES, prefix=path),
        ],
    )
    application.add_application(DaskPages(scheduler, path))
    waiting = Waiting(room())
    server = scheduler.http_server
    serve = server.handle_stream

    def admit(stream: Any, address: tuple[Any, ...]) -> None:
        waiting.add(stream)
        serve(stream, address)

    server.handle_stream = admit
    server.request_callback = Guard(application, token, waiting)

"""The handlers: our page, what it shows, and Dask's pages, which are loaded when somebody asks for them."""

import asyncio
import importlib
import importlib.util
import json
import warnings
from pathlib import Path
from typing import Any

from tornado import web

from grafico.cluster.dashboard.data import History, page_data
from grafico.cluster.dashboard.source import StatusSource

__all__ = ["DaskPages", "Data", "Static", "has_bokeh"]

STATIC = Path(__file__).parent / "static"

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"
"""The page loads nothing from elsewhere, and no other page shows it in a frame."""

TYPES = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}


def has_bokeh() -> bool:
    """Whether Bokeh is installed, which draws Dask's pages."""
    return importlib.util.find_spec("bokeh") is not None


class Quiet(web.RequestHandler):
    """What all our answers have in common."""

    def set_default_headers(self) -> None:
        """Allow nothing that is not needed."""
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")
        self.clear_header("Server")


class Static(Quiet):
    """Files of the page."""

    def get(self, name: str = "page.html") -> None:
        """Send one; the route lets no name through that leads elsewhere."""
        path = STATIC / name
        if not path.is_file():
            raise web.HTTPError(404)
        self.set_header("Content-Type", f"{TYPES[path.suffix]}; charset=utf-8")
        self.finish(path.read_bytes())


class Data(Quiet):
    """What the page shows, as JSON."""

    def initialize(self, scheduler: Any, source: StatusSource, history: History) -> None:
        """Take what is shown."""
        self.scheduler = scheduler
        self.source = source
        self.history = history

    def get(self) -> None:
        """Send it; ``?since=`` (seconds since the epoch) leaves out older steps of the history."""
        try:
            since = float(self.get_query_argument("since", "0"))
        except ValueError:
            raise web.HTTPError(400, "since is a number of seconds since the epoch") from None
        body = page_data(self.history, self.source.statuses(), since=since, dask=has_bokeh())
        body["scheduler"] = str(self.scheduler.id)
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(body, separators=(",", ":"), default=str))


class DaskPages(web.Application):
    """Stands for Dask's Bokeh pages until one of them is opened; then Bokeh is loaded and takes its place."""

    def __init__(self, scheduler: Any, path: str) -> None:
        super().__init__([(rf"{path}/[a-z-]+", Load, {"scheduler": scheduler, "pages": self, "path": path})])


class Load(Quiet):
    """Loads Bokeh, which takes seconds and is not needed by a run that nobody looks at."""

    def initialize(self, scheduler: Any, pages: DaskPages, path: str) -> None:
        """Take where to put what is loaded."""
        self.scheduler = scheduler
        self.pages = pages
        self.path_of_pages = path

    async def get(self) -> None:
        """Load, and have the browser ask again."""
        if not has_bokeh():
            self.set_status(404)
            self.set_header("Content-Type", "text/plain; charset=utf-8")
            self.finish("Dask's own pages need Bokeh: pip install 'grafico[dashboard]'. Ours is at /grafico.\n")
            return
        applications = self.scheduler.http_application.applications
        if self.pages in applications:
            found = await asyncio.to_thread(load_dask_pages)
            if self.pages in applications:  # whoever asked first has put them there
                found.connect(
                    self.scheduler.http_application,
                    self.scheduler.http_server,
                    self.scheduler,
                    prefix=self.path_of_pages,
                )
                applications.remove(self.pages)
        self.redirect(self.request.uri or f"{self.path_of_pages}/status", status=303)


def load_dask_pages() -> Any:
    """Import Dask's Bokeh pages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("distributed.dashboard.scheduler")

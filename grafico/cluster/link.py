"""What a controller's lanes need of the cluster that they run on, whoever started it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

__all__ = ["Link"]


class Link(Protocol):
    """The way to a scheduler."""

    @property
    def client(self) -> Any:
        """A Dask client, asynchronous."""
        ...

    @property
    def dashboard_link(self) -> str | None:
        """Link to the page, with its token."""
        ...

    @property
    def standing(self) -> bool:
        """Whether the cluster outlives this controller, and other controllers may share it."""
        ...

    @property
    def connected(self) -> bool:
        """Whether the scheduler can be reached; if not, what Dask says of tasks means nothing."""
        ...

    def heard(self, ticket: str) -> str | None:
        """Return what a worker said aloud that a task came to, once; ``None`` if nothing was heard."""
        ...

    def future(self, ticket: str) -> Any:
        """Return the future of a task that the scheduler has, sent by an earlier controller of the run."""
        ...

    async def restored(self) -> Mapping[str, str]:
        """Wait until the scheduler can be reached again; return what it has of the run: by ticket, the worker.

        Raises
        ------
        GraficoError
            It is gone for good.
        """
        ...

    async def why_gone(self, worker: str) -> str:
        """Return why a worker went in order, with its allocation say; empty if it did not."""
        ...

    def ending(self, worker: str) -> Callable[[], None] | None:
        """Return how to end the process that a worker has just now, if that is ours to do."""
        ...

    def nudge(self) -> None:
        """Take note that something waits."""
        ...

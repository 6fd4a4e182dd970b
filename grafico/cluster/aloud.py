"""A worker beside its controller says aloud what tasks came to, so that the controller need not ask for each result."""

from typing import Any

from distributed import WorkerPlugin

__all__ = ["ALOUD", "Announcer"]

ALOUD = "grafico-replies"
"""Dask's topic on which it is said."""

LONGEST = 64 * 1024
"""Characters of a reply that is said aloud; a longer one is fetched."""


class Announcer(WorkerPlugin):  # type: ignore[misc]  # distributed has no types
    """Says what a task came to in the very message that tells the scheduler that it is done."""

    name = "grafico-announcer"

    def setup(self, worker: Any) -> None:
        """Take the worker."""
        self._worker = worker

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:  # noqa: ARG002 - Dask's signature
        """See what Dask does with a task."""
        if finish == "memory":
            reply = self._worker.data.get(key)
            if isinstance(reply, str) and len(reply) <= LONGEST:
                self._worker.log_event(ALOUD, {"ticket": str(key), "reply": reply})

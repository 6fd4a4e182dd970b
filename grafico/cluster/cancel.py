"""Cancelling reaches a running calculation: Dask forgets a cancelled task, but its thread would work on."""

from typing import Any

from distributed import WorkerPlugin

from grafico.cluster.execute import cancel

__all__ = ["Canceller"]

RUNNING = frozenset({"executing", "long-running"})
FORGOTTEN = frozenset({"released", "cancelled", "forgotten"})


class Canceller(WorkerPlugin):  # type: ignore[misc]  # distributed has no types
    """Ends the process of a calculation whose task is released while it runs."""

    name = "grafico-canceller"

    def transition(self, key: Any, start: str, finish: str, **_: Any) -> None:
        """See what Dask does with a task."""
        if start in RUNNING and finish in FORGOTTEN:
            cancel(str(key))

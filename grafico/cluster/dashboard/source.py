"""What the page is told of runs; what it shows of workers it reads from the scheduler."""

from collections.abc import Mapping
from typing import Protocol

from grafico.calculations import Json

__all__ = ["StatusSource"]


class StatusSource(Protocol):
    """Whoever keeps what the controllers of a cluster said of their runs last."""

    def statuses(self) -> Mapping[str, Json]:
        """Return the latest status of each run, by whatever tells controllers apart; see ``jobs.status``."""
        ...

"""What all walks of one run share, and the comparison of a journal with the code that replays it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grafico.calculations import Json, Outcome
from grafico.errors import ReplayMismatch
from grafico.graphs.events import Events
from grafico.graphs.protocols import Compute, Persist, Position, Recorder, Router

__all__ = ["Flight", "Limits", "Scope", "mismatch", "same"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of a run."""

    route_retries: int = 3
    """How often a refused answer goes back to the router."""
    lanes: int = 256
    """Lanes that one fan-out keeps open at once, where it does not say itself: enough for every slot of a large cluster,
    and little to hold. It opens more while these wait for one kind of worker and another has nothing to do."""
    most_lanes: int = 4096
    """Lanes of the whole run above which no fan-out opens more than its bound."""
    worker_lost_retries: int = 3
    """Attempts after a lost worker, for each calculation."""
    ask_forced: bool = False
    """Ask the router even where one successor is left; only to measure what forced edges save."""


@dataclass(slots=True)
class Flight:
    """A calculation that is being computed now, and how many positions of the run wait for it."""

    task: "asyncio.Task[Outcome[Any]]"
    waiting: int = 0


@dataclass(slots=True)
class Scope:
    """Shared by the root walk and all of its lanes."""

    compute: Compute
    router: Router
    recorder: Recorder
    events: Events
    persist: Persist | None
    limits: Limits
    seed: int | None = None
    """Makes chance the same in every run, position by position."""
    gpus: int = 0
    """GPUs that the run's cluster has at most, simulated ones too."""
    crowded: Callable[[], int] | None = None
    """Returns how many calculations wait while a kind of worker that none of them can use has room."""
    open_lanes: int = 0
    """Lanes of all fan-outs that are open now."""
    flights: dict[str, Flight] = field(default_factory=dict)
    """Calculations under way, by content key."""
    climbed: set[str] = field(default_factory=set)
    """Content keys whose recovery ladder was climbed in this session: what an earlier one left of it is over."""
    changed: set[str] = field(default_factory=set)
    """Nodes of which it has been told that their code changed."""
    leaving: "set[asyncio.Task[Outcome[Any]]]" = field(default_factory=set)
    """Calculations that nobody waits for any more, while they are being cancelled."""

    def abandon(self, task: "asyncio.Task[Outcome[Any]]") -> None:
        """Cancel a calculation."""
        self.leaving.add(task)
        task.add_done_callback(self.leaving.discard)
        task.cancel()

    async def close(self) -> None:
        """Return when all that was cancelled is over."""
        await asyncio.gather(*self.leaving, return_exceptions=True)


def mismatch(position: Position, node: str, recorded: str, asked: str) -> ReplayMismatch:
    """Return the error for the first difference between journal and code."""
    lane = f"lane {position.lane}, " if position.lane else ""
    return ReplayMismatch(
        f"the journal does not match the code at node {node} ({lane}step {position.step}, call {position.ordinal}): "
        f"the journal has {recorded}, the code asks for {asked}",
        hint=f"restore the code, or recompute from there: grafico resume RUN --from {node}",
    )


def same(position: Position, node: str, what: str, recorded: Mapping[str, Json], asked: Mapping[str, Json]) -> None:
    """Compare fields of a record with what the code asks for.

    Raises
    ------
    ReplayMismatch
        They differ; names the first field that does.
    """
    for name, value in asked.items():
        found = recorded.get(name)
        if found != value:
            raise mismatch(position, node, f"{what} with {name} = {found!r}", f"{name} = {value!r}")

"""Who looks on while a run goes: a tally of its events, and what a face has to offer to be told."""

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from grafico.graphs.events import (
    AttemptFailed,
    CalculationEnded,
    CalculationStarted,
    Event,
    LaneEnded,
    LanesOpened,
    LaneStarted,
    NodeChanged,
    NodeEntered,
    OutcomeLost,
)

__all__ = ["Silent", "Tally", "Watcher", "tell_oddities"]


class Watcher(Protocol):
    """A face that looks on."""

    def opened(self, cluster: Any) -> None:
        """Take the cluster, to ask it for its slots and its dashboard."""
        ...

    def event(self, event: Event) -> None:
        """Take an event of the walk."""
        ...

    def say(self, text: str) -> None:
        """Take a line for people."""
        ...

    async def look(self) -> None:
        """Refresh what is shown, until cancelled."""
        ...


class Silent:
    """A watcher that shows nothing."""

    def opened(self, cluster: Any) -> None:
        """Take the cluster."""

    def event(self, event: Event) -> None:
        """Take an event."""

    def say(self, text: str) -> None:
        """Take a line."""

    async def look(self) -> None:
        """Do nothing."""


def tell_oddities(watcher: Watcher, event: Event) -> None:
    """Tell people what a replay met that it should not: code that has changed, an outcome that is gone."""
    if isinstance(event, NodeChanged | OutcomeLost):
        watcher.say(f"note: {event}")


@dataclass
class Tally:
    """Counts of lanes and calculations by state, from events."""

    started: float = field(default_factory=time.monotonic)
    lanes: Counter[str] = field(default_factory=Counter)
    """``opened``, ``started``, ``done``, ``failed``; nested lanes count as well."""
    calculations: Counter[str] = field(default_factory=Counter)
    """``started``, ``done``, ``failed``, ``reused``, ``retried``."""
    node: str = ""
    """Where the root walk is."""
    running: dict[str, str] = field(default_factory=dict)
    """Label of each calculation that was handed over, by lane and key."""
    fresh_lanes: int = 0
    """Lanes that ended now, and were not answered by the journal."""
    first_fresh: float | None = None
    _live: set[str] = field(default_factory=set)
    """Lanes in which something happened now, and was not answered by the journal."""

    def take(self, event: Event) -> bool:
        """Count an event; return whether it is news, and not what the journal told."""
        lane = event.position.lane
        if isinstance(event, (LaneStarted, LanesOpened, LaneEnded)):
            # A lane is as new as what happens in it.
            news = lane in self._live if isinstance(event, LaneEnded) else not event.replayed
        else:
            news = not event.replayed
            if news:
                self._enliven(lane)
        self._count(event, news=news)
        return news

    def _enliven(self, lane: str) -> None:
        while lane and lane not in self._live:
            self._live.add(lane)
            lane = lane.rpartition("/")[0]

    def _count(self, event: Event, *, news: bool) -> None:
        if isinstance(event, NodeEntered):
            if not event.position.lane:
                self.node = event.node
        elif isinstance(event, LanesOpened):
            self.lanes["opened"] += len(event.keys)
        elif isinstance(event, LaneStarted):
            self.lanes["started"] += 1
        elif isinstance(event, LaneEnded):
            self.lanes["failed" if event.failure else "done"] += 1
            self.fresh_lanes += news
            self._live.discard(event.position.lane)
        elif isinstance(event, CalculationStarted):
            if self.first_fresh is None:
                self.first_fresh = time.monotonic()
            self.calculations["started"] += event.attempt == 1
            self.running[f"{event.position}"] = event.label or event.name
        elif isinstance(event, AttemptFailed):
            self.calculations["retried"] += bool(event.next_attempt)
        elif isinstance(event, CalculationEnded):
            self.running.pop(f"{event.position}", None)
            reused = event.reused or event.replayed
            self.calculations["failed" if event.failure else "reused" if reused else "done"] += 1

    @property
    def open_lanes(self) -> dict[str, int]:
        """Lanes by state: waiting, running, done, failed."""
        ended = self.lanes["done"] + self.lanes["failed"]
        return {
            "waiting": max(0, self.lanes["opened"] - self.lanes["started"] - self._ended_unstarted()),
            "running": max(0, self.lanes["started"] - ended + self._ended_unstarted()),
            "done": self.lanes["done"],
            "failed": self.lanes["failed"],
        }

    def _ended_unstarted(self) -> int:
        # A replayed lane may end without a start.
        return max(0, self.lanes["done"] + self.lanes["failed"] - self.lanes["started"])

    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def left_s(self) -> float | None:
        """Seconds left, judged by the lanes that have ended; ``None`` while too little is known."""
        states = self.open_lanes
        remaining = states["waiting"] + states["running"]
        if self.first_fresh is None or self.fresh_lanes < 2 or not remaining:
            return None
        return (time.monotonic() - self.first_fresh) * remaining / self.fresh_lanes

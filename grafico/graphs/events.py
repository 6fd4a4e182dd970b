"""What happens in a run, as typed events that faces subscribe to without the graph knowing them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from grafico.calculations import Failure
from grafico.graphs.protocols import Position

__all__ = [
    "AttemptFailed",
    "CalculationEnded",
    "CalculationStarted",
    "Event",
    "Events",
    "LaneEnded",
    "LaneStarted",
    "LanesOpened",
    "NodeChanged",
    "NodeEntered",
    "OutcomeLost",
    "RouteChosen",
    "Subscriber",
    "WalkEnded",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """Base of the events; ``replayed`` tells what the journal answered from what happens now."""

    position: Position
    replayed: bool


@dataclass(frozen=True, slots=True)
class NodeEntered(Event):
    """A walk entered a node."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeChanged(Event):
    """A node's code is not what it was when the journal was written, and its journalled decisions are kept."""

    node: str

    def __str__(self) -> str:
        return (
            f"node {self.node} has changed since: its journalled decisions are kept; "
            f"`grafico resume RUN --from {self.node}` walks it again"
        )


@dataclass(frozen=True, slots=True)
class OutcomeLost(Event):
    """A calculation that had succeeded is computed again: its committed outcome is gone."""

    name: str
    label: str
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.label} (lane {self.position.lane or 'root'}) is computed again: {self.reason}"


@dataclass(frozen=True, slots=True)
class RouteChosen(Event):
    """A successor was chosen, or (``None``) the walk stopped."""

    node: str
    successor: str | None
    by: str
    confidence: float
    reasoning: str


@dataclass(frozen=True, slots=True)
class CalculationStarted(Event):
    """An attempt at a calculation was handed to Compute."""

    name: str
    label: str
    key: str
    attempt: int


@dataclass(frozen=True, slots=True)
class AttemptFailed(Event):
    """An attempt failed; ``next_attempt`` says what the recovery ladder changes, or is empty at its end."""

    name: str
    label: str
    attempt: int
    failure: Failure
    next_attempt: str


@dataclass(frozen=True, slots=True)
class CalculationEnded(Event):
    """A calculation was answered; ``reused`` when a committed outcome answered it."""

    name: str
    label: str
    key: str
    failure: Failure | None
    reused: bool


@dataclass(frozen=True, slots=True)
class LanesOpened(Event):
    """A fan-out was opened."""

    node: str
    target: str
    label: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LaneStarted(Event):
    """A lane began; the position's lane is its path."""

    key: str


@dataclass(frozen=True, slots=True)
class LaneEnded(Event):
    """A lane ended; ``done`` of ``total`` lanes of its fan-out have."""

    key: str
    failure: Failure | None
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class WalkEnded(Event):
    """The root walk ended."""

    failure: Failure | None


Subscriber: TypeAlias = Callable[[Event], object]


class Events:
    """Hands events to subscribers; one that raises is logged, and never breaks the walk."""

    __slots__ = ("_subscribers",)

    def __init__(self, subscribers: Sequence[Subscriber] = ()) -> None:
        self._subscribers = tuple(subscribers)

    def __bool__(self) -> bool:
        return bool(self._subscribers)

    def emit(self, event: Event) -> None:
        """Hand an event to each subscriber."""
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception:
                log.exception("a subscriber failed on %s", type(event).__name__)

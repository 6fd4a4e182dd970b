"""What a walk carries: intent, summaries, routing history, a requested exit, and the domain's own objects."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar, overload

from grafico.calculations import Json
from grafico.errors import BadInput

__all__ = ["AppendOnly", "GraphState", "RouteTaken", "Summary", "check_scalars"]

ItemT = TypeVar("ItemT")

LONGEST_SCALAR = 400
"""Characters of text that may go to a router as one scalar."""


class Summary(NamedTuple):
    """What one step did, in words that a router may read."""

    node: str
    text: str
    scalars: Mapping[str, Json] = {}


class RouteTaken(NamedTuple):
    """One entry of the routing history."""

    node: str
    successor: str | None
    by: str
    confidence: float = 1.0
    reasoning: str = ""


class AppendOnly(Sequence[ItemT], Generic[ItemT]):
    """A list that only grows."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[ItemT] = ()) -> None:
        self._items = list(items)

    def append(self, item: ItemT) -> None:
        """Add one item at the end."""
        self._items.append(item)

    @overload
    def __getitem__(self, index: int) -> ItemT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ItemT]: ...
    def __getitem__(self, index: int | slice) -> ItemT | Sequence[ItemT]:
        return tuple(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return self._items == other._items if isinstance(other, AppendOnly) else NotImplemented

    def __repr__(self) -> str:
        return f"AppendOnly({self._items!r})"


@dataclass(kw_only=True)
class GraphState:
    """Base of the states of graphs; a graph adds its native objects, which no router ever sees.

    A lane's state belongs to that lane alone: give each member of a fan-out its own.
    """

    intent: str = ""
    """What the user wants, summarised."""
    summaries: AppendOnly[Summary] = field(default_factory=AppendOnly)
    """One or more for each step; written through ``ctx.summarize``."""
    routes: AppendOnly[RouteTaken] = field(default_factory=AppendOnly)
    """Routing history; written by the engine."""
    exit: str | None = None
    """Id of the node at which the walk shall end, whatever the router says."""
    stopped: str | None = None
    """Why the engine ended the walk early at a terminal node; written by the engine."""

    def scalars(self) -> Mapping[str, Json]:
        """Return the small values that a router may see."""
        return {}


def check_scalars(scalars: Mapping[str, Json], where: str) -> Mapping[str, Json]:
    """Return ``scalars`` if each is a number, a truth value, nothing, or a short text.

    Raises
    ------
    BadInput
        Something larger was marked for a router.
    """
    for name, value in scalars.items():
        if value is None or isinstance(value, bool | int | float):
            continue
        if isinstance(value, str) and len(value) <= LONGEST_SCALAR:
            continue
        raise BadInput(
            f"{where} marks {name!r} for routers, which is a {type(value).__name__} and no small scalar",
            hint=f"give numbers, truth values or text of at most {LONGEST_SCALAR} characters; keep objects in the state",
        )
    return scalars

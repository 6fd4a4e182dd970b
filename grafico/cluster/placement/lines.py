"""Waiting calculations in lines: one line for what may go to the same workers and is of about the same size."""

import heapq
import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from grafico.cluster.placement.needs import Demand
from grafico.cluster.placement.stations import Shape

__all__ = ["Head", "Line", "Lines", "Sort", "Waiting", "sort_of"]

ItemT = TypeVar("ItemT")
Order: TypeAlias = tuple[int, float, int]
Head: TypeAlias = tuple[Order, Demand]
"""A kind with the place of its first item."""

TOGETHER_S = 1.0
"""Of what was asked for within this time, a fan-out say, the longest goes first: then little is left over at the end."""


class Sort(NamedTuple):
    """Demands of one sort are about equal: within a factor of two in time and places, of four in memory."""

    gpu: bool
    whole: bool
    walltime: int
    cpus: int
    vram: int
    memory: int


def sort_of(need: Demand) -> Sort:
    """Return the sort of a demand."""
    return Sort(
        need.gpu,
        need.whole,
        int(need.walltime_s).bit_length(),
        0 if need.gpu else need.cpus.bit_length(),
        need.vram_mib.bit_length() // 2,
        need.memory_mib.bit_length() // 2,
    )


class Waiting(NamedTuple, Generic[ItemT]):
    """One item in a queue."""

    number: int
    since: float
    item: ItemT


class Line:
    """Kinds of one sort that may go to the same workers, the kind with the oldest item first.

    Parameters
    ----------
    sort
        What its demands have in common.
    reach
        Shapes of the workers that they may go to.
    """

    def __init__(self, sort: Sort, reach: frozenset[Shape]) -> None:
        self.sort = sort
        self.reach = reach
        self.shortest_s = float(2 ** (sort.walltime - 1)) if sort.walltime else 0.0
        """No walltime in it is less."""
        self.kinds: set[Demand] = set()
        self._heads: list[Head] = []

    def push(self, head: Head) -> None:
        """Note the first item of a kind."""
        heapq.heappush(self._heads, head)

    def pop(self) -> Head:
        """Take the first kind out."""
        return heapq.heappop(self._heads)

    def first(self) -> Head | None:
        """Return the first kind, ``None`` if all are taken out."""
        return self._heads[0] if self._heads else None

    def put_back(self, heads: Iterable[Head]) -> None:
        """Put kinds back that were taken out and not served."""
        for head in heads:
            self.push(head)

    def drop(self, need: Demand) -> None:
        """Take one kind out, wherever it stands."""
        self._heads = [head for head in self._heads if head[1] != need]
        heapq.heapify(self._heads)


class Lines(Generic[ItemT]):
    """All that waits. A line is known by its sort and by the shapes of workers in its reach.

    Within a kind the oldest is first; among kinds that with the oldest first item, where items that came together
    (:data:`TOGETHER_S`) count as equally old, and then the one that may take longest is first.
    """

    def __init__(self) -> None:
        self.queues: dict[Demand, deque[Waiting[ItemT]]] = {}
        self.lines: dict[tuple[Sort, frozenset[Shape]], Line] = {}
        self._home: dict[Demand, Line] = {}
        self._numbers = itertools.count()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Line]:
        return iter(self.lines.values())

    def add(self, need: Demand, item: ItemT, now: float, reach: frozenset[Shape]) -> None:
        """Append an item to its kind's queue."""
        self._count += 1
        queue = self.queues.get(need)
        if queue is not None:
            queue.append(Waiting(next(self._numbers), now, item))
            return
        self.queues[need] = deque([Waiting(next(self._numbers), now, item)])
        self._open(need, reach)

    def knows(self, need: Demand) -> bool:
        """Whether something of this kind waits."""
        return need in self.queues

    def take(self, need: Demand) -> ItemT:
        """Remove the first item of a kind whose head has been taken out of its line, and put the next one there."""
        queue = self.queues[need]
        item = queue.popleft().item
        self._count -= 1
        self._settle(need)
        return item

    def remove(self, need: Demand, item: ItemT) -> bool:
        """Take one item out wherever it stands; False if it is not there."""
        queue = self.queues.get(need, deque())
        for place, entry in enumerate(queue):
            if entry.item is item:
                del queue[place]
                self._count -= 1
                if place == 0:
                    self._home[need].drop(need)
                    self._settle(need)
                return True
        return False

    def regroup(self, reaches: dict[Demand, frozenset[Shape]]) -> None:
        """Form the lines anew, because there are workers of a new shape."""
        self.lines.clear()
        self._home.clear()
        for need in self.queues:
            self._open(need, reaches[need])

    def _open(self, need: Demand, reach: frozenset[Shape]) -> None:
        key = (sort_of(need), reach)
        line = self.lines.get(key)
        if line is None:
            line = self.lines[key] = Line(*key)
        line.kinds.add(need)
        self._home[need] = line
        line.push((self._order(need), need))

    def _settle(self, need: Demand) -> None:
        line = self._home[need]
        if self.queues[need]:
            line.push((self._order(need), need))
            return
        del self.queues[need], self._home[need]
        line.kinds.discard(need)
        if not line.kinds:
            del self.lines[line.sort, line.reach]

    def _order(self, need: Demand) -> Order:
        head = self.queues[need][0]
        return (int(head.since / TOGETHER_S), -need.walltime_s, head.number)

"""The backlog: what waits in the controller, what runs where, and who is next.

Pure bookkeeping. Dask's own resource counters hold the limits as well, across clients; this decides the order, late,
so that a calculation is bound to a worker only when there is room for it (or will be in a moment).

Nobody starves:

- the oldest that fits nowhere *holds* the worker that will have room for it soonest, and younger ones go round it,
  except those that will have ended by then;
- a sort of which nothing runs and nothing has been started for a while (:data:`PATIENCE_S`) goes first;
- what waits only because other controllers fill a worker is sent there all the same after :data:`CLAIM_S`: Dask keeps
  the order of what is sent to a worker, so it gets its turn.
"""

import heapq
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from pydantic import Field

from grafico.calculations import Model
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement.lines import Head, Line, Lines, Sort, sort_of
from grafico.cluster.placement.needs import Demand, taken
from grafico.cluster.placement.stations import Hold, Shape, Station, shape_of

__all__ = ["Backlog", "Pending", "Placed"]

ItemT = TypeVar("ItemT")

LOOKS = 32
"""Kinds behind the first of their line that are looked at in one pass."""

KINDS = 64
"""Kinds that pending work is told by; if there are more, sorts."""

SHORT_S = 2.0
"""Calculations shorter than this are sent a quarter of a worker ahead, to hide the way there and back."""

SMOOTHING = 0.2

ROUND_TRIP_S = 0.05
"""Ahead goes a quarter of a worker, or as much as it does in this time if that is more (Dask batches messages)."""

FAR_AHEAD = 8
"""Times a worker's capacity that is sent ahead at most."""

PATIENCE_S = 600.0
"""A sort that has waited so long with nothing of it running goes first."""

PATIENCE_TIMES = 10.0
"""Where calculations are short, patience ends after so many of them instead."""

CLAIM_S = 2.0

GAP = 1.5
"""A calculation is put into the room that an older one waits for if it should be over in that time divided by this."""

REMEMBERED = 4096
"""Kinds whose duration is remembered."""

STARVING, FED = 0, 1


class Placed(NamedTuple, Generic[ItemT]):
    """What goes where now."""

    item: ItemT
    worker: str
    part: dict[str, int]


class Pending(Model):
    """Calculations that wait, for whoever decides how many workers there should be."""

    need: Demand = Field(description="what each of them takes; the largest of them if there are very many kinds")
    count: int = Field(ge=1)
    oldest_s: float = Field(ge=0, description="how long the oldest has waited")


class Backlog(Generic[ItemT]):
    """What waits, what runs where, and who is next.

    Parameters
    ----------
    workers
        Workers that are known before they come; each counts from :meth:`up` on. Others may come at any time.
    clock
        Seconds, for how long something has waited.
    wall
        Seconds since 1970, for when allocations end.
    """

    def __init__(
        self,
        workers: Sequence[WorkerSpec] = (),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._clock = clock
        self._wall = wall
        self.stations = {worker.name: Station(worker) for worker in workers}
        self._shapes: dict[Shape, WorkerSpec] = {shape_of(worker): worker for worker in workers}
        self._alive: dict[str, Station] = {}
        self._lines: Lines[ItemT] = Lines()
        self._parts: dict[Demand, dict[Shape, dict[str, int]]] = {}
        self._holds: dict[Demand, Hold] = {}
        self._seconds: dict[Demand, float] = {}
        self._pace: float | None = None
        self._running: Counter[Sort] = Counter()
        self._served: dict[Sort, float] = {}
        self.claims: Literal["any", "last", "none"] = "any"
        """Whether to send anything to where others have all: also if they are not on every worker that would do?"""
        self.again_s: float | None = None
        """Seconds after which :meth:`place` may find more although nothing has happened; ``None``: not before it does."""

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, need: Demand, item: ItemT) -> None:
        """Queue an item."""
        self._lines.add(need, item, self._clock(), frozenset(self._parts_of(need)))

    def remove(self, need: Demand, item: ItemT) -> bool:
        """Take an item out that has not been placed; False if it is not there."""
        there = self._lines.remove(need, item)
        self._tidy(need)
        return there

    def pending(self) -> list[Pending]:
        """Return what waits, by kind; where there are very many kinds, by sort, with the largest demand of each."""
        now = self._clock()
        if len(self._lines.queues) <= KINDS:
            groups = [[need] for need in self._lines.queues]
        else:
            groups = [list(line.kinds) for line in self._lines]
        found = []
        for group in groups:
            queues = [self._lines.queues[need] for need in group]
            need = group[0] if len(group) == 1 else Demand(*(max(values) for values in zip(*group, strict=True)))
            oldest = min(queue[0].since for queue in queues)
            found.append(Pending(need=need, count=sum(len(queue) for queue in queues), oldest_s=max(0.0, now - oldest)))
        return found

    def crowded(self, absent: Sequence[WorkerSpec] = ()) -> int:
        """Return how many wait while a worker has room that none of them can use; 0 if there is no such worker.

        Parameters
        ----------
        absent
            Workers that would come if they were needed.
        """
        reached = {shape for line in self._lines for shape in line.reach}
        spare = any(s.taken(s.first) < s.capacity[s.first] and s.shape not in reached for s in self._alive.values())
        if not spare and len(self._lines):
            spare = any(all(taken(need, spec) is None for need in self._lines.queues) for spec in absent)
        return len(self._lines) if spare else 0

    # -- workers come and go -------------------------------------------------------------------------------------

    def up(self, spec: WorkerSpec, *, ends_at: float | None = None) -> None:
        """Count a worker in, empty.

        Parameters
        ----------
        spec
            What it gives; one of this name that was there before is replaced.
        ends_at
            When its allocation ends, seconds since 1970. It is not given what may take longer.
        """
        if spec.name in self._alive:
            self.down(spec.name)
        station = self.stations.setdefault(spec.name, Station(spec))
        station.come(spec, ends_at)
        self._alive[spec.name] = station
        if station.shape not in self._shapes:
            self._shapes[station.shape] = spec
            self._parts.clear()
            self._lines.regroup({need: frozenset(self._parts_of(need)) for need in self._lines.queues})

    def ends(self, worker: str, ends_at: float | None) -> None:
        """Take note that an allocation ends at another time than was said."""
        if worker in self._alive:
            self._alive[worker].ends_at = math.inf if ends_at is None else ends_at

    def down(self, worker: str) -> None:
        """Count a worker out; what ran there no longer takes anything."""
        station = self._alive.pop(worker, None)
        if station is not None:
            self._running.subtract(sort_of(stay.need) for stay in station.stays)
            station.alive, station.used, station.elsewhere, station.stays = False, {}, {}, []

    def elsewhere(self, worker: str, used: Mapping[str, int]) -> None:
        """Take note of what other controllers hold on a worker."""
        if worker in self._alive:
            self._alive[worker].elsewhere = dict(used)

    def occupy(self, worker: str, part: Mapping[str, int], need: Demand) -> None:
        """Count in what runs on a worker without having been placed by this backlog, from before a resume say."""
        if worker in self._alive:
            self._take(self._alive[worker], need, dict(part), self._clock())

    def done(self, worker: str, part: Mapping[str, int], need: Demand, seconds: float | None) -> None:
        """Give back what an item took, and remember how long its kind takes."""
        station = self._alive.get(worker)
        if station is not None and station.give(need, part):
            self._running[sort_of(need)] -= 1
        if seconds is not None:
            known = self._seconds.pop(need, seconds)
            self._seconds[need] = known + SMOOTHING * (seconds - known)
            if len(self._seconds) > REMEMBERED:
                del self._seconds[next(iter(self._seconds))]
            self._pace = seconds if self._pace is None else self._pace + SMOOTHING * (seconds - self._pace)

    # -- who is next ---------------------------------------------------------------------------------------------

    def place(self) -> list[Placed[ItemT]]:
        """Return what can start now, and take the room for it.

        Whole GPUs that are idle go to exclusive calculations first, which costs no draining, even before older small
        ones, unless those starve. Then all take their turns by age.
        """
        self.again_s = None
        if not self._lines.queues or not self._alive:
            return []
        now, wall = self._clock(), self._wall()
        found: list[Placed[ItemT]] = []
        if any(line.sort.whole for line in self._lines):
            self._place_whole(found, now, wall)
        self._place_all(found, now, wall)
        return found

    def _place_whole(self, found: list[Placed[ItemT]], now: float, wall: float) -> None:
        idle = [station for station in self._alive.values() if station.spec.is_gpu and station.idle()]
        if not idle:
            return
        small = (line for line in self._lines if line.sort.gpu and not line.sort.whole)
        kept = {shape for line in small if self._starves(line, now) for shape in line.reach}
        idle = [station for station in idle if station.shape not in kept]
        lines = [(head, line) for line in self._lines if line.sort.whole and (head := line.first())]
        for _, line in sorted(lines, key=lambda pair: pair[0]):
            aside: list[Head] = []
            while idle and (head := line.first()) is not None and len(aside) < LOOKS:
                line.pop()
                parts = self._parts_of(head[1])
                able = [s for s in idle if s.shape in parts and s.lasts(head[1], wall)]
                if not able:
                    aside.append(head)
                    continue
                station = min(able, key=lambda s: s.ends_at)
                idle.remove(station)
                self._give(found, station, head[1], now)
            line.put_back(aside)

    def _place_all(self, found: list[Placed[ItemT]], now: float, wall: float) -> None:
        ahead = FAR_AHEAD if any(seconds < SHORT_S for seconds in self._seconds.values()) else 0
        free = [station for station in self._alive.values() if station.is_open(ahead)]
        turns = [(self._rank(line, now), number, line) for number, line in enumerate(self._lines)] if free else []
        heapq.heapify(turns)
        aside: list[tuple[Line, Head]] = []
        blocked: set[int] = set()
        held: dict[str, float] = {}
        looks = LOOKS
        while turns and free:
            (starving, _), number, line = heapq.heappop(turns)
            head = line.first()
            able = [s for s in free if s.shape in line.reach and s.ends_at - wall >= line.shortest_s]
            if head is None or not able:
                continue
            need = line.pop()[1]
            station = self._choose(need, able, held, now, wall)
            if station is None and number not in blocked:
                blocked.add(number)
                station = self._hold(need, held, now, wall)
            elif station is None:
                looks -= 1
            if station is None:
                aside.append((line, head))
            else:
                self._give(found, station, need, now)
                if starving == STARVING:
                    self._fill(found, station, line, now, wall)
                if not station.is_open(ahead):
                    free.remove(station)
            if line.first() is not None and looks > 0:
                heapq.heappush(turns, (self._rank(line, now), number, line))
        for line, head in aside:
            line.put_back([head])

    def _rank(self, line: Line, now: float) -> tuple[int, tuple[float, ...]]:
        """Return a line's place among lines; those that starve come first."""
        head = line.first()
        if head is None:
            return (FED, ())
        return (STARVING, (self._fed(line),)) if self._starves(line, now) else (FED, head[0])

    def _starves(self, line: Line, now: float) -> bool:
        patience = PATIENCE_S if self._pace is None else min(PATIENCE_S, max(1.0, PATIENCE_TIMES * self._pace))
        return not self._running[line.sort] and now - self._fed(line) > patience

    def _fed(self, line: Line) -> float:
        """Return since when a line has had nothing."""
        head = line.first()
        since = self._lines.queues[head[1]][0].since if head else math.inf
        return max(since, self._served.get(line.sort, -math.inf))

    def _fill(self, found: list[Placed[ItemT]], station: Station, line: Line, now: float, wall: float) -> None:
        """Give what had starved the rest of a worker too, so that the turn that it got is not wasted on one of it."""
        while (head := line.first()) is not None:
            part = self._parts_of(head[1]).get(station.shape)
            if part is None or not station.fits(part) or not station.lasts(head[1], wall):
                return
            line.pop()
            self._give(found, station, head[1], now)

    def _choose(
        self, need: Demand, able: Sequence[Station], held: Mapping[str, float], now: float, wall: float
    ) -> Station | None:
        """Return the least loaded worker that has room, or will have in a moment."""
        parts, expected = self._parts_of(need), self.lasts(need)
        seconds = self._seconds.get(need, SHORT_S)
        more = 0.0 if need.whole or seconds >= SHORT_S else min(FAR_AHEAD, max(0.25, ROUND_TRIP_S / max(seconds, 1e-4)))
        best: tuple[float, float] | None = None
        chosen: Station | None = None
        ahead: Station | None = None
        for station in able:
            part = parts.get(station.shape)
            if part is None or not station.lasts(need, wall):
                continue
            room_at = held.get(station.spec.name)
            if room_at is not None and expected * GAP > room_at - now:
                continue
            if station.fits(part):
                # Of equal ones that which ends first, so that the others are there for what takes long.
                rank = (station.load(), station.ends_at)
                if best is None or rank < best:
                    best, chosen = rank, station
            elif more and room_at is None and station.fits(part, more):
                ahead = station if ahead is None or station.load() < ahead.load() else ahead
        return chosen or ahead

    def _hold(self, need: Demand, held: dict[str, float], now: float, wall: float) -> Station | None:
        """Keep a worker for a kind; returns it if the kind is to go there without waiting for room."""
        parts, hold = self._parts_of(need), self._holds.get(need)
        station = self._alive.get(hold.worker) if hold else None
        if hold is None or station is None or hold.worker in held or now >= hold.until or not station.lasts(need, wall):
            able = [
                s for s in self._alive.values() if s.shape in parts and s.spec.name not in held and s.lasts(need, wall)
            ]
            if not able:
                self._holds.pop(need, None)
                return None
            rooms = [(s.room_in(parts[s.shape], now, self.lasts), s.load(), n) for n, s in enumerate(able)]
            room, _, number = min(rooms)
            station = able[number]
            hold = self._holds[need] = Hold(station.spec.name, now, now + room, now + 2 * room + 10.0)
        held[hold.worker] = hold.room_at
        if not any(station.elsewhere.values()) or not station.fits_ours(parts[station.shape]):
            return None
        others = (any(s.elsewhere.values()) for s in self._alive.values() if s.shape in parts and s.lasts(need, wall))
        if self.claims == "none" or (self.claims == "last" and not all(others)):
            return None
        left = CLAIM_S - (now - hold.since)
        if left > 0.0:
            self.again_s = left if self.again_s is None else min(left, self.again_s)
        return station if left <= 0.0 else None

    def _give(self, found: list[Placed[ItemT]], station: Station, need: Demand, now: float) -> None:
        """Place the first item of a kind, whose head has been taken out of its line."""
        part = self._parts_of(need)[station.shape]
        self._take(station, need, part, now)
        self._served[sort_of(need)] = now
        self._holds.pop(need, None)
        found.append(Placed(self._lines.take(need), station.spec.name, dict(part)))
        self._tidy(need)

    def _take(self, station: Station, need: Demand, part: Mapping[str, int], now: float) -> None:
        station.take(need, part, now)
        self._running[sort_of(need)] += 1

    def lasts(self, need: Demand) -> float:
        """Return the seconds that an item of this kind is expected to take: as the others did, or its walltime."""
        return self._seconds.get(need, need.walltime_s)

    def _parts_of(self, need: Demand) -> dict[Shape, dict[str, int]]:
        parts = self._parts.get(need)
        if parts is None:
            known = ((shape, taken(need, spec)) for shape, spec in self._shapes.items())
            parts = self._parts[need] = {shape: part for shape, part in known if part is not None}
        return parts

    def _tidy(self, need: Demand) -> None:
        if not self._lines.knows(need):
            self._parts.pop(need, None)
            self._holds.pop(need, None)

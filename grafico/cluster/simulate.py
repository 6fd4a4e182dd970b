"""A schedule worked out beforehand: the real backlog, with workers that only pretend, and a clock that jumps.

What is known of calculations is what they need and about how long they take; who goes where and when is decided by the
same code as in a run. Waiting in a batch system's queue, starting workers, and failures are not in it.
"""

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import END_MARGIN_S, Backlog, Demand

__all__ = ["Busy", "Chains", "Schedule", "SimulatedLane", "Step", "simulate"]

NO_AHEAD_S = 60.0
"""Durations that the backlog is told: long enough that nothing is sent ahead to a worker that has no room."""


@dataclass(frozen=True, slots=True)
class Step:
    """One calculation of a chain."""

    need: Demand
    seconds: float
    identity: str = ""
    """Steps of one identity are the same calculation, which runs once; empty: it is like no other."""


@dataclass(frozen=True, slots=True)
class Chains:
    """Chains of steps beside each other: ``count`` times the same."""

    steps: tuple[Step, ...]
    count: int = 1


SimulatedLane = Sequence[Sequence[Chains]]
"""Phases, one after the other; the chains of a phase go side by side, and the next begins when all have ended."""


@dataclass(frozen=True, slots=True)
class Busy:
    """A worker, or some of it, at work."""

    start: float
    end: float
    places: int
    """Slots or CPUs."""


@dataclass
class Schedule:
    """What happens when, s from the start."""

    makespan_s: float = 0.0
    steps: int = 0
    """Calculations that ran."""
    shared: int = 0
    """Calculations that another one answered."""
    stuck: int = 0
    """Calculations that found no worker, ever."""
    busy: dict[str, list[Busy]] = field(default_factory=dict)
    """By worker."""
    lanes_s: list[float] = field(default_factory=list)
    """How long each lane took, from its own start."""

    def share(self, worker: WorkerSpec) -> float:
        """Return the part of a worker's places that is used, over the whole time."""
        if not self.makespan_s or not worker.places:
            return 0.0
        used = sum((span.end - span.start) * span.places for span in self.busy.get(worker.name, ()))
        return used / (self.makespan_s * worker.places)


class _Lane:
    """A lane on its way through its phases."""

    __slots__ = ("left", "phase", "phases", "started")

    def __init__(self, phases: SimulatedLane, started: float) -> None:
        self.phases = phases
        self.phase = -1
        self.left = 0
        self.started = started


@dataclass(eq=False, slots=True)
class _Item:
    lane: _Lane
    steps: tuple[Step, ...]
    index: int
    """Which of the steps."""
    number: int
    """Which of the chains."""

    @property
    def step(self) -> Step:
        return self.steps[self.index]


def simulate(
    lanes: Iterable[SimulatedLane],
    workers: Sequence[WorkerSpec],
    *,
    open_at_once: int,
    open_at_most: int | None = None,
) -> Schedule:
    """Work out a schedule.

    Parameters
    ----------
    lanes
        In the order in which they start.
    workers
        All there are; one whose host lives for a limited time is replaced by another when that is over, at once.
    open_at_once
        Lanes that are open at once.
    open_at_most
        Lanes that are open while a kind of worker has nothing to do; default no more.
    """
    return _Simulation(iter(lanes), workers, open_at_once, open_at_most or open_at_once).run()


class _Simulation:
    def __init__(
        self, lanes: Iterator[SimulatedLane], workers: Sequence[WorkerSpec], open_at_once: int, open_at_most: int
    ) -> None:
        self.lanes = lanes
        self.bound = open_at_once
        self.beyond = open_at_most - open_at_once
        self.now = 0.0
        self.schedule = Schedule(busy={worker.name: [] for worker in workers})
        self.backlog: Backlog[_Item] = Backlog(workers, clock=lambda: self.now, wall=lambda: self.now)
        self.ends: list[tuple[float, int, _Item, str, Mapping[str, int]]] = []
        self.numbers = itertools.count()
        self.free = open_at_once
        self.known: dict[tuple[str, int], list[_Item] | None] = {}
        """Who waits for a calculation of an identity; None when it is done."""
        self.ready: deque[_Item] = deque()
        """Those whose step is done."""
        self.specs = {worker.name: worker for worker in workers}
        self.until: dict[str, float] = {}
        for worker in workers:
            self.renew(worker)

    def renew(self, worker: WorkerSpec) -> None:
        """Let a worker begin, or another take its place."""
        self.until[worker.name] = self.now + worker.walltime_s if worker.walltime_s else math.inf
        ends = self.until[worker.name]
        self.backlog.up(worker, ends_at=None if math.isinf(ends) else ends)

    def run(self) -> Schedule:
        """Go from event to event."""
        self.open()
        while True:
            for placed in self.backlog.place():
                step = placed.item.step
                spec = self.specs[placed.worker]
                places = placed.part.get("slot", placed.part.get("cpu", 1))
                self.schedule.busy[placed.worker].append(Busy(self.now, self.now + step.seconds, places))
                entry = (self.now + step.seconds, next(self.numbers), placed.item, spec.name, placed.part)
                heapq.heappush(self.ends, entry)
            if self.open_more():
                continue
            if not self.ends:
                if not len(self.backlog):
                    break
                if not self.replace():
                    self.schedule.stuck = len(self.backlog)
                    break
                continue
            if self.replace():
                continue
            self.now = self.ends[0][0]
            while self.ends and self.ends[0][0] <= self.now:
                _, _, item, worker, part = heapq.heappop(self.ends)
                self.backlog.done(worker, part, item.step.need, max(item.step.seconds, NO_AHEAD_S))
                self.schedule.steps += 1
                self.answer(item)
            self.open()
        self.schedule.makespan_s = self.now
        return self.schedule

    def replace(self) -> bool:
        """Replace idle workers whose time is over, or too short for everything that waits."""
        waiting = [pending.need for pending in self.backlog.pending()]
        if not waiting:
            return False
        shortest = min(need.walltime_s for need in waiting)
        found = False
        for name, until in self.until.items():
            if (
                math.isinf(until)
                or until - self.now >= shortest + END_MARGIN_S
                or not self.backlog.stations[name].idle()
            ):
                continue
            if until - self.now < self.specs[name].walltime_s:  # a fresh one would be no longer
                self.renew(self.specs[name])
                found = True
        return found

    def open(self) -> None:
        """Open further lanes, as long as there is room for them."""
        while self.free > 0 and self.open_one():
            pass

    def open_more(self) -> bool:
        """Open one lane more where calculations wait and a kind of worker has nothing to do; say if there was one."""
        return self.free > -self.beyond and 2 * self.backlog.crowded() >= self.bound and self.open_one()

    def open_one(self) -> bool:
        """Open the next lane, if there is one."""
        phases = next(self.lanes, None)
        if phases is None:
            return False
        self.free -= 1
        self.advance(_Lane(phases, self.now))
        self.settle()
        return True

    def advance(self, lane: _Lane) -> None:
        """Begin a lane's next phase, or end it."""
        while True:
            lane.phase += 1
            if lane.phase == len(lane.phases):
                self.free += 1
                self.schedule.lanes_s.append(self.now - lane.started)
                return
            chains = [chain for chain in lane.phases[lane.phase] if chain.steps]
            lane.left = sum(chain.count for chain in chains)
            if not lane.left:
                continue
            # What is known already ends at once, and the last of it begins the next phase.
            for chain in chains:
                for number in range(chain.count):
                    self.ask(_Item(lane, chain.steps, 0, number))
            return

    def ask(self, item: _Item) -> None:
        """Ask for a step, or wait for the one of the same identity."""
        key = (item.step.identity, item.number)
        if item.step.identity:
            if key in self.known:
                self.schedule.shared += 1
                waiting = self.known[key]
                if waiting is None:
                    self.ready.append(item)
                else:
                    waiting.append(item)
                return
            self.known[key] = []
        self.backlog.add(item.step.need, item)

    def answer(self, item: _Item) -> None:
        """Let all go on that waited for a step."""
        key = (item.step.identity, item.number)
        others: list[_Item] | None = []
        if item.step.identity:
            others, self.known[key] = self.known[key], None
        self.ready += (item, *(others or ()))
        self.settle()

    def settle(self) -> None:
        """Let go on whatever can; one after the other, since a lane may know thousands of its steps already."""
        while self.ready:
            self.go_on(self.ready.popleft())

    def go_on(self, item: _Item) -> None:
        """Take the next step of a chain."""
        item.index += 1
        if item.index < len(item.steps):
            self.ask(item)
            return
        item.lane.left -= 1
        if not item.lane.left:
            self.advance(item.lane)

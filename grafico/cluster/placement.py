"""Which waiting calculation goes to which worker next: first come, first served by kind, and nobody starves.

Pure bookkeeping in the controller. Dask's own resource counters hold the limits as well, across clients; this decides
the order, late, so that a calculation is bound to a worker only when there is room for it (or will be in a moment).
"""

import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from pydantic import Field

from grafico.calculations import Model, Resources
from grafico.cluster.layout import WorkerSpec
from grafico.errors import ProfileError

__all__ = ["Backlog", "Demand", "WorkerView", "demand", "placed", "refusal", "threads_for"]

ItemT = TypeVar("ItemT")

LOOK_AHEAD = 64
"""Kinds of demand that are looked at in one pass."""

SHORT_S = 2.0
"""Calculations shorter than this are sent a quarter of a worker ahead, to hide the way there and back."""

SMOOTHING = 0.2

ROUND_TRIP_S = 0.05
"""Ahead goes a quarter of a worker, or as much as it does in this time if that is more (Dask batches messages)."""

PATIENCE_S = 600.0
"""A small calculation that has waited so long is not overtaken by exclusive ones any more."""

FAR_AHEAD = 8
"""Times a worker's capacity that is sent ahead at most."""


class Demand(NamedTuple):
    """What a calculation takes of one worker; calculations of equal demand are one kind."""

    gpu: bool
    whole: bool
    vram_mib: int
    cpus: int
    memory_mib: int


class WorkerView(Model):
    """How one worker stands, for people."""

    name: str
    pool: str
    gpu: str = Field(default="", description="the GPU's identity; empty for CPUs")
    alive: bool
    busy: int = Field(ge=0, description="slots or CPUs in use")
    total: int = Field(ge=0)
    labels: tuple[str, ...] = Field(default=(), description="what runs there")


def placed(resources: Resources, workers: Sequence[WorkerSpec]) -> Resources:
    """Return what a calculation needs among these workers: where there is no GPU at all, what it needs on CPUs."""
    return resources if any(worker.is_gpu for worker in workers) else resources.without_gpu()


def demand(resources: Resources, workers: Sequence[WorkerSpec]) -> Demand:
    """Return what resources mean among these workers.

    A calculation that wants a GPU gets CPUs instead in a cluster that has no GPU at all: the same job file runs on a
    laptop. What it computes is the same; its outcome says ``device: cpu``.
    """
    resources = placed(resources, workers)
    if resources.gpu != "none":
        return Demand(
            True, resources.gpu == "exclusive", resources.gpu_memory_mib, resources.cpus, resources.memory_mib
        )
    return Demand(False, False, 0, resources.cpus, resources.memory_mib)


def taken(need: Demand, worker: WorkerSpec) -> dict[str, int] | None:
    """Return the part of a worker's capacity that a demand takes, ``None`` if it is of the other kind or too large.

    Without a stated GPU memory, a calculation counts as its slot's share of the card.
    """
    if need.gpu != worker.is_gpu:
        return None
    if need.gpu:
        vram = worker.vram_mib if need.whole else need.vram_mib or worker.vram_mib // worker.slots
        if need.vram_mib > worker.vram_mib:
            return None
        part = {"slot": worker.slots if need.whole else 1, "vram_mib": vram, "memory_mib": need.memory_mib}
    else:
        part = {"cpu": need.cpus, "memory_mib": need.memory_mib}
    capacity = worker.capacity
    return part if all(part[name] <= capacity[name] for name in part) else None


def threads_for(cpus: int, worker: WorkerSpec) -> int:
    """Return the CPU threads of a calculation on a worker; a slot's are constant unless it asks for more."""
    return max(cpus, worker.threads) if worker.is_gpu else cpus


def refusal(resources: Resources, workers: Sequence[WorkerSpec], profile: str) -> ProfileError | None:
    """Return why no worker can ever run this, with the nearest that there is; ``None`` if one can."""
    need = demand(resources, workers)
    if any(taken(need, worker) is not None for worker in workers):
        return None
    fitting = [worker for worker in workers if worker.is_gpu == need.gpu]
    asked = _words(
        {"vram_mib": need.vram_mib, "memory_mib": need.memory_mib}
        if need.gpu
        else {"cpu": need.cpus, "memory_mib": need.memory_mib}
    )
    if not fitting:
        kind = "GPU" if need.gpu else "CPU"
        return ProfileError(
            f"a calculation needs {asked}, and the profile {profile!r} has no {kind} workers",
            hint="add a pool without gpus to the profile",
        )
    nearest = max(fitting, key=lambda worker: (_satisfied(need, worker), worker.memory_mib))
    what = "a GPU worker" if need.gpu else "the CPU worker"
    return ProfileError(
        f"a calculation needs {asked}; no worker of the profile {profile!r} can ever give that: the nearest,"
        f" {what} {nearest.name!r}, has {_words({k: v for k, v in nearest.capacity.items() if k != 'slot'})}",
        hint="lower what the job asks for, or choose a larger profile",
    )


def _satisfied(need: Demand, worker: WorkerSpec) -> int:
    capacity = worker.capacity
    return sum(
        (
            need.memory_mib <= capacity["memory_mib"],
            need.vram_mib <= capacity.get("vram_mib", 0),
            need.gpu or need.cpus <= capacity["cpu"],
        )
    )


def _words(amounts: Mapping[str, int]) -> str:
    units = {"cpu": "CPUs", "memory_mib": "MiB of memory", "vram_mib": "MiB of GPU memory"}
    return ", ".join(f"{amount} {units[name]}" for name, amount in amounts.items() if amount or name == "memory_mib")


@dataclass
class Station:
    """A worker as the backlog sees it."""

    spec: WorkerSpec
    alive: bool = False
    used: dict[str, int] = field(default_factory=dict)

    def fits(self, part: Mapping[str, int]) -> bool:
        capacity = self.spec.capacity
        return all(self.used.get(name, 0) + amount <= capacity[name] for name, amount in part.items())

    def load(self) -> float:
        first = "slot" if self.spec.is_gpu else "cpu"
        return self.used.get(first, 0) / max(1, self.spec.capacity[first])


class Placed(NamedTuple, Generic[ItemT]):
    """What goes where now."""

    item: ItemT
    worker: str
    part: dict[str, int]


class Backlog(Generic[ItemT]):
    """What waits, what runs where, and who is next.

    Parameters
    ----------
    workers
        All workers of the profile; each counts from :meth:`up` on.
    clock
        Seconds, for how long something has waited.
    """

    def __init__(self, workers: Sequence[WorkerSpec], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.stations = {worker.name: Station(worker) for worker in workers}
        self._queues: dict[Demand, deque[tuple[int, float, ItemT]]] = {}
        self._numbers = itertools.count()
        self._seconds: dict[Demand, float] = {}

    def __len__(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    def add(self, need: Demand, item: ItemT) -> None:
        """Queue an item."""
        self._queues.setdefault(need, deque()).append((next(self._numbers), self._clock(), item))

    def remove(self, need: Demand, item: ItemT) -> bool:
        """Take an item out that has not been placed; False if it is not there."""
        queue = self._queues.get(need, deque())
        for entry in queue:
            if entry[2] is item:
                queue.remove(entry)
                return True
        return False

    def up(self, worker: str) -> None:
        """Count a worker in."""
        station = self.stations[worker]
        station.alive, station.used = True, {}

    def down(self, worker: str) -> None:
        """Count a worker out; what ran there no longer takes anything."""
        station = self.stations[worker]
        station.alive, station.used = False, {}

    def done(self, worker: str, part: Mapping[str, int], need: Demand, seconds: float | None) -> None:
        """Give back what an item took, and remember how long its kind takes."""
        station = self.stations[worker]
        for name, amount in part.items():
            station.used[name] = max(0, station.used.get(name, 0) - amount)
        if seconds is not None:
            known = self._seconds.get(need, seconds)
            self._seconds[need] = known + SMOOTHING * (seconds - known)

    def place(self) -> Iterator[Placed[ItemT]]:
        """Yield what can start now, oldest first among kinds; takes the room as it goes.

        The oldest item of a kind that fits nowhere holds the worker that it will get soonest: younger ones go round
        it. So an exclusive calculation drains one GPU, while small ones keep the others busy; and a GPU that has been
        drained serves other exclusive ones that wait before it is filled with small ones again.
        """
        yield from self._place_whole()
        heads = [(queue[0][0], need) for need, queue in self._queues.items() if queue]
        heapq.heapify(heads)
        held: set[str] = set()
        blocked = 0
        while heads and blocked < LOOK_AHEAD:
            _, need = heapq.heappop(heads)
            station, part = self._choose(need, held)
            if station is None:
                blocked += 1
                self._hold(need, held)
                continue
            for name, amount in part.items():
                station.used[name] = station.used.get(name, 0) + amount
            queue = self._queues[need]
            _, _, item = queue.popleft()
            if queue:
                heapq.heappush(heads, (queue[0][0], need))
            yield Placed(item, station.spec.name, part)
        for need in [need for need, queue in self._queues.items() if not queue]:
            del self._queues[need]

    def _place_whole(self) -> Iterator[Placed[ItemT]]:
        """Yield exclusive items for GPUs that are idle now, which costs no draining, before older small ones.

        Only while none of those has waited long: a stream of exclusive items must not starve them.
        """
        small = [queue[0] for need, queue in self._queues.items() if need.gpu and not need.whole and queue]
        oldest = min(small, default=None, key=lambda entry: entry[0])
        for need in [need for need in self._queues if need.whole]:
            queue = self._queues[need]
            for station in self.stations.values():
                part = taken(need, station.spec)
                if not queue or part is None or not station.alive or any(station.used.values()):
                    continue
                if oldest is not None and oldest[0] < queue[0][0] and self._clock() - oldest[1] > PATIENCE_S:
                    break
                station.used = dict(part)
                yield Placed(queue.popleft()[2], station.spec.name, part)

    def _choose(self, need: Demand, held: set[str]) -> tuple[Station | None, dict[str, int]]:
        best: Station | None = None
        best_part: dict[str, int] = {}
        ahead: Station | None = None
        ahead_part: dict[str, int] = {}
        seconds = self._seconds.get(need, SHORT_S)
        more = 0.0 if need.whole or seconds >= SHORT_S else min(FAR_AHEAD, max(0.25, ROUND_TRIP_S / max(seconds, 1e-4)))
        for station in self.stations.values():
            if not station.alive or station.spec.name in held:
                continue
            part = taken(need, station.spec)
            if part is None:
                continue
            if station.fits(part):
                if best is None or station.load() < best.load():
                    best, best_part = station, part
            elif more and self._fits_ahead(station, part, more) and (ahead is None or station.load() < ahead.load()):
                ahead, ahead_part = station, part
        return (best, best_part) if best is not None else (ahead, ahead_part)

    @staticmethod
    def _fits_ahead(station: Station, part: Mapping[str, int], more: float) -> bool:
        for name, amount in part.items():
            capacity = station.spec.capacity[name]
            if station.used.get(name, 0) + amount > capacity + max(amount, int(capacity * more)):
                return False
        return True

    def _hold(self, need: Demand, held: set[str]) -> None:
        able = [s for s in self.stations.values() if s.alive and s.spec.name not in held and taken(need, s.spec)]
        if able:
            held.add(min(able, key=Station.load).spec.name)

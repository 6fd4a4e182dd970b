"""A worker as the backlog sees it: what is taken of it, by us and by others, until when, and how long it will be there."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement.needs import END_MARGIN_S, Demand

__all__ = ["Hold", "Shape", "Station", "shape_of"]

Shape: TypeAlias = tuple[bool, int, int, int, int, float]
"""Workers of one shape can do the same."""


def shape_of(spec: WorkerSpec) -> Shape:
    """Return all of a worker that decides what it can take."""
    return (spec.is_gpu, spec.slots, spec.vram_mib, spec.cpus, spec.memory_mib, spec.walltime_s)


class Stay(NamedTuple):
    """One calculation on a worker."""

    need: Demand
    since: float
    part: Mapping[str, int]


class Hold(NamedTuple):
    """A worker that is kept for a kind until there is room."""

    worker: str
    since: float
    room_at: float
    until: float
    """Then it is chosen anew: what was expected did not come."""


@dataclass
class Station:
    """A worker as the backlog sees it."""

    spec: WorkerSpec
    alive: bool = False
    used: dict[str, int] = field(default_factory=dict)
    """What our own calculations take."""
    elsewhere: dict[str, int] = field(default_factory=dict)
    """What other controllers' take."""
    ends_at: float = math.inf
    """When its allocation ends, seconds since 1970."""
    stays: list[Stay] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shape = shape_of(self.spec)
        self.capacity = self.spec.capacity
        self.first = "slot" if self.spec.is_gpu else "cpu"
        self._size = max(1, self.capacity[self.first])

    def come(self, spec: WorkerSpec, ends_at: float | None) -> None:
        """Start afresh: the worker of this name has come, or another one of the same name."""
        self.spec, self.alive, self.used, self.elsewhere = spec, True, {}, {}
        self.ends_at = math.inf if ends_at is None else ends_at
        self.stays = []
        self.__post_init__()

    def take(self, need: Demand, part: Mapping[str, int], now: float) -> None:
        """Count a calculation in."""
        for name, amount in part.items():
            self.used[name] = self.used.get(name, 0) + amount
        self.stays.append(Stay(need, now, part))

    def give(self, need: Demand, part: Mapping[str, int]) -> bool:
        """Count a calculation out; False if none like it was there."""
        for number, stay in enumerate(self.stays):
            if stay.need == need and stay.part == part:
                del self.stays[number]
                for name, amount in part.items():
                    self.used[name] = max(0, self.used.get(name, 0) - amount)
                return True
        return False

    def taken(self, name: str) -> int:
        """How much of one thing is taken, by anybody."""
        return self.used.get(name, 0) + self.elsewhere.get(name, 0)

    def idle(self) -> bool:
        """Whether nobody has anything here."""
        return not any(self.used.values()) and not any(self.elsewhere.values())

    def is_open(self, ahead: float) -> bool:
        """Whether anything at all could be sent here now, or be claimed from other controllers."""
        size = self.capacity[self.first]
        return self.taken(self.first) < size * (1 + ahead) or (
            self.used.get(self.first, 0) < size and any(self.elsewhere.values())
        )

    def fits(self, part: Mapping[str, int], more: float = 0.0) -> bool:
        """Whether there is room, or will be in a moment for what is sent ahead (``more`` workers' worth of it)."""
        for name, amount in part.items():
            extra = max(amount, int(self.capacity[name] * more)) if more else 0
            if self.taken(name) + amount > self.capacity[name] + extra:
                return False
        return True

    def fits_ours(self, part: Mapping[str, int]) -> bool:
        """Whether there would be room without the other controllers."""
        return all(self.used.get(name, 0) + amount <= self.capacity[name] for name, amount in part.items())

    def load(self) -> float:
        """Return the part that is taken."""
        return self.taken(self.first) / self._size

    def lasts(self, need: Demand, wall: float) -> bool:
        """Whether it will be there for as long as that may take."""
        return need.walltime_s + END_MARGIN_S <= self.ends_at - wall

    def room_in(self, part: Mapping[str, int], now: float, seconds: Callable[[Demand], float]) -> float:
        """Return the seconds after which there will be room, by how long what runs here has taken and is used to take.

        What has taken longer than usual is expected to take half as long again as it has. Of what others run here
        nothing is known; without theirs it would be infinite, so they count as the longest of ours or an hour.
        """
        short = {name: self.taken(name) + amount - self.capacity[name] for name, amount in part.items()}
        if all(amount <= 0 for amount in short.values()):
            return 0.0
        left = 0.0
        for left, stay in sorted(((_left(stay, now, seconds), stay) for stay in self.stays), key=lambda pair: pair[0]):
            for name in short:
                short[name] -= stay.part.get(name, 0)
            if all(amount <= 0 for amount in short.values()):
                return left
        return max(left, 3600.0) * (1.0 + self.load())


def _left(stay: Stay, now: float, seconds: Callable[[Demand], float]) -> float:
    been = now - stay.since
    return max(seconds(stay.need) - been, 0.5 * been)

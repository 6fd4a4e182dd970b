"""How many hosts each pool should have: from what waits and what is there to what is submitted and given back.

Pure: no clock, no Slurm. A host counts as one unit of supply; what waits takes the part of a host that it needs, hosts
with the least sufficient time left first, so that what is long finds hosts that live long.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement.backlog import Pending
from grafico.cluster.placement.needs import END_MARGIN_S, Demand, taken
from grafico.cluster.slurm.settings import Scale

__all__ = ["Decision", "PoolState", "Standing", "decide", "fitting"]

PATIENCE_S = 2.0
"""What waits shorter than this, where hosts of the pool work already, will most likely be served by them."""


@dataclass(frozen=True)
class Standing:
    """A host that was asked for and has not ended."""

    label: str
    up: bool = False
    """Whether its workers have reported; else it waits in the queue, or starts."""
    busy: bool = False
    idle_s: float = 0.0
    left_s: float = float("inf")
    """Seconds that it will live."""
    ending: bool = False
    """Whether it has been given back, and is not gone yet."""


@dataclass(frozen=True)
class PoolState:
    """A pool as it stands."""

    name: str
    scale: Scale
    workers: Sequence[WorkerSpec]
    """Of one host."""
    hosts: Sequence[Standing] = ()
    pending: Sequence[Pending] = ()
    """What waits that a host of this pool could run."""
    quiet_s: float = 0.0
    """Seconds since anything waited."""
    idle_limit_s: float = 120.0
    """An idle host above the least number is given back after so long."""
    seen_life_s: float = float("inf")
    """How long the hosts that came were there at most, where the profile does not say, or says more."""
    may_submit: bool = True
    """False while submissions are held back: they failed a moment ago."""

    @property
    def life_s(self) -> float:
        """How long a new host will live."""
        said = min((worker.walltime_s for worker in self.workers if worker.walltime_s), default=float("inf"))
        return min(said, self.seen_life_s)


class Decision(NamedTuple):
    """What to do with a pool."""

    wanted: int
    """Hosts that should be there."""
    submit: int
    """Hosts to ask for now."""
    retire: tuple[str, ...]
    """Hosts to give back: idle for long, useless for what waits, or no longer needed before they have started."""


@dataclass
class _Unit:
    """One host's worth of supply."""

    left_s: float
    room: float = 1.0
    label: str = ""
    used: bool = False


@dataclass
class _Ledger:
    """The supply of one pool while demand is laid out over it."""

    state: PoolState
    units: list[_Unit] = field(default_factory=list)
    more: int = 0
    """Hosts that can still be added."""
    added: int = 0

    def lay(self, need: Demand, count: int) -> int:
        """Serve some of what waits; return how many are left."""
        each = fitting(need, self.state.workers)
        if each == 0:
            return count
        needed_s = need.walltime_s + END_MARGIN_S
        able = sorted((u for u in self.units if u.left_s >= needed_s and u.room > 1e-9), key=lambda u: u.left_s)
        for unit in able:
            if count == 0:
                return 0
            count = self._fill(unit, count, each)
        while count and self.more > 0 and self.state.life_s >= needed_s:
            self.add(1)
            count = self._fill(self.units[-1], count, each)
        return count

    def add(self, hosts: int) -> None:
        """Add hosts that are not there yet."""
        for _ in range(hosts):
            self.more -= 1
            self.added += 1
            self.units.append(_Unit(self.state.life_s))

    @staticmethod
    def _fill(unit: _Unit, count: int, each: int) -> int:
        # Rounded down, a host that is filled with several kinds would seem full too early: 3 thirds are one.
        served = min(count, int(unit.room * each + 1e-9))
        if served:
            unit.room = max(0.0, unit.room - served / each)
            unit.used = True
        return count - served


def fitting(need: Demand, workers: Sequence[WorkerSpec]) -> int:
    """Return how many calculations of one kind the workers of one host run at once."""
    total = 0
    for worker in workers:
        part = taken(need, worker)
        if part is not None:
            total += min((worker.capacity[name] // amount for name, amount in part.items() if amount), default=0)
    return total


def decide(pools: Sequence[PoolState]) -> Mapping[str, Decision]:
    """Return what to do with each pool.

    What several pools could run is laid out over the pools in their order: what exists in any of them serves first;
    only what is left asks for new hosts. Never more hosts than a pool's largest number, those that are about to
    be given back included; never fewer asked for than its least.
    """
    ledgers = [_ledger(pool) for pool in pools]
    rest = []
    for need, count, able, patient in _demands(pools):
        left = count
        for ledger in ledgers:
            if ledger.state.name in able:
                left = ledger.lay(need, left)
        there = any(pool.hosts for pool in pools if pool.name in able)
        rest.append((need, left, able, patient or not there))
    growing = [ledger for ledger in ledgers if ledger.state.may_submit]
    for ledger in growing:
        pool = ledger.state
        ledger.more = max(0, pool.scale.max - len(pool.hosts))
        ledger.add(min(pool.scale.min - sum(not host.ending for host in pool.hosts), ledger.more))
    for need, count, able, at_once in rest:
        left = count
        for ledger in growing:
            if ledger.state.name in able and at_once:
                left = ledger.lay(need, left)
    return {ledger.state.name: _decision(ledger) for ledger in ledgers}


def _ledger(pool: PoolState) -> _Ledger:
    units = [
        _Unit(min(host.left_s, pool.life_s) if not host.up else host.left_s, label=host.label)
        for host in pool.hosts
        if not host.ending and not (host.up and host.busy)
    ]
    return _Ledger(pool, units)


def _demands(pools: Sequence[PoolState]) -> list[tuple[Demand, int, set[str], bool]]:
    """Return what waits, each kind once, longest first: need, count, who could run it, whether it has waited enough."""
    kinds: dict[Demand, tuple[int, set[str], bool]] = {}
    for pool in pools:
        here: dict[Demand, tuple[int, bool]] = {}
        for item in pool.pending:  # of several controllers
            count, patient = here.get(item.need, (0, False))
            here[item.need] = (count + item.count, patient or item.oldest_s >= PATIENCE_S)
        for need, (count, patient) in here.items():
            known, able, before = kinds.get(need, (0, set(), False))
            kinds[need] = (max(known, count), able | {pool.name}, before or patient)
    ordered = sorted(kinds.items(), key=lambda kind: -kind[0].walltime_s)
    return [(need, count, able, patient) for need, (count, able, patient) in ordered]


def _decision(ledger: _Ledger) -> Decision:
    pool = ledger.state
    used = {unit.label for unit in ledger.units if unit.used}
    staying = [host for host in pool.hosts if not host.ending]
    spare = len(staying) + ledger.added - pool.scale.min
    # The longest idle go first; among those that have not started, the youngest.
    idle = sorted((h for h in staying if h.up and not h.busy and h.label not in used), key=lambda h: -h.idle_s)
    waiting = [host for host in reversed(staying) if not host.up and host.label not in used]
    # What no host of the pool lasts for makes none of them useless.
    lasting = [s for item in pool.pending if (s := item.need.walltime_s + END_MARGIN_S) <= pool.life_s]
    shortest = min(lasting, default=0.0)
    retire = []
    for host in idle:
        useless = host.left_s < shortest
        if useless or (spare > 0 and host.idle_s >= pool.idle_limit_s):
            retire.append(host.label)
            spare -= 1
    for host in waiting:
        if spare > 0 and not pool.pending and pool.quiet_s >= pool.idle_limit_s:
            retire.append(host.label)
            spare -= 1
    wanted = max(pool.scale.min, len(staying) + ledger.added - len(retire))
    return Decision(wanted, ledger.added, tuple(retire))

"""A cluster in virtual time, for tests of the backlog: calculations take exactly as long as they are said to."""

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from grafico.calculations import Resources
from grafico.cluster import Pool, Profile, WorkerSpec, lay_out
from grafico.cluster.placement import Backlog, Demand, Placed, demand
from grafico.cluster.placement.backlog import SHORT_S


def node(gpus: int = 4, cpus: int = 8, vram: int = 900) -> tuple[WorkerSpec, ...]:
    pools = (
        [Pool(name="gpu", gpus=gpus, simulated=True, gpu_memory_mib=vram, memory_mib=40_000, cpus=12)] if gpus else []
    )
    pools += [Pool(name="cpu", cpus=cpus, memory_mib=16_000)] if cpus else []
    return lay_out(Profile(name="node", pools=tuple(pools)))


@dataclass(eq=False)
class Job:
    """One calculation."""

    kind: str
    need: Demand
    seconds: float
    asked: float = 0.0
    started: float = -1.0
    ended: float = -1.0
    worker: str = ""
    lost: int = 0


@dataclass
class Simulation:
    """Runs a backlog until nothing is left to do."""

    specs: Sequence[WorkerSpec]
    now: float = 0.0
    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.backlog: Backlog[Job] = Backlog(clock=lambda: self.now, wall=lambda: self.now)
        self.by_name = {}
        self.ends_at: dict[str, float] = {}
        self.running: dict[Job, Placed[Job]] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.others: dict[str, dict[str, int]] = {}
        self.queues: dict[str, list[Job]] = {}
        for spec in self.specs:
            self.up(spec)

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), what))

    def up(self, spec: WorkerSpec, ends_at: float | None = None) -> None:
        self.by_name[spec.name] = spec
        self.ends_at[spec.name] = float("inf") if ends_at is None else ends_at
        self.backlog.up(spec, ends_at=ends_at)
        if ends_at is not None:
            self.at(ends_at, lambda: self.down(spec.name))

    def down(self, name: str) -> None:
        self.backlog.down(name)
        self.queues.pop(name, None)
        for job in [job for job in self.running if job.worker == name]:
            del self.running[job]
            job.lost += 1
            self.backlog.add(job.need, job)

    def ask(self, kind: str, count: int, seconds: float, **resources: object) -> list[Job]:
        given = {"memory_mib": 100, "walltime_s": max(60.0, 2 * seconds), **resources}
        need = demand(Resources(**given), tuple(self.by_name.values()) or self.specs)
        made = [Job(kind, need, seconds, self.now) for _ in range(count)]
        for job in made:
            self.backlog.add(need, job)
        self.jobs += made
        return made

    def run(self, until: float = float("inf")) -> None:
        while True:
            for found in self.backlog.place():
                self._start(found)
            if not self._events or self._events[0][0] > until:
                return
            self.now, _, what = heapq.heappop(self._events)
            what()

    def _start(self, found: Placed[Job]) -> None:
        job = found.item
        job.worker = found.worker
        self.running[job] = found
        assert self.now + job.need.walltime_s <= self.ends_at[found.worker], "it may not be over by then"
        self.queues.setdefault(found.worker, []).append(job)
        self.serve(found.worker)
        if job in self.queues[found.worker]:
            # What goes ahead of the room for it is of a kind that has been short so far, whatever it turns out to be.
            short = self.backlog.lasts(job.need) < SHORT_S
            assert short or self.others.get(found.worker), f"{found.worker} is overfilled"

    def serve(self, worker: str) -> None:
        """Begin what a worker has room for, in the order in which it was sent."""
        queue = self.queues.setdefault(worker, [])
        while queue and self.room(worker, self.running[queue[0]].part):
            job = queue.pop(0)
            if job.started < 0:
                job.started = self.now
            self.at(self.now + job.seconds, lambda job=job, lost=job.lost: self._end(job, worker, lost))

    def room(self, worker: str, part: Mapping[str, int]) -> bool:
        """Whether it can take this now."""
        queue, others = self.queues[worker], self.others.get(worker, {})
        here = [found.part for job, found in self.running.items() if job.worker == worker and job not in queue]
        capacity = self.by_name[worker].capacity
        return all(sum(p[n] for p in here) + part[n] + others.get(n, 0) <= amount for n, amount in capacity.items())

    def _end(self, job: Job, worker: str, lost: int) -> None:
        if job not in self.running or job.worker != worker or job.lost != lost:
            return
        found = self.running.pop(job)
        job.ended = self.now
        self.backlog.done(found.worker, found.part, job.need, job.seconds)
        self.serve(worker)

    def of(self, kind: str) -> list[Job]:
        return [job for job in self.jobs if job.kind == kind]

    def gaps(self, kind: str) -> float:
        """Return the longest time for which something of a kind waited and none of it ran or was started."""
        jobs = self.of(kind)
        asked = min(job.asked for job in jobs)
        last_start = max(job.started for job in jobs)
        longest, free_since = 0.0, asked
        for job in sorted(jobs, key=lambda job: job.started):
            if job.started > free_since:
                longest = max(longest, job.started - max(free_since, job.asked))
            free_since = max(free_since, job.ended)
            if free_since >= last_start:
                break
        return longest

"""What a job, or every member of a sweep, is expected to compute; and what of it can never run."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from grafico.calculations import Resources
from grafico.cluster import Profile
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.placement import demand, placed, refusal
from grafico.cluster.simulate import Chains, Step
from grafico.errors import ProfileError
from grafico.graphs import Foreseen, Limits
from grafico.jobs.catalog import blame
from grafico.jobs.load import LoadedJob
from grafico.jobs.provenance import store_of

__all__ = ["Forecast", "ForecastLane", "by_kind", "forecast_of", "gpus_of", "refused", "workers_of"]

SHOWN_MEMBERS = 8


@dataclass(frozen=True)
class ForecastLane:
    """The calculations of a job, or of one member."""

    key: str
    """Of the member; empty for a job that is no sweep."""
    foreseen: tuple[Foreseen, ...]

    @property
    def count(self) -> int:
        """Calculations."""
        return sum(item.count for item in self.foreseen)

    @property
    def longest_s(self) -> float:
        """Seconds from its beginning to its end at most, where it never waits for a worker."""
        return sum(
            max((sum(step.resources.walltime_s for step in chain) for chain in phase), default=0.0)
            for phase in phases_of(self.foreseen)
        )


@dataclass(frozen=True)
class Forecast:
    """The calculations of all lanes."""

    lanes: tuple[ForecastLane, ...]
    limit: int
    """Lanes that are open at once."""

    @property
    def count(self) -> int:
        """Calculations, those that several members share counted for each."""
        return sum(lane.count for lane in self.lanes)

    @property
    def distinct(self) -> int:
        """Calculations that run, as far as it can be told that some are the same."""
        known: dict[str, int] = {}
        others = 0
        for item in self:
            if item.identity:
                known[item.identity] = max(known.get(item.identity, 0), item.count)
            else:
                others += item.count
        return others + sum(known.values())

    def __iter__(self) -> Iterator[Foreseen]:
        for lane in self.lanes:
            yield from lane.foreseen

    def simulated(
        self, workers: Sequence[WorkerSpec], seconds: Callable[[Foreseen, Resources], float]
    ) -> Iterator[list[list[Chains]]]:
        """Yield each lane as a simulation takes it.

        Parameters
        ----------
        seconds
            How long a calculation takes, with the resources that it gets.
        """

        def step(item: Foreseen) -> Step:
            resources = placed(item.resources, workers)
            return Step(demand(resources, workers), seconds(item, resources), item.identity)

        for lane in self.lanes:
            yield [
                [Chains(tuple(step(item) for item in chain), chain[0].count) for chain in phase]
                for phase in phases_of(lane.foreseen)
            ]


def phases_of(foreseen: Sequence[Foreseen]) -> list[list[list[Foreseen]]]:
    """Return the phases of a lane, each with its chains, which go side by side."""
    phases: list[dict[str, list[Foreseen]]] = []
    for item in foreseen:
        current = phases[-1] if phases else None
        if not item.lane:
            phases.append({"": [item]})
        elif current is None or "" in current or item.waits:
            phases.append({item.lane: [item]})
        elif item.lane in current and current[item.lane][0].count == item.count:
            current[item.lane].append(item)
        elif item.lane in current:
            phases.append({item.lane: [item]})
        else:
            current[item.lane] = [item]
    return [list(phase.values()) for phase in phases]


def forecast_of(loaded: LoadedJob) -> Forecast:
    """Return what a job, or each member of a sweep, will compute."""
    graph, sweep = loaded.graph, loaded.sweep
    if graph.foresee is None:
        return Forecast((), 1)
    if sweep is not None:
        return Forecast(tuple(ForecastLane(lane.key, lane.foreseen) for lane in sweep.lanes), Limits().lanes)
    with store_of(loaded.job), blame(loaded.job.graph, "the forecast"):
        return Forecast((ForecastLane("", tuple(graph.foresee(loaded.request))),), 1)


def workers_of(profile: Profile) -> tuple[WorkerSpec, ...]:
    """Return the workers that a job may get: of a cluster that is up, those it was made for.

    Raises
    ------
    ProfileError
        This machine lacks what the profile asks for, or the cluster is not up.
    """
    if profile.kind == "connect":
        from grafico.cluster.connection import find_connection

        return find_connection(profile.connect or "").expected
    return lay_out(profile)


def gpus_of(profile: Profile) -> int:
    """Return how many GPUs a profile has at most; none where that cannot be told."""
    try:
        return sum(worker.is_gpu for worker in workers_of(profile))
    except ProfileError:
        return 0


def refused(forecast: Forecast, workers: Sequence[WorkerSpec], profile: str) -> ProfileError | None:
    """Return why some of it can never run: everything that cannot, with the nearest that there is; None if all can."""
    problems: dict[str, _Refusal] = {}
    fine: set[Resources] = set()
    for lane in forecast.lanes:
        for item in lane.foreseen:
            if item.resources in fine:
                continue
            error = refusal(item.resources, workers, profile)
            if error is None:
                fine.add(item.resources)
                continue
            text = f"{item.label or item.calculation.name}: {error.message}"
            # Those of many members differ in the numbers alone: the largest speaks for all.
            problems.setdefault(re.sub(r"\d+", "#", text), _Refusal()).add(text, lane.key, item.resources, error.hint)
    if not problems:
        return None
    hint = "; ".join(dict.fromkeys(found.hint for found in problems.values() if found.hint)) or None
    if len(problems) == 1:
        return ProfileError(next(iter(problems.values())).line(), hint=hint)
    listed = "\n".join(f"  {found.line()}" for found in problems.values())
    return ProfileError(f"{len(problems)} kinds of calculations can never run:\n{listed}", hint=hint)


@dataclass
class _Refusal:
    """Calculations that are refused for one reason."""

    text: str = ""
    hint: str | None = None
    most: tuple[float, ...] = ()
    texts: set[str] = field(default_factory=set)
    members: dict[str, None] = field(default_factory=dict)

    def add(self, text: str, member: str, resources: Resources, hint: str | None) -> None:
        size = (resources.memory_mib, resources.gpu_memory_mib, resources.cpus, resources.walltime_s)
        if size > self.most:
            self.text, self.most, self.hint = text, size, hint
        self.texts.add(text)
        if member:
            self.members[member] = None

    def line(self) -> str:
        others = len(self.texts) - 1
        less = f"; {others} more need less, and too much" if others else ""
        keys = list(self.members)
        more = f" and {len(keys) - SHOWN_MEMBERS} more" if len(keys) > SHOWN_MEMBERS else ""
        return f"{self.text}{less}" + (f" (members {', '.join(keys[:SHOWN_MEMBERS])}{more})" if keys else "")


def by_kind(forecast: Forecast) -> Mapping[tuple[str, str, Resources], list[Foreseen]]:
    """Return the foreseen calculations by kind: by label for a job, by calculation and needs for a sweep."""
    found: dict[tuple[str, str, Resources], list[Foreseen]] = {}
    single = len(forecast.lanes) == 1 and not forecast.lanes[0].key
    for item in forecast:
        label = item.label if single else ""
        found.setdefault((label, item.calculation.name, item.resources), []).append(item)
    return found

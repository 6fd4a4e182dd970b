"""What a job, or every member of a sweep, is expected to compute; and what of it can never run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grafico.calculations import Resources
from grafico.cluster import Profile
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.placement import demand, placed, refusal
from grafico.cluster.simulate import Chains, Step
from grafico.errors import ProfileError
from grafico.graphs import Foreseen
from grafico.jobs.catalog import blame
from grafico.jobs.load import LoadedJob
from grafico.jobs.provenance import store_of

__all__ = ["Forecast", "ForecastLane", "by_kind", "forecast_of", "refused", "workers_of"]

TELL_S = 2.0
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


def forecast_of(loaded: LoadedJob, say: Callable[[str], None] | None = None) -> Forecast:
    """Ask the graph what a job, or each member of a sweep, will compute.

    Parameters
    ----------
    say
        Told how far it has come with many members.
    """
    graph, sweep = loaded.graph, loaded.sweep
    if graph.foresee is None:
        return Forecast((), 1)
    if sweep is None:
        return Forecast((ForecastLane("", _foreseen(loaded, graph, loaded.request)),), 1)
    from grafico.jobs.sweeps.graph import LANES

    lanes = []
    known: dict[Resources, Resources] = {}
    told = time.monotonic()
    for lane, request in sweep.requests():
        # Members that need the same share one description of it: there may be very many.
        found = tuple(_sharing(item, known) for item in _foreseen(loaded, graph, request))
        lanes.append(ForecastLane(lane.key, found))
        if say is not None and time.monotonic() - told > TELL_S:
            told = time.monotonic()
            say(f"foreseeing members: {len(lanes)} of {len(sweep.lanes)}")
    return Forecast(tuple(lanes), LANES)


def _foreseen(loaded: LoadedJob, graph: Any, request: Any) -> tuple[Foreseen, ...]:
    with store_of(loaded.job), blame(loaded.job.graph, "the forecast"):
        return tuple(graph.foresee(request))


def _sharing(item: Foreseen, known: dict[Resources, Resources]) -> Foreseen:
    from dataclasses import replace

    same = known.setdefault(item.resources, item.resources)
    return item if same is item.resources else replace(item, resources=same)


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


def refused(forecast: Forecast, workers: Sequence[WorkerSpec], profile: str) -> ProfileError | None:
    """Return why some of it can never run: everything that cannot, with the nearest that there is; None if all can."""
    problems: dict[str, list[str]] = {}
    hints: dict[str, None] = {}
    fine: set[Resources] = set()
    for lane in forecast.lanes:
        for item in lane.foreseen:
            if item.resources in fine:
                continue
            error = refusal(item.resources, workers, profile)
            if error is None:
                fine.add(item.resources)
                continue
            problems.setdefault(f"{item.label or item.calculation.name}: {error.message}", []).append(lane.key)
            if error.hint:
                hints[error.hint] = None
    if not problems:
        return None
    hint = "; ".join(hints) or None
    lines = [f"{text}{_in(keys)}" for text, keys in problems.items()]
    if len(lines) == 1:
        return ProfileError(lines[0], hint=hint)
    listed = "\n".join(f"  {line}" for line in lines)
    return ProfileError(f"{len(lines)} kinds of calculations can never run:\n{listed}", hint=hint)


def _in(keys: Sequence[str]) -> str:
    keys = [key for key in dict.fromkeys(keys) if key]
    if not keys:
        return ""
    more = f" and {len(keys) - SHOWN_MEMBERS} more" if len(keys) > SHOWN_MEMBERS else ""
    return f" (members {', '.join(keys[:SHOWN_MEMBERS])}{more})"


def by_kind(forecast: Forecast) -> Mapping[tuple[str, str, Resources], list[Foreseen]]:
    """Return the foreseen calculations by kind: by label for a job, by calculation and needs for a sweep."""
    found: dict[tuple[str, str, Resources], list[Foreseen]] = {}
    single = len(forecast.lanes) == 1 and not forecast.lanes[0].key
    for item in forecast:
        label = item.label if single else ""
        found.setdefault((label, item.calculation.name, item.resources), []).append(item)
    return found

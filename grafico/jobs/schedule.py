"""The schedule of a dry run: how long it takes on a profile, how busy the workers are, and what it may cost."""

import math
from collections.abc import Callable, Mapping, Sequence

from pydantic import Field

from grafico.calculations import Model, Resources
from grafico.cluster import Profile
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.simulate import Busy, Schedule, simulate
from grafico.graphs import Foreseen, Limits
from grafico.jobs.forecast import Forecast

__all__ = ["MAX_SIMULATED", "Cost", "Scheduled", "at_most", "schedule", "typically"]

MAX_SIMULATED = 50_000
"""Calculations that are scheduled one by one; of more, only sums are told."""
BINS = 48
ROWS = 16
"""Workers beyond which a picture shows whole pools."""
SHADES = " ░▒▓█"


class Cost(Model):
    """What a run takes of a batch system at most, waiting in its queue left out."""

    hosts: Mapping[str, int] = Field(description="hosts at once, by pool")
    node_hours: float = Field(description="of all hosts")
    gpu_hours: float
    core_hours: float


class Scheduled(Model):
    """A simulated schedule."""

    makespan_s: float
    calculations: int = Field(description="that run; those that are the same run once")
    busy: Mapping[str, float] = Field(description="part of each worker's places that is used, over the whole time")
    longest_lane_s: float
    gantt: tuple[str, ...] = Field(description="a line for each worker (or pool): how full it is over time")
    cost: Cost | None = Field(default=None, description="for Slurm")


def at_most(item: Foreseen, resources: Resources) -> float:  # noqa: ARG001
    """Return the seconds after which a calculation is killed."""
    return resources.walltime_s


def typically(item: Foreseen, resources: Resources) -> float:
    """Return about how long a calculation takes; its walltime where that cannot be told."""
    seconds = item.seconds
    if resources.gpu == "none" and item.resources.gpu != "none":
        seconds = item.seconds_without_gpu or seconds
    return resources.walltime_s if seconds is None else min(seconds, resources.walltime_s)


def schedule(
    forecast: Forecast,
    profile: Profile,
    workers: Sequence[WorkerSpec],
    seconds: Callable[[Foreseen, Resources], float],
) -> Scheduled | None:
    """Simulate a job on the workers of a profile; ``None`` where there is nothing, or far too much, to simulate."""
    if not 0 < forecast.count <= MAX_SIMULATED:
        return None
    found = simulate(
        forecast.simulated(workers, seconds), workers, open_at_once=forecast.limit, open_at_most=Limits().most_lanes
    )
    return Scheduled(
        makespan_s=found.makespan_s,
        calculations=found.steps,
        busy={worker.name: round(found.share(worker), 4) for worker in workers},
        longest_lane_s=max(found.lanes_s, default=0.0),
        gantt=tuple(_gantt(found, workers)),
        cost=_cost(found, profile, workers) if profile.kind == "slurm" else None,
    )


def _cost(found: Schedule, profile: Profile, workers: Sequence[WorkerSpec]) -> Cost:
    """Count a host as long as it is busy, and until it is given back; all the time where it is kept."""
    hosts: dict[tuple[str, str], list[WorkerSpec]] = {}
    for worker in workers:
        # In an allocation, each node has all pools.
        hosts.setdefault((worker.pool if profile.elastic else "nodes", worker.host), []).append(worker)
    spans: dict[str, list[tuple[float, float]]] = {}
    node_s = gpu_s = core_s = 0.0
    for (pool, label), own in hosts.items():
        busy = [span for worker in own for span in found.busy[worker.name]]
        kept = not profile.elastic or int(label) <= profile.pool(pool).scale.min
        if not busy and not kept:
            continue
        alive = [(0.0, found.makespan_s)] if kept else _alive(busy, profile.idle_s)
        spans.setdefault(pool, []).extend(alive)
        lived = sum(end - begin for begin, end in alive)
        node_s += lived
        gpu_s += lived * sum(worker.is_gpu for worker in own)
        core_s += lived * sum(w.cpus or w.threads * w.slots for w in own)
    return Cost(
        hosts={pool: _at_once(own) for pool, own in spans.items()},
        node_hours=round(node_s / 3600, 2),
        gpu_hours=round(gpu_s / 3600, 2),
        core_hours=round(core_s / 3600, 1),
    )


def _alive(busy: Sequence[Busy], idle_s: float) -> list[tuple[float, float]]:
    """Return when a host is there: it is given back when it has been idle for so long, and another one comes later."""
    alive: list[tuple[float, float]] = []
    for span in sorted(busy, key=lambda item: item.start):
        if alive and span.start <= alive[-1][1]:
            alive[-1] = (alive[-1][0], max(alive[-1][1], span.end + idle_s))
        else:
            alive.append((span.start, span.end + idle_s))
    return alive


def _at_once(spans: Sequence[tuple[float, float]]) -> int:
    events = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most


def _gantt(found: Schedule, workers: Sequence[WorkerSpec]) -> list[str]:
    rows: dict[str, list[WorkerSpec]] = {}
    for worker in workers:
        rows.setdefault(worker.name if len(workers) <= ROWS else f"pool {worker.pool}", []).append(worker)
    width = max(map(len, rows))
    lines = []
    for name, own in rows.items():
        spans = [span for worker in own for span in found.busy[worker.name]]
        places = sum(worker.places for worker in own)
        shares = _bins(spans, places, found.makespan_s)
        bar = "".join(SHADES[min(len(SHADES) - 1, math.ceil(share * (len(SHADES) - 1) - 1e-9))] for share in shares)
        whole = sum(shares) / len(shares)
        lines.append(f"{name:<{width}} │{bar}│ {whole:4.0%}")
    return lines


def _bins(spans: Sequence[Busy], places: int, makespan: float) -> list[float]:
    """Return how full some workers are in each part of the time."""
    if not makespan or not places:
        return [0.0] * BINS
    step = makespan / BINS
    # The change at each edge, and what begins or ends within a part: linear in the number of spans.
    found = [0.0] * BINS
    slope = [0.0] * (BINS + 1)
    for span in spans:
        first, last = min(BINS - 1, int(span.start / step)), min(BINS - 1, int(span.end / step))
        if first == last:
            found[first] += (span.end - span.start) * span.places
            continue
        found[first] += ((first + 1) * step - span.start) * span.places
        found[last] += (span.end - last * step) * span.places
        slope[first + 1] += span.places
        slope[last] -= span.places
    level = 0.0
    for index in range(BINS):
        level += slope[index]
        found[index] += level * step
    return [min(1.0, value / (step * places)) for value in found]

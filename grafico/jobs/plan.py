"""The dry run: what a job would do, where, and for how long at most; nothing is created or submitted."""

import math
from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from grafico.calculations import Model, Resources
from grafico.cluster import Profile
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.placement import demand, placed, taken
from grafico.cluster.pool import Pool
from grafico.errors import ProfileError
from grafico.graphs import Foreseen
from grafico.graphs.drawing import draw_graph
from grafico.jobs.engines import Engine, engine_notes, engines_of, missing_engines
from grafico.jobs.files import files_of
from grafico.jobs.forecast import Forecast, by_kind, forecast_of, refused, workers_of
from grafico.jobs.launch import Prepared
from grafico.jobs.load import LoadedJob
from grafico.jobs.outline import graph_lines
from grafico.jobs.schedule import Scheduled, at_most, schedule, typically
from grafico.jobs.sweeps import sweep_graph
from grafico.units import spell_seconds

__all__ = ["Engine", "Plan", "Planned", "Worker", "admit", "describe_resources", "foreseen_of", "make_plan"]

HOST_MIB_A_GPU = 32 * 1024
"""Memory of the host for each GPU that is planned for and not here; such machines have more as a rule, MiB."""


class Worker(Model):
    """A worker of the profile."""

    name: str
    kind: str = Field(description="CPUs or GPU")
    places: int = Field(description="slots, or CPU threads")
    memory_mib: int
    gpu_memory_mib: int = 0


class Planned(Model):
    """Calculations of one kind that are foreseen."""

    label: str
    calculation: str
    version: str
    family: str
    count: int = Field(description="how many, if nothing fails")
    resources: Resources
    where: tuple[str, ...] = Field(description="workers that can run it")
    at_once: int = Field(description="how many of them fit at the same time")
    bound_s: float = Field(description="seconds, if each took all of its walltime")


class Plan(Model):
    """What a job would do."""

    job: str
    name: str
    graph: str
    graph_version: str
    profile: str
    workers: tuple[Worker, ...]
    outline: tuple[str, ...]
    mermaid: str
    members: int | None = Field(default=None, description="of a sweep, or of its shard")
    total_members: int | None = Field(default=None, description="of the whole sweep")
    lanes: int | None = Field(default=None, description="of a sweep: members that ask for the same share one")
    calculations: tuple[Planned, ...]
    foreseen: int = Field(default=0, description="calculations, if nothing fails")
    distinct: int = Field(
        default=0, description="those of them that run, as far as it can be told that some are the same"
    )
    bound: Scheduled | None = Field(default=None, description="the schedule if each took all of its walltime")
    typical: Scheduled | None = Field(
        default=None, description="the schedule if each took about what it takes as a rule"
    )
    engines: tuple[Engine, ...]
    refused: str | None = Field(default=None, description="why a run would be refused here: engines that are missing")
    files: tuple[str, ...]
    walltime_bound_s: float = Field(description="seconds, if each calculation took all of its walltime")
    persists: bool
    notes: tuple[str, ...] = ()


def admit(prepared: Prepared) -> Sequence[str]:
    """Refuse a job of which something can never run on its profile, before anything is created.

    Returns
    -------
    What people should know before it begins.

    Raises
    ------
    ProfileError
        This machine lacks what the profile asks for, or no worker of it is large enough: names all that cannot run,
        each with the nearest worker.
    MissingExtra
        Engines are not installed where it would run: names all of them.
    """
    forecast, profile = forecast_of(prepared.loaded), prepared.profile
    if (error := refused(forecast, workers_of(profile), profile.name)) is not None:
        raise error
    engines = engines_of(forecast, profile)
    if (lacking := missing_engines(engines, profile)) is not None:
        raise lacking
    return engine_notes(engines, profile)


def foreseen_of(prepared: Prepared) -> Sequence[Foreseen]:
    """Return the calculations that the graph foresees for the job, those of all members of a sweep."""
    return tuple(forecast_of(prepared.loaded))


def make_plan(prepared: Prepared) -> Plan:
    """Work out what a job would do, with a simulated schedule.

    Raises
    ------
    ProfileError
        No worker of the profile can ever run some of what is foreseen: names all of it.
    """
    loaded, profile, sweep = prepared.loaded, prepared.profile, prepared.loaded.sweep
    workers, as_if = _workers(profile)
    forecast = forecast_of(loaded)
    if (error := refused(forecast, workers, profile.name)) is not None:
        raise error
    planned = tuple(_planned(items, label, workers) for (label, _, _), items in by_kind(forecast).items())
    bound = schedule(forecast, profile, workers, at_most)
    engines = engines_of(forecast, profile)
    lacking = None if as_if else missing_engines(engines, profile)
    can_tell = any(item.seconds is not None for item in forecast)
    graph = loaded.graph if sweep is None else sweep_graph(loaded.graph, loaded.job)
    return Plan(
        job=str(loaded.path),
        name=loaded.job.name,
        graph=graph.id,
        graph_version=graph.version,
        profile=profile.name,
        workers=tuple(_worker(worker) for worker in workers),
        outline=tuple(graph_lines(loaded.graph)),
        mermaid=draw_graph(loaded.graph),
        members=None if sweep is None else sweep.count,
        total_members=None if sweep is None else sweep.total,
        lanes=None if sweep is None else len(sweep.lanes),
        calculations=planned,
        foreseen=forecast.count,
        distinct=forecast.distinct,
        bound=bound,
        typical=schedule(forecast, profile, workers, typically) if can_tell else None,
        engines=engines,
        refused=None if lacking is None else f"{lacking.message} ({lacking.hint})",
        files=_files(loaded),
        walltime_bound_s=bound.makespan_s if bound else sum(item.bound_s for item in planned),
        persists=loaded.job.knowledge.persist,
        notes=tuple(_notes(prepared, forecast, workers, bound, as_if)) + engine_notes(engines, profile),
    )


def _files(loaded: LoadedJob) -> tuple[str, ...]:
    if loaded.sweep is None:
        return tuple(str(path) for _, path in files_of(loaded.request))
    found = (path for _, request in loaded.sweep.requests() for _, path in files_of(request))
    return tuple(dict.fromkeys(map(str, found)))


def _notes(
    prepared: Prepared, forecast: Forecast, workers: Sequence[WorkerSpec], bound: Scheduled | None, as_if: str
) -> Iterator[str]:
    """Yield what people should know of a plan."""
    profile = prepared.profile
    if as_if:
        yield f"planned as if the GPUs of the profile were here, with {HOST_MIB_A_GPU // 1024} GiB of memory for each where it gives none: {as_if}"
    if not forecast.count:
        yield f"the graph {prepared.loaded.graph.id} foresees no calculations"
    elif bound is None:
        yield f"{forecast.count:,} calculations are too many to schedule one by one; the bound takes kind after kind"
    wants_gpu = any(item.resources.gpu != "none" for item in forecast)
    if wants_gpu and not any(worker.is_gpu for worker in workers):
        yield "the profile has no GPU: calculations that could use one run on CPUs"
    blind = dict.fromkeys(item.label or item.calculation.name for item in forecast if item.seconds is None)
    if blind and any(item.seconds is not None for item in forecast):
        yield f"how long these take as a rule is not known, and their walltime counts: {', '.join(list(blind)[:6])}"
    lives = max((worker.walltime_s for worker in workers), default=0.0)
    long = [lane for lane in forecast.lanes if lives and lane.longest_s > lives]
    if long:
        what = (
            "the job"
            if not long[0].key
            else f"{len(long)} members ({', '.join(lane.key for lane in long[:4])}{' …' if len(long) > 4 else ''})"
        )
        yield (
            f"{what} may take {spell_seconds(max(lane.longest_s for lane in long))}, longer than a host lives "
            f"({spell_seconds(lives)}): each calculation fits, and the next one goes to another host"
        )
    if profile.kind == "slurm" and bound is not None:
        own = profile.slurm_of_controller().walltime_s
        if own and bound.makespan_s > own:
            times = math.ceil(bound.makespan_s / own) - 1
            yield f"a submitted controller lives {spell_seconds(own)}: it may go back into the queue {times} times"
    if prepared.loaded.sweep is not None and prepared.loaded.sweep.shard is not None:
        yield "what members of different shards share is computed in each of them"


def _workers(profile: Profile) -> tuple[tuple[WorkerSpec, ...], str]:
    """Return the workers of a profile; where its GPUs are not here, as if they were, and why."""
    try:
        return workers_of(profile), ""
    except ProfileError as error:
        if profile.kind == "connect":
            raise
        pools = tuple(_as_if(pool) if pool.has_gpus else pool for pool in profile.pools)
        if pools == profile.pools:
            raise
        return lay_out(profile.model_copy(update={"pools": pools})), error.message


def _as_if(pool: Pool) -> Pool:
    """Return a pool whose GPUs are pretended, and with them the memory of a machine that has such."""
    count = 1 if pool.gpus == "auto" else len(pool.gpus) if isinstance(pool.gpus, tuple) else pool.gpus
    memory = count * HOST_MIB_A_GPU if pool.memory_mib == "auto" else pool.memory_mib
    return pool.model_copy(update={"simulated": True, "gpus": count, "memory_mib": memory})


def _planned(items: Sequence[Foreseen], label: str, workers: Sequence[WorkerSpec]) -> Planned:
    first, count = items[0], sum(item.count for item in items)
    resources, calculation = placed(first.resources, workers), first.calculation
    need = demand(resources, workers)
    at_once, where = 0, []
    for worker in workers:
        part = taken(need, worker)
        if part is not None:
            at_once += min(worker.capacity[name] // amount for name, amount in part.items() if amount)
            where.append(worker.name)
    rounds = math.ceil(count / max(1, at_once))
    return Planned(
        label=label or calculation.name,
        calculation=calculation.name,
        version=calculation.version,
        family=calculation.family,
        count=count,
        resources=resources,
        where=tuple(where),
        at_once=min(at_once, count),
        bound_s=rounds * resources.walltime_s,
    )


def _worker(spec: WorkerSpec) -> Worker:
    kind = ("simulated GPU" if spec.simulated else "GPU") if spec.is_gpu else "CPUs"
    return Worker(
        name=spec.name, kind=kind, places=spec.places, memory_mib=spec.memory_mib, gpu_memory_mib=spec.vram_mib
    )


def describe_resources(*resources: Resources) -> str:
    """Return resources in words; of several with the same kind of GPU share, from the least to the most."""
    gpu = {"none": "", "slot": "a GPU slot", "exclusive": "a whole GPU"}[resources[0].gpu]
    if gpu and any(item.gpu_memory_mib for item in resources):
        gpu += f" with {_span(item.gpu_memory_mib for item in resources)} MiB"
    cpus = _span(item.cpus for item in resources)
    memory = _span(item.memory_mib for item in resources)
    return ", ".join(part for part in (gpu, f"{cpus} CPU{'' if cpus == '1' else 's'}", f"{memory} MiB") if part)


def _span(amounts: Iterable[int]) -> str:
    found = sorted(set(amounts))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"

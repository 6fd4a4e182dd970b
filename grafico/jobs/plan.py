"""The dry run: what a job would do, where, and for how long at most; nothing is created or submitted."""

import math
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from pydantic import Field

from grafico.calculations import Model, Resources
from grafico.cluster import Profile
from grafico.cluster.layout import WorkerSpec, lay_out
from grafico.cluster.placement import demand, placed, refusal, taken
from grafico.errors import ProfileError
from grafico.graphs import Foreseen
from grafico.graphs.drawing import draw_graph
from grafico.jobs.catalog import blame, extra_for
from grafico.jobs.files import files_of
from grafico.jobs.launch import Prepared
from grafico.jobs.outline import graph_lines
from grafico.jobs.provenance import store_of

__all__ = ["Engine", "Plan", "Planned", "Worker", "admit", "describe_resources", "make_plan"]


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


class Engine(Model):
    """An engine that the calculations use."""

    name: str
    version: str | None
    get: str = ""


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
    calculations: tuple[Planned, ...]
    engines: tuple[Engine, ...]
    files: tuple[str, ...]
    walltime_bound_s: float = Field(
        description="seconds, if each calculation took all of its walltime, one kind after another"
    )
    persists: bool
    notes: tuple[str, ...] = ()


def admit(prepared: Prepared) -> None:
    """Refuse a job of which something can never run on its profile, before anything is created.

    Raises
    ------
    ProfileError
        This machine lacks what the profile asks for, or no worker of it is large enough; names the nearest.
    """
    profile = prepared.profile
    workers = lay_out(profile)
    for foreseen in foreseen_of(prepared):
        if (error := refusal(foreseen.resources, workers, profile.name)) is not None:
            raise ProfileError(f"{foreseen.label or foreseen.calculation.name}: {error.message}", hint=error.hint)


def foreseen_of(prepared: Prepared) -> Sequence[Foreseen]:
    """Return the calculations that the graph foresees for the job."""
    graph = prepared.loaded.graph
    if graph.foresee is None:
        return ()
    with store_of(prepared.loaded.job), blame(prepared.loaded.job.graph, "the forecast"):
        return tuple(graph.foresee(prepared.loaded.request))


def make_plan(prepared: Prepared) -> Plan:
    """Work out what a job would do.

    Raises
    ------
    ProfileError
        No worker of the profile can ever run a calculation that is foreseen.
    """
    loaded, notes = prepared.loaded, []
    workers, as_if = _workers(prepared.profile)
    if as_if:
        notes.append(f"planned as if the GPUs of the profile were here: {as_if}")
    foreseen = foreseen_of(prepared)
    if not foreseen:
        notes.append(f"the graph {loaded.graph.id} foresees no calculations")
    planned = tuple(_planned(item, workers, prepared.profile) for item in foreseen)
    if any(item.resources.gpu != "none" for item in planned) and not any(worker.is_gpu for worker in workers):
        notes.append("the profile has no GPU: calculations that could use one run on CPUs")
    return Plan(
        job=str(loaded.path),
        name=loaded.job.name,
        graph=loaded.graph.id,
        graph_version=loaded.graph.version,
        profile=prepared.profile.name,
        workers=tuple(_worker(worker) for worker in workers),
        outline=tuple(graph_lines(loaded.graph)),
        mermaid=draw_graph(loaded.graph),
        calculations=planned,
        engines=tuple(_engine(family) for family in sorted({item.family for item in planned} - {"python"})),
        files=tuple(str(path) for _, path in files_of(loaded.request)),
        walltime_bound_s=sum(item.bound_s for item in planned),
        persists=loaded.job.knowledge.persist,
        notes=tuple(notes),
    )


def _workers(profile: Profile) -> tuple[tuple[WorkerSpec, ...], str]:
    """Return the workers of a profile; where its GPUs are not here, as if they were, and why."""
    try:
        return lay_out(profile), ""
    except ProfileError as error:
        pools = tuple(
            pool.model_copy(update={"simulated": True, "gpus": 1 if pool.gpus == "auto" else pool.gpus})
            if pool.has_gpus
            else pool
            for pool in profile.pools
        )
        if pools == profile.pools:
            raise
        return lay_out(profile.model_copy(update={"pools": pools})), error.message


def _planned(foreseen: Foreseen, workers: Sequence[WorkerSpec], profile: Profile) -> Planned:
    resources, calculation = placed(foreseen.resources, workers), foreseen.calculation
    if (error := refusal(resources, workers, profile.name)) is not None:
        raise ProfileError(f"{foreseen.label or calculation.name}: {error.message}", hint=error.hint)
    need = demand(resources, workers)
    at_once, where = 0, []
    for worker in workers:
        part = taken(need, worker)
        if part is not None:
            at_once += min(worker.capacity[name] // amount for name, amount in part.items() if amount)
            where.append(worker.name)
    rounds = math.ceil(foreseen.count / max(1, at_once))
    return Planned(
        label=foreseen.label or calculation.name,
        calculation=calculation.name,
        version=calculation.version,
        family=calculation.family,
        count=foreseen.count,
        resources=resources,
        where=tuple(where),
        at_once=min(at_once, foreseen.count),
        bound_s=rounds * resources.walltime_s,
    )


def _worker(spec: WorkerSpec) -> Worker:
    kind = ("simulated GPU" if spec.simulated else "GPU") if spec.is_gpu else "CPUs"
    return Worker(
        name=spec.name, kind=kind, places=spec.places, memory_mib=spec.memory_mib, gpu_memory_mib=spec.vram_mib
    )


def _engine(family: str) -> Engine:
    try:
        return Engine(name=family, version=version(family))
    except PackageNotFoundError:
        extra = extra_for(family)
        return Engine(name=family, version=None, get=f'pip install "grafico[{extra}]"' if extra else "")


def describe_resources(resources: Resources) -> str:
    """Return resources in words."""
    gpu = {"none": "", "slot": "a GPU slot", "exclusive": "a whole GPU"}[resources.gpu]
    if gpu and resources.gpu_memory_mib:
        gpu += f" with {resources.gpu_memory_mib} MiB"
    cpus = f"{resources.cpus} CPU{'s' if resources.cpus > 1 else ''}"
    return ", ".join(part for part in (gpu, cpus, f"{resources.memory_mib} MiB") if part)

"""What a calculation takes of a worker: by count, by memory, by GPU memory and by time."""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from grafico.calculations import Model, Resources
from grafico.cluster.layout import WorkerSpec

__all__ = ["END_MARGIN_S", "Demand", "WorkerView", "demand", "placed", "taken", "threads_for"]

END_MARGIN_S = 30.0
"""Seconds of an allocation that are not given out: for starting a process, and for committing at the end."""


class Demand(NamedTuple):
    """What a calculation takes of one worker; calculations of equal demand are one kind."""

    gpu: bool
    whole: bool
    vram_mib: int
    cpus: int
    memory_mib: int
    walltime_s: float


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
    gpu = resources.gpu != "none"
    return Demand(
        gpu=gpu,
        whole=resources.gpu == "exclusive",
        vram_mib=resources.gpu_memory_mib if gpu else 0,
        cpus=resources.cpus,
        memory_mib=resources.memory_mib,
        walltime_s=resources.walltime_s,
    )


def taken(need: Demand, worker: WorkerSpec) -> dict[str, int] | None:
    """Return the part of a worker's capacity that a demand takes, ``None`` if it is of the other kind or too large.

    Too large is also what lasts longer than the worker's allocation can. Without a stated GPU memory, a calculation
    counts as its slot's share of the card.
    """
    if need.gpu != worker.is_gpu or (worker.walltime_s and need.walltime_s + END_MARGIN_S > worker.walltime_s):
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

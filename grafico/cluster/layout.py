"""From a profile to the workers it means on this machine."""

from dataclasses import dataclass, field

from grafico.cluster.hardware import Gpu, available_cpus, available_memory_mib, detect_gpus
from grafico.cluster.profile import SIMULATED_MEMORY_MIB, Pool, Profile
from grafico.errors import ProfileError

__all__ = ["WorkerSpec", "lay_out"]

HOST_SHARE = 0.9
"""Part of the machine's memory that `auto` gives out; the rest is for the controller and the system."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One Dask worker process: all CPUs of a node, or one GPU."""

    name: str
    pool: str
    cpus: int
    """CPU threads that it gives out; 0 for a GPU's worker, which gives out slots."""
    memory_mib: int
    device: str = ""
    """What ``CUDA_VISIBLE_DEVICES`` gets: one UUID; empty for CPUs and simulated GPUs."""
    gpu: str = ""
    """The GPU's identity on this host, for leases and records; empty for CPUs."""
    slots: int = 0
    vram_mib: int = 0
    """GPU memory that calculations may take, MiB."""
    threads: int = 0
    """CPU threads of one slot; 0 for a CPU worker, where a calculation gets what it asked for."""
    simulated: bool = False
    preload: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_gpu(self) -> bool:
        """Whether it gives out slots of a GPU."""
        return bool(self.gpu)

    @property
    def capacity(self) -> dict[str, int]:
        """The worker's resources, as Dask counts them."""
        if self.is_gpu:
            return {"slot": self.slots, "vram_mib": self.vram_mib, "memory_mib": self.memory_mib}
        return {"cpu": self.cpus, "memory_mib": self.memory_mib}

    @property
    def places(self) -> int:
        """How many calculations it can run at once at most."""
        return self.slots if self.is_gpu else self.cpus


def lay_out(profile: Profile) -> tuple[WorkerSpec, ...]:
    """Return the workers of a profile on this machine.

    Raises
    ------
    ProfileError
        The machine lacks what the profile asks for.
    """
    gpus = detect_gpus() if any(pool.has_gpus and not pool.simulated for pool in profile.pools) else ()
    workers: list[WorkerSpec] = []
    share = int(available_memory_mib() * HOST_SHARE) // len(profile.pools)
    for pool in profile.pools:
        memory = share if pool.memory_mib == "auto" else pool.memory_mib
        cpus = available_cpus() if pool.cpus == "auto" else pool.cpus
        if not pool.has_gpus:
            workers.append(WorkerSpec(pool.name, pool.name, cpus, memory, environment=pool.environment))
            continue
        cards = _simulated(pool) if pool.simulated else _real(profile, pool, gpus)
        threads = pool.cpus_per_slot or max(1, cpus // max(1, len(cards) * pool.slots))
        for number, card in enumerate(cards):
            context = 0 if pool.simulated else pool.gpu_context_mib * pool.slots
            total = card.memory_mib if pool.gpu_memory_mib == "auto" else pool.gpu_memory_mib
            if total <= context:
                raise ProfileError(
                    f"profile {profile.name!r}, pool {pool.name!r}: {pool.slots} warm processes of {pool.gpu_context_mib} MiB"
                    f" leave nothing of a GPU's {total} MiB",
                    hint="lower slots or gpu_context_mib",
                )
            workers.append(
                WorkerSpec(
                    name=f"{pool.name}-{number}",
                    pool=pool.name,
                    cpus=0,
                    memory_mib=memory // len(cards),
                    device="" if pool.simulated else card.uuid,
                    gpu=card.uuid,
                    slots=pool.slots,
                    vram_mib=total - context,
                    threads=threads,
                    simulated=pool.simulated,
                    preload=() if pool.simulated else pool.preload,
                    environment=pool.environment,
                )
            )
    _no_shared_gpu(profile, workers)
    if not workers:
        raise ProfileError(
            f"profile {profile.name!r} comes to no workers on this machine: no NVIDIA GPU was found",
            hint="use the profile `laptop` for CPUs, or `simulated: true` to try it without GPUs",
        )
    return tuple(workers)


def _simulated(pool: Pool) -> list[Gpu]:
    names = pool.gpus if isinstance(pool.gpus, tuple) else tuple(str(n) for n in range(int(pool.gpus)))
    return [Gpu(name, f"simulated-{name}", SIMULATED_MEMORY_MIB, "simulated") for name in names]


def _real(profile: Profile, pool: Pool, found: tuple[Gpu, ...]) -> list[Gpu]:
    here = f"this machine has {len(found) or 'no'} visible GPU{'' if len(found) == 1 else 's'}"
    where = f"profile {profile.name!r}, pool {pool.name!r}"
    hint = "check `nvidia-smi`, or set `simulated: true` to try the profile without GPUs"
    if pool.gpus == "auto":
        return list(found)
    if isinstance(pool.gpus, int):
        if pool.gpus > len(found):
            raise ProfileError(f"{where}: {pool.gpus} GPUs asked for, {here}", hint=hint)
        return list(found[: pool.gpus])
    chosen = []
    for name in pool.gpus:
        match = [gpu for gpu in found if name in {gpu.index, gpu.uuid}]
        if not match:
            known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in found)
            raise ProfileError(f"{where}: no GPU {name!r}; {here}{': ' + known if known else ''}", hint=hint)
        chosen.append(match[0])
    return chosen


def _no_shared_gpu(profile: Profile, workers: list[WorkerSpec]) -> None:
    seen: dict[str, str] = {}
    for worker in workers:
        if worker.gpu and worker.gpu in seen:
            raise ProfileError(
                f"profile {profile.name!r}: GPU {worker.gpu} is in pool {seen[worker.gpu]!r} and in pool {worker.pool!r}",
                hint="a GPU belongs to one pool",
            )
        seen[worker.gpu] = worker.pool

"""From a profile to the workers it means: on this machine, on one host of a cluster, or as they are expected."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from grafico.cluster.hardware import Gpu, available_cpus, available_memory_mib, detect_gpus
from grafico.cluster.pool import SIMULATED_MEMORY_MIB, Pool
from grafico.cluster.profile import Profile
from grafico.errors import ProfileError

__all__ = ["WorkerSpec", "lay_out", "lay_out_host"]

HOST_SHARE = 0.9
"""Part of the machine's memory that `auto` gives out; the rest is for the controller and the system."""

SAME_CARD = 0.95
"""Of the stated memory, what a card of the kind that is meant has at least: drivers keep some for themselves."""

WORKER_MIB = 256
"""Memory of a Slurm job that is not given out, for its launcher and for each of its workers, MiB; at most a tenth."""


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
    host: str = ""
    """Label of the host that it belongs to; empty in a controller's own local cluster."""
    mps: bool = False
    """Whether its processes share the GPU through NVIDIA's multi-process service."""
    mps_optional: bool = False
    """Whether it works without that service if it does not start."""
    pin_cpus: bool = False
    cpu_set: tuple[int, ...] = ()
    """Processors of this machine that are its own, where calculations are pinned; empty: all that the process has."""
    walltime_s: float = 0.0
    """Seconds for which its host lives at most, known before it starts; 0: no end is known."""

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


@dataclass(frozen=True, slots=True)
class Share:
    """What a pool gets of one host."""

    cpus: int
    memory_mib: int
    gpus: Sequence[Gpu]
    processors: tuple[int, ...] = ()
    """To divide among its workers."""


def lay_out(profile: Profile) -> tuple[WorkerSpec, ...]:
    """Return the workers of a profile: those of this machine, or those that a cluster will have at its largest.

    The hosts of a pool that Slurm starts are laid out as the profile describes them, the largest number of them.

    Raises
    ------
    ProfileError
        The machine lacks what the profile asks for; no cluster is up that it connects to; or nobody can tell from
        here what it will have: the nodes of an allocation are seen only inside it.
    """
    if profile.kind == "connect":
        from grafico.cluster.connection import find_connection

        assert profile.connect is not None
        return find_connection(profile.connect).expected
    if profile.elastic:
        return tuple(
            worker
            for pool in profile.pools
            for number in range(1, pool.scale.max + 1)
            for worker in _expected(profile, pool, str(number))
        )
    if profile.kind == "slurm":
        return _expected_nodes(profile, os.environ)
    gpus = _detected(profile.pools, os.environ)
    shares = [_local_share(profile, pool, gpus) for pool in profile.pools]
    workers = [w for pool, share in zip(profile.pools, shares, strict=True) for w in _workers(profile, pool, share, "")]
    return _checked(profile, workers)


def lay_out_host(
    profile: Profile, pool_name: str, label: str, environ: Mapping[str, str] = os.environ
) -> tuple[WorkerSpec, ...]:
    """Return the workers of one pool on the host that this process runs on.

    Parameters
    ----------
    profile
        The cluster.
    pool_name
        Which of its pools.
    label
        What the host is called; workers are named ``pool-label-number``.
    environ
        Environment of the host's launcher: devices that it was given (``CUDA_VISIBLE_DEVICES``) are subdivided, and
        what Slurm granted (``SLURM_CPUS_ON_NODE``, ``SLURM_MEM_PER_NODE``) is not exceeded.

    Raises
    ------
    ProfileError
        The host lacks what the profile asks for. A host without GPUs has no workers of a pool with ``gpus: auto``.
    """
    pool = profile.pool(pool_name)
    gpus = _detected((pool,), environ)
    share = _local_share(profile, pool, gpus, environ) if profile.kind == "local" else _slurm_share(
        profile, pool, gpus, environ
    )  # fmt: skip
    workers = _workers(profile, pool, share, label)
    if profile.pins_cpus(pool):
        workers = _pinned(profile, workers, share.processors, environ)
    _no_shared_gpu(profile, workers)
    return tuple(workers)


# -- what a pool gets --------------------------------------------------------------------------------------------


def _detected(pools: Sequence[Pool], environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    return detect_gpus(environ) if any(pool.has_gpus and not pool.simulated for pool in pools) else ()


def _local_share(
    profile: Profile, pool: Pool, gpus: Sequence[Gpu], environ: Mapping[str, str] = os.environ
) -> Share:  # fmt: skip
    share = int(available_memory_mib() * HOST_SHARE) // len(profile.pools)
    memory = share if pool.memory_mib == "auto" else pool.memory_mib
    cpus = available_cpus() if pool.cpus == "auto" else pool.cpus
    return Share(cpus, memory, _cards(profile, pool, gpus, environ), _processors())


def _slurm_share(profile: Profile, pool: Pool, gpus: Sequence[Gpu], environ: Mapping[str, str]) -> Share:
    """Return what a pool gets of a host that Slurm gave us, all of it or (in an allocation) its part.

    Less than the profile's numbers is an error and not a smaller host: what was admitted would wait for ever.
    """
    granted = _number(environ, "SLURM_CPUS_ON_NODE")
    if pool.cpus == "auto":
        cpus = min(available_cpus(), granted or available_cpus())
    else:
        cpus = pool.cpus
        _enough(profile, pool, "cpus", there=granted or cpus, needed=cpus, what="CPUs")
    given = _number(environ, "SLURM_MEM_PER_NODE") or (
        (_number(environ, "SLURM_MEM_PER_CPU") or 0) * (granted or 0) or available_memory_mib()
    )
    cards = _cards(profile, pool, gpus, environ)
    if pool.memory_mib == "auto":
        memory = int(given * HOST_SHARE) // (1 if profile.elastic else _sharing(profile, environ))
    else:
        memory = _given_out(pool.memory_mib, len(cards) or 1)
        _enough(profile, pool, "memory_mib", there=given, needed=memory, what="MiB of memory")
    for card in cards:
        if isinstance(pool.gpu_memory_mib, int) and not pool.simulated:
            least, what = int(pool.gpu_memory_mib * SAME_CARD), f"MiB on its {card.name}"
            _enough(profile, pool, "gpu_memory_mib", there=card.memory_mib, needed=least, what=what)
    return Share(cpus, memory, cards, _processors())


def _sharing(profile: Profile, environ: Mapping[str, str]) -> int:
    """Return how many pools share a node of an allocation: one of all GPUs that there are is not on a node with none."""
    some = bool(_number(environ, "SLURM_GPUS_ON_NODE") or _detected(profile.pools, environ))
    return sum(some or pool.simulated or pool.gpus != "auto" for pool in profile.pools)


def _enough(profile: Profile, pool: Pool, key: str, *, there: int, needed: int, what: str) -> None:
    if there < needed:
        raise ProfileError(
            f"profile {profile.name!r}, pool {pool.name!r}: this host has {there} {what}, less than {key} says",
            hint=f"lower {key}, or have Slurm give more (`grafico cluster check` prints what it is asked for)",
        )


def _expected(profile: Profile, pool: Pool, label: str) -> list[WorkerSpec]:
    """Return the workers of a host that Slurm has not started yet; all that they have is given as numbers."""
    assert isinstance(pool.cpus, int)
    assert isinstance(pool.memory_mib, int)
    count = pool.gpus if isinstance(pool.gpus, int) else 0
    memory = SIMULATED_MEMORY_MIB if pool.gpu_memory_mib == "auto" else pool.gpu_memory_mib
    prefix = "simulated" if pool.simulated else f"{pool.name}-{label}"
    cards = [Gpu(str(n), f"{prefix}-{n}", memory, "expected") for n in range(count)]
    return _workers(profile, pool, Share(pool.cpus, _given_out(pool.memory_mib, count or 1), cards), label)


def _expected_nodes(profile: Profile, environ: Mapping[str, str]) -> tuple[WorkerSpec, ...]:
    """Return the workers of an allocation, as if each node were like this one; from outside, as the numbers say."""
    nodes = _number(environ, "SLURM_JOB_NUM_NODES")
    if nodes is not None:
        workers = [
            worker
            for pool in profile.pools
            for number in range(1, nodes + 1)
            for worker in lay_out_host(profile, pool.name, str(number), environ)
        ]
        return _checked(profile, workers, shared=True)
    unknown = [pool.name for pool in profile.pools if "auto" in (pool.cpus, pool.memory_mib, pool.gpus)]
    if unknown:
        raise ProfileError(
            f"profile {profile.name!r} takes what the nodes of an allocation have, which is seen only inside one",
            hint="start it there (grafico submit, sbatch slurm/run.sbatch, or salloc), or give the pools"
            f" {', '.join(unknown)} numbers of cpus, memory_mib and gpus",
        )
    return tuple(
        worker
        for pool in profile.pools
        for number in range(1, pool.scale.max + 1)
        for worker in _expected(profile, pool, str(number))
    )


def _given_out(memory_mib: int, workers: int) -> int:
    return memory_mib - min(WORKER_MIB * (1 + workers), memory_mib // 10)


def _number(environ: Mapping[str, str], name: str) -> int | None:
    match = re.match(r"\d+", environ.get(name, ""))
    return int(match.group()) if match and int(match.group()) > 0 else None


def _processors() -> tuple[int, ...]:
    try:
        return tuple(sorted(os.sched_getaffinity(0)))
    except AttributeError:  # not on macOS
        return ()


# -- from a share to workers -------------------------------------------------------------------------------------


def _workers(profile: Profile, pool: Pool, share: Share, label: str) -> list[WorkerSpec]:
    """Return the workers of one pool on one host; without a label, as a controller's own cluster names them."""
    settings = profile.slurm_of(pool)
    common = {
        "pool": pool.name,
        "environment": pool.environment,
        "host": label,
        "pin_cpus": profile.pins_cpus(pool),
        "walltime_s": float(settings.walltime_s or 0) if profile.kind == "slurm" else 0.0,
    }
    if not pool.has_gpus:
        name = f"{pool.name}-{label}-0" if label else pool.name
        return [WorkerSpec(name=name, cpus=share.cpus, memory_mib=share.memory_mib, **common)]  # type: ignore[arg-type]
    threads = pool.cpus_per_slot or max(1, share.cpus // max(1, len(share.gpus) * pool.slots))
    workers = []
    for number, card in enumerate(share.gpus):
        context = 0 if pool.simulated else pool.gpu_context_mib * pool.slots
        total = card.memory_mib if pool.gpu_memory_mib == "auto" else pool.gpu_memory_mib
        if profile.kind == "slurm":
            total = min(total, card.memory_mib) if not pool.simulated else total  # a node may have other cards
        if total <= context:
            raise ProfileError(
                f"profile {profile.name!r}, pool {pool.name!r}: {pool.slots} warm processes of {pool.gpu_context_mib} MiB"
                f" leave nothing of a GPU's {total} MiB",
                hint="lower slots or gpu_context_mib",
            )
        workers.append(
            WorkerSpec(
                name=f"{pool.name}-{label}-{number}" if label else f"{pool.name}-{number}",
                cpus=0,
                memory_mib=share.memory_mib // len(share.gpus),
                device="" if pool.simulated else card.uuid,
                gpu=card.uuid,
                slots=pool.slots,
                vram_mib=total - context,
                threads=threads,
                simulated=pool.simulated,
                preload=() if pool.simulated else pool.preload,
                mps=bool(pool.mps),
                mps_optional=pool.mps == "try",
                **common,  # type: ignore[arg-type]
            )
        )
    return workers


def _pinned(
    profile: Profile, workers: Sequence[WorkerSpec], processors: tuple[int, ...], environ: Mapping[str, str]
) -> list[WorkerSpec]:
    """Share this host's processors out among a pool's workers, where they are known to be this host's alone."""
    granted = _number(environ, "SLURM_CPUS_ON_NODE")
    if profile.kind == "slurm" and (granted is None or len(processors) > granted):
        # The site does not confine jobs: neighbors would be pinned to the same processors.
        return [replace(worker, pin_cpus=False) for worker in workers]
    each = len(processors) // max(1, len(workers))
    if each == 0 or (len(profile.pools) > 1 and not profile.elastic):
        return list(workers)
    sets = [processors[n * each : (n + 1) * each] for n in range(len(workers))]
    return [replace(worker, cpu_set=own) for worker, own in zip(workers, sets, strict=True)]


def _checked(profile: Profile, workers: Sequence[WorkerSpec], *, shared: bool = False) -> tuple[WorkerSpec, ...]:
    if not shared:
        _no_shared_gpu(profile, workers)
    if not workers:
        raise ProfileError(
            f"profile {profile.name!r} comes to no workers on this machine: no NVIDIA GPU was found",
            hint="use the profile `laptop` for CPUs, or `simulated: true` to try it without GPUs",
        )
    return tuple(workers)


def _cards(profile: Profile, pool: Pool, found: Sequence[Gpu], environ: Mapping[str, str]) -> list[Gpu]:
    if not pool.has_gpus:
        return []
    return _simulated(pool, environ) if pool.simulated else _real(profile, pool, found)


def _simulated(pool: Pool, environ: Mapping[str, str]) -> list[Gpu]:
    """Return pretended GPUs, called like those that Slurm gave, so that two jobs of one node have different ones."""
    names = pool.gpus if isinstance(pool.gpus, tuple) else tuple(str(n) for n in range(int(pool.gpus)))
    given = [word.strip() for word in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if word.strip()]
    if "SLURM_JOB_ID" in environ and isinstance(pool.gpus, int) and len(given) >= len(names):
        names = tuple(given[: len(names)])
    return [Gpu(name, f"simulated-{name}", SIMULATED_MEMORY_MIB, "simulated") for name in names]


def _real(profile: Profile, pool: Pool, found: Sequence[Gpu]) -> list[Gpu]:
    here = f"this machine has {len(found) or 'no'} visible GPU{'' if len(found) == 1 else 's'}"
    where = f"profile {profile.name!r}, pool {pool.name!r}"
    hint = "check `nvidia-smi`; to try it without GPUs, use the profile `sim-h100x4`, or set `simulated: true`"
    if pool.gpus == "auto":
        return list(found)
    if isinstance(pool.gpus, int):
        if pool.gpus > len(found):
            asked = f"{pool.gpus} GPU{'' if pool.gpus == 1 else 's'}"
            raise ProfileError(f"{where}: {asked} asked for, {here}", hint=hint)
        return list(found[: pool.gpus])
    chosen = []
    for name in pool.gpus:
        match = [gpu for gpu in found if name in {gpu.index, gpu.uuid}]
        if not match:
            known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in found)
            raise ProfileError(f"{where}: no GPU {name!r}; {here}{': ' + known if known else ''}", hint=hint)
        chosen.append(match[0])
    return chosen


def _no_shared_gpu(profile: Profile, workers: Sequence[WorkerSpec]) -> None:
    seen: dict[str, str] = {}
    for worker in workers:
        if worker.gpu and worker.gpu in seen:
            raise ProfileError(
                f"profile {profile.name!r}: GPU {worker.gpu} is in pool {seen[worker.gpu]!r} and in pool {worker.pool!r}",
                hint="a GPU belongs to one pool",
            )
        seen[worker.gpu] = worker.pool

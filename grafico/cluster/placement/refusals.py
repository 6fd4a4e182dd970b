"""What no worker can ever run is refused when it is asked for, with the nearest that there is."""

from collections.abc import Mapping, Sequence

from grafico.calculations import Resources
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement.needs import END_MARGIN_S, Demand, demand, taken
from grafico.errors import ProfileError

__all__ = ["refusal"]


def refusal(resources: Resources, workers: Sequence[WorkerSpec], profile: str) -> ProfileError | None:
    """Return why no worker can ever run this, with the nearest that there is; ``None`` if one can.

    Parameters
    ----------
    resources
        What is asked for.
    workers
        All workers that there may ever be (of an elastic pool, one host's are enough).
    profile
        The profile's name, for the message.
    """
    need = demand(resources, workers)
    if any(taken(need, worker) is not None for worker in workers):
        return None
    fitting = [worker for worker in workers if worker.is_gpu == need.gpu]
    if not fitting:
        kind = "GPU" if need.gpu else "CPU"
        return ProfileError(
            f"a calculation needs {_words(_asked(need))}, and the profile {profile!r} has no {kind} workers",
            hint="add a pool without gpus to the profile",
        )
    nearest = max(fitting, key=lambda worker: (_satisfied(need, worker), worker.memory_mib))
    asked, offered = _asked(need), _offered(nearest)
    hint = "lower what the job asks for, or choose a larger profile"
    if nearest.walltime_s and need.walltime_s + END_MARGIN_S > nearest.walltime_s:
        hint = "give the pool a longer walltime, lower what the job asks for, or choose a larger profile"
        asked["walltime_s"], offered["walltime_s"] = round(need.walltime_s), round(nearest.walltime_s - END_MARGIN_S)
    what = "a GPU worker" if need.gpu else "the CPU worker"
    return ProfileError(
        f"a calculation needs {_words(asked)}; no worker of the profile {profile!r} can ever give that: the nearest,"
        f" {what} {nearest.name!r}, has {_words(offered)}",
        hint=hint,
    )


def _asked(need: Demand) -> dict[str, int]:
    if need.gpu:
        return {"vram_mib": need.vram_mib, "memory_mib": need.memory_mib}
    return {"cpu": need.cpus, "memory_mib": need.memory_mib}


def _offered(worker: WorkerSpec) -> dict[str, int]:
    return {name: amount for name, amount in worker.capacity.items() if name != "slot"}


def _satisfied(need: Demand, worker: WorkerSpec) -> int:
    capacity = worker.capacity
    return sum(
        (
            need.memory_mib <= capacity["memory_mib"],
            need.vram_mib <= capacity.get("vram_mib", 0),
            need.gpu or need.cpus <= capacity["cpu"],
            not worker.walltime_s or need.walltime_s + END_MARGIN_S <= worker.walltime_s,
        )
    )


def _words(amounts: Mapping[str, int]) -> str:
    units = {
        "cpu": "CPUs",
        "memory_mib": "MiB of memory",
        "vram_mib": "MiB of GPU memory",
        "walltime_s": "s of walltime",
    }
    said = {name: amount for name, amount in amounts.items() if amount or name == "memory_mib"}
    return ", ".join(
        f"{amount} {'CPU' if (name, amount) == ('cpu', 1) else units[name]}" for name, amount in said.items()
    )

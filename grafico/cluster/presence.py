"""Which workers are there for a controller, which will never be, and what is awaited."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from grafico.calculations import CalculationTask, Failure, FailureKind
from grafico.cluster.fleet import PoolStatus
from grafico.cluster.layout import WorkerSpec
from grafico.cluster.placement import Pending, demand, placed, refusal, taken
from grafico.errors import ProfileError

__all__ = ["Presence"]


class Presence:
    """The workers that a controller knows of.

    Parameters
    ----------
    profile
        Name of the profile, for messages.
    expected
        The workers that it means. What can be admitted is judged by them: those that come may be fewer, or smaller.
    last_words
        Asked for what a worker's log says last.
    """

    def __init__(self, profile: str, expected: Sequence[WorkerSpec], last_words: Callable[[str], str]) -> None:
        self.profile = profile
        self.expected = tuple(expected)
        self.addresses: dict[str, str] = {}
        """Of the workers that are there, by name."""
        self.pools: tuple[PoolStatus, ...] = ()
        self.given_up: dict[str, str] = {}
        """Workers that die whenever they are started, and what their logs say."""
        self._last_words = last_words

    def up(self, name: str, address: str) -> None:
        """Count a worker in."""
        self.addresses[name] = address
        self.given_up.pop(name, None)

    def down(self, name: str, address: str) -> bool:
        """Count a worker out; False if it was not this one that was there."""
        if self.addresses.get(name) != address:
            return False
        del self.addresses[name]
        return True

    def give_up(self, name: str, words: str = "") -> None:
        """Take note that a worker dies whenever it is started."""
        self.given_up[name] = words or self._last_words(name)

    def hopeless(self, task: CalculationTask) -> Failure | None:
        """Return the failure of what only workers could do that do not start.

        Raises
        ------
        ProfileError
            Whoever was asked for hosts has refused to give any that could do it, or gives none that lasts so long.
        """
        refused = {pool.pool: pool.problem for pool in self.pools if pool.hopeless}
        lives = {pool.pool: pool for pool in self.pools if pool.life_s is not None}
        if not self.given_up and not refused and not lives:
            return None
        left = [
            _lasting(spec, lives[spec.pool].life_s) if spec.pool in lives else spec
            for spec in self.expected
            if spec.name not in self.given_up and spec.pool not in refused
        ]
        # What needs a GPU where there is none goes to CPUs: so it is judged by what was expected.
        need = placed(task.resources, self.expected)
        if left and refusal(need, left, self.profile) is None:
            return None
        able = [spec for spec in self.expected if taken(demand(need, self.expected), spec) is not None]
        if any(spec.pool in refused for spec in able):
            pool = next(spec.pool for spec in able if spec.pool in refused)
            raise ProfileError(
                f"no hosts for pool {pool!r} of the profile {self.profile!r}: {refused[pool]}",
                hint="mend the profile (`grafico cluster check` shows what it submits); `grafico resume` goes on then",
            )
        if able and not any(spec.name in self.given_up for spec in able):
            short = max((lives[spec.pool] for spec in able if spec.pool in lives), key=lambda pool: pool.life_s or 0.0)
            raise ProfileError(
                f"{task.label or task.name} may take {need.walltime_s:g} s, and no host lasts so long: {short.life_of}"
                f" {short.life_s:.0f} s",
                hint="ask Slurm for more time (the profile's slurm.walltime and controller.walltime, or sbatch --time),"
                " or lower what the job asks for; `grafico resume` goes on then",
            )
        words = next((self.given_up[spec.name] for spec in able if spec.name in self.given_up), "")
        message = f"{task.name}: the workers that could run it do not start: {words}"
        return Failure(kind=FailureKind.WORKER_LOST, message=message, where=task.name)

    @property
    def none_starts(self) -> bool:
        """Whether all that were expected have been given up."""
        return len(self.given_up) >= len(self.expected)

    def awaited(self, pending: Iterable[Pending], up: Iterable[tuple[WorkerSpec, float]]) -> str:
        """Return in words which workers what waits has to wait for, empty if such as could do it are there.

        Those that are there are given with the seconds that each has left.
        """
        there = list(up)
        said = {}
        for need in (each.need for each in pending):
            if any(taken(need, _lasting(spec, left)) is not None for spec, left in there):
                continue
            able = {spec.pool for spec, _ in there if taken(need, spec) is not None}
            for spec in self.expected:
                if taken(need, spec) is not None:
                    short = " whose workers have too little time left" if spec.pool in able else ""
                    said[spec.pool] = self._pool(spec.pool, short)
        return "waiting for a worker: " + "; ".join(said[pool] for pool in sorted(said)) if said else ""

    def _pool(self, name: str, more: str) -> str:
        status = next((pool for pool in self.pools if pool.pool == name), None)
        text = f"pool {name}{more}"
        if status is None:
            return text
        if status.queued:
            text += f", {status.queued} {'host' if status.queued == 1 else 'hosts'} asked for"
        return f"{text} ({status.problem})" if status.problem else text

    def problems(self) -> Mapping[str, str]:
        """Return what is wrong with pools, by name."""
        return {pool.pool: pool.problem for pool in self.pools if pool.problem}


def _lasting(spec: WorkerSpec, life_s: float | None) -> WorkerSpec:
    """Return a worker as it would be if its host lasted so long and no longer."""
    if life_s is None or math.isinf(life_s) or (spec.walltime_s and spec.walltime_s <= life_s):
        return spec
    return replace(spec, walltime_s=max(life_s, 1.0))  # 0 would be without an end

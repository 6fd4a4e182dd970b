"""Fleets: who keeps the hosts of a cluster running. The server has one, and asks it about once a second.

A *host* is one machine with workers, run by :mod:`grafico.cluster.host`. There are three ways to start it: as a process
beside the server (here), with ``srun`` on the nodes of the allocation that we are in, and as Slurm jobs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pydantic import Field

from grafico.calculations import Model
from grafico.cluster.profile import Profile

if TYPE_CHECKING:
    from grafico.cluster.placement import Pending

__all__ = ["Fleet", "HostView", "PoolStatus", "fleet_for"]


class PoolStatus(Model):
    """How a pool's hosts stand."""

    pool: str
    wanted: int = Field(default=0, ge=0, description="hosts that should be there")
    queued: int = Field(default=0, ge=0, description="hosts that were asked for and have not reported")
    up: int = Field(default=0, ge=0, description="hosts that have reported")
    problem: str = Field(default="", description="why it has fewer than wanted, for people")
    hopeless: bool = Field(default=False, description="it will never have a worker: the request itself was refused")
    life_s: float | None = Field(
        default=None,
        description="seconds that its hosts can last, where that was found to be less than the profile says",
    )
    life_of: str = Field(default="", description="what has no more, for people")


class HostView(Model):
    """A host that has workers, as the scheduler sees it."""

    label: str = Field(description="what the fleet called it")
    pool: str
    workers: tuple[str, ...]
    busy: int = Field(ge=0, description="tasks that it has in hand")
    idle_s: float = Field(ge=0, description="seconds since it had any")
    ends_at: float | None = Field(default=None, description="end of its allocation, seconds since the epoch")


class Fleet(Protocol):
    """Keeps hosts running."""

    async def start(self) -> None:
        """Ask for the first hosts; the scheduler listens, and the cluster folder says where.

        Raises
        ------
        ProfileError
            What the profile asks for is refused, and nothing is left of it.
        """
        ...

    async def adjust(self, pending: Mapping[str, "Sequence[Pending]"], hosts: Sequence[HostView]) -> None:
        """Submit, replace, retire: called about once a second.

        Parameters
        ----------
        pending
            By pool, what waits that a host of it could run, of all controllers together. What several pools could
            run stands at each of them.
        hosts
            Those that have workers now.
        """
        ...

    def status(self) -> tuple[PoolStatus, ...]:
        """Return how the pools stand."""
        ...

    async def close(self) -> None:
        """End all hosts, and leave nothing in a queue."""
        ...


def fleet_for(profile: Profile, folder: Path, scheduler_address: str) -> Fleet:
    """Return the fleet that a profile means.

    Parameters
    ----------
    profile
        Of kind ``local`` or ``slurm``.
    folder
        The cluster's folder.
    scheduler_address
        Where the scheduler listens.
    """
    if profile.kind == "local":
        from grafico.cluster.local import LocalFleet

        return LocalFleet(profile, folder)
    if profile.workers == "allocation":
        from grafico.cluster.slurm.allocation import AllocationFleet

        return AllocationFleet(profile, folder, scheduler_address)
    from grafico.cluster.slurm.elastic import ElasticFleet

    return ElasticFleet(profile, folder, scheduler_address)

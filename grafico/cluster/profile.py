"""A profile: a description of a cluster, validated, with nothing in it that depends on the machine that reads it."""

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from grafico.calculations import Json, Model
from grafico.cluster.pool import DEFAULT_SLOTS, SIMULATED_MEMORY_MIB, Pool
from grafico.cluster.slurm.settings import ControllerSettings, Scale, ShellLines, SlurmSettings

__all__ = ["DEFAULT_SLOTS", "SIMULATED_MEMORY_MIB", "ControllerSettings", "Pool", "Profile", "Scale", "SlurmSettings"]

CONNECTED = frozenset({"kind", "name", "description", "connect"})
"""What a profile may say of a cluster that somebody else started."""

OF_SLURM = ("workers", "slurm", "controller", "setup", "host", "linger_s", "idle_s", "python")
POOL_OF_SLURM = ("hosts", "setup", "container", "slurm")


def _switch(value: object) -> object:
    """YAML reads a bare ``off`` as false and ``on`` as true."""
    if value is False:
        return "off"
    if value is True:
        return 0
    return value


Dashboard: TypeAlias = Annotated[
    Literal["off"] | Annotated[int, Field(ge=0, le=65535, strict=True)], BeforeValidator(_switch)
]
Place: TypeAlias = Annotated[str, Field(min_length=1, max_length=500, pattern=r"^[^\s\x00-\x1f\x7f\"'`$\\]+$")]


class Profile(Model):
    """A cluster: pools of workers, and how they are looked after."""

    kind: Literal["local", "slurm", "connect"] = Field(
        default="local", description="`local`: this machine; `slurm`: jobs; `connect`: a cluster that is up"
    )
    name: str = Field(default="unnamed", min_length=1, max_length=80)
    description: str = ""
    pools: tuple[Pool, ...] = Field(default=(), max_length=16)
    dashboard: Dashboard = Field(default="off", description="`off`, or a port (0: any); the link holds a secret")
    security: Literal["tls", "none"] = Field(
        default="tls", description="`none`: whoever reaches the scheduler's port can run code as you"
    )
    max_tasks_per_process: int = Field(
        default=1000, ge=1, le=1_000_000_000, description="a process is replaced after so many calculations"
    )
    walltime_grace_s: float = Field(default=0.0, ge=0.0, le=3600.0, description="seconds added to every walltime")
    connect: Place | None = Field(default=None, description="connect: name or folder of a cluster that is up")
    workers: Literal["elastic", "allocation"] = Field(
        default="elastic", description="Slurm: jobs of their own, or the nodes of the allocation that we are in"
    )
    slurm: SlurmSettings = Field(default_factory=SlurmSettings, description="Slurm: what every job asks for")
    controller: ControllerSettings = Field(
        default_factory=ControllerSettings, description="Slurm: the job of `grafico submit`"
    )
    setup: ShellLines = Field(default=(), max_length=64, description="Slurm: shell lines at the start of every job")
    host: Place = Field(
        default="auto", description="Slurm: address or network interface on which the workers reach the scheduler"
    )
    linger_s: float = Field(
        default=600.0, ge=0.0, le=86400.0, description="Slurm: seconds that hosts outlive their controller"
    )
    idle_s: float = Field(
        default=120.0, ge=1.0, le=86400.0, description="Slurm: seconds after which an idle host above min is given back"
    )
    python: Place | None = Field(
        default=None, description="Slurm: Python on the hosts; default: this one, and python3 in a container"
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Profile":
        if self.kind == "connect":
            return self._connected()
        if self.connect is not None:
            raise ValueError(f"connect: only with kind: connect, not with kind: {self.kind}")
        if not self.pools:
            raise ValueError("pools: at least one is needed, as in pools: [{name: cpu}]")
        names = [pool.name for pool in self.pools]
        doubled = sorted({name for name in names if names.count(name) > 1})
        if doubled:
            raise ValueError(f"pools: two are called {doubled[0]!r}; names must differ")
        if not self.elastic and sum(not pool.has_gpus for pool in self.pools) > 1:
            raise ValueError("pools: a machine has one pool of CPUs; give one without gpus")
        if self.kind == "local":
            self._local()
        elif self.elastic:
            for pool in self.pools:
                self._elastic(pool)
        else:
            self._allocation()
        return self

    def _allocation(self) -> None:
        if len({pool.hosts for pool in self.pools}) > 1 or any(isinstance(p.hosts, Scale) for p in self.pools):
            raise ValueError("hosts: an allocation has one number of nodes, and each has all pools")
        extra = sorted(self.controller.model_fields_set - {"setup", "requeue", "warn_s"})
        if extra:
            raise ValueError(
                f"controller: {', '.join(extra)}: an allocation is one job, and the controller is in it; what that job asks"
                " for stands under slurm and the pools"
            )

    def _connected(self) -> "Profile":
        if self.connect is None:
            raise ValueError("connect: is missing: the name or folder of a cluster that is up (grafico cluster status)")
        extra = sorted(self.model_fields_set - CONNECTED)
        if extra:
            raise ValueError(f"{', '.join(extra)}: not with kind: connect; the cluster that is up has its own")
        return self

    def _local(self) -> None:
        extra = [name for name in OF_SLURM if name in self.model_fields_set]
        if extra:
            raise ValueError(f"{', '.join(extra)}: only with kind: slurm")
        for pool in self.pools:
            extra = [name for name in POOL_OF_SLURM if name in pool.model_fields_set]
            if extra:
                raise ValueError(f"pool {pool.name!r}: {', '.join(extra)}: only with kind: slurm")

    def _elastic(self, pool: Pool) -> None:
        where = f"pool {pool.name!r}"
        listed = isinstance(pool.gpus, tuple)
        if listed:
            raise ValueError(f"{where}: gpus: Slurm chooses the devices; give their number")
        needed = ("cpus", "memory_mib", *(("gpus", "gpu_memory_mib") if pool.has_gpus else ()))
        auto = [name for name in needed if getattr(pool, name) == "auto"]
        if auto == ["gpu_memory_mib"] and pool.simulated:
            auto = []
        if auto:
            raise ValueError(
                f"{where}: {', '.join(auto)}: give numbers for one host of the pool; nobody can see from here what"
                " its nodes have"
            )

    @property
    def elastic(self) -> bool:
        """Whether its hosts are Slurm jobs of their own."""
        return self.kind == "slurm" and self.workers == "elastic"

    def pool(self, name: str) -> Pool:
        """Return a pool by name."""
        return next(pool for pool in self.pools if pool.name == name)

    def slurm_of(self, pool: Pool) -> SlurmSettings:
        """Return what a job of a pool asks for."""
        return self.slurm.under(pool.slurm)

    def slurm_of_controller(self) -> SlurmSettings:
        """Return what the job of a controller asks for, besides its CPUs and memory."""
        return self.slurm.under(self.controller)

    def pins_cpus(self, pool: Pool) -> bool:
        """Whether calculations of a pool are kept on processors of their own."""
        return self.kind == "slurm" if pool.pin_cpus is None else pool.pin_cpus

    def to_json(self) -> dict[str, Json]:
        """Return what ``Profile.model_validate`` makes the same profile of."""
        return {"name": self.name, **self.model_dump(mode="json", exclude_unset=True)}
